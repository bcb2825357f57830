// load sends a bounded number of requests, paced (-rate) or as fast as it
// can (-rate 0), over HTTP/1.1, to an address on this machine only.
// It prints one JSON line.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	target := flag.String("target", "http://127.0.0.1:8080/items/1", "URL")
	rate := flag.Float64("rate", 2000, "requests per second, 0 = as fast as it goes")
	conns := flag.Int("conns", 16, "connections")
	dur := flag.Duration("d", 10*time.Second, "at most 2 minutes")
	n := flag.Int64("n", 0, "stop after so many requests (0: by time)")
	flag.Parse()
	*dur = min(*dur, 2*time.Minute)

	host := *target
	if u, err := url.Parse(*target); err == nil && u.Host != "" {
		host = u.Host
	}
	h, _, err := net.SplitHostPort(host)
	if ip := net.ParseIP(h); err != nil || ip == nil || !ip.IsLoopback() {
		log.Fatal("loopback targets only")
	}

	cl := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *conns, DisableCompression: true}}
	call := func() error {
		req, err := http.NewRequest("GET", *target, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/json")
		req.Header.Set("X-Request-Id", "0123456789abcdef")
		resp, err := cl.Do(req)
		if err != nil {
			return err
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode >= 400 {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	}

	var done, errs atomic.Int64
	var ticket atomic.Int64
	lat := make([][]time.Duration, *conns)
	start := time.Now()
	end := start.Add(*dur)
	var wg sync.WaitGroup
	for w := range *conns {
		wg.Go(func() {
			for {
				k := ticket.Add(1) - 1
				if *n > 0 && k >= *n {
					return
				}
				due := time.Now()
				if *rate > 0 {
					due = start.Add(time.Duration(float64(k) / *rate * 1e9))
					if d := time.Until(due); d > 0 {
						time.Sleep(d)
					}
				}
				t := time.Now()
				if t.After(end) {
					return
				}
				if err := call(); err != nil {
					if errs.Add(1) == 1 {
						fmt.Fprintln(os.Stderr, "first error:", err)
					}
				}
				done.Add(1)
				lat[w] = append(lat[w], time.Since(t))
			}
		})
	}
	wg.Wait()
	el := time.Since(start)
	all := slices.Concat(lat...)
	slices.Sort(all)
	q := func(p float64) float64 {
		if len(all) == 0 {
			return 0
		}
		return float64(all[min(len(all)-1, int(p*float64(len(all))))].Microseconds())
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"requests": done.Load(), "errors": errs.Load(), "seconds": el.Seconds(),
		"rps": float64(done.Load()) / el.Seconds(), "p50_us": q(.5), "p99_us": q(.99), "max_us": q(1)})
}
