// A web server that does as it is told on stdin, and says what its own runtime/metrics say:
//
//	self           {"self": {...}} of this moment
//	alloc N SIZE   N objects of SIZE bytes, kept; gc: a collection; free: keeps nothing any more;
//	               release: gives what is free back to the system
//	go N           N goroutines that wait; done: they end
//	busy MS        all processors for so long, with goroutines that wait for their turn
//	gogc N, limit BYTES, procs N
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

var (
	kept [][]byte
	stop = make(chan struct{})
	sink uint64
)

func self() map[string]interface{} {
	var samples []metrics.Sample
	for _, d := range metrics.All() {
		samples = append(samples, metrics.Sample{Name: d.Name})
	}
	metrics.Read(samples)
	out := map[string]interface{}{}
	for _, s := range samples {
		switch s.Value.Kind() {
		case metrics.KindUint64:
			out[s.Name] = s.Value.Uint64()
		case metrics.KindFloat64:
			out[s.Name] = s.Value.Float64()
		case metrics.KindFloat64Histogram:
			h := s.Value.Float64Histogram()
			edges := make([]float64, len(h.Buckets))
			for i, b := range h.Buckets {
				edges[i] = math.Max(-1e300, math.Min(1e300, b))
			}
			out[s.Name] = map[string]interface{}{"counts": append([]uint64(nil), h.Counts...), "edges": edges}
		}
	}
	return out
}

func busy(d time.Duration) {
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for i := 0; i < 4*runtime.GOMAXPROCS(0); i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			n := uint64(0)
			for time.Now().Before(end) {
				for k := 0; k < 10000; k++ {
					n += uint64(k)
				}
				runtime.Gosched()
			}
			sink = n
		}()
	}
	wg.Wait()
}

func do(word string, n, m int) {
	switch word {
	case "alloc":
		for i := 0; i < n; i++ {
			kept = append(kept, make([]byte, m))
		}
	case "free":
		kept = nil
	case "gc":
		runtime.GC()
	case "release":
		debug.FreeOSMemory()
	case "go":
		for i := 0; i < n; i++ {
			go func(stop chan struct{}) { <-stop }(stop)
		}
	case "done":
		close(stop)
		stop = make(chan struct{})
	case "busy":
		busy(time.Duration(n) * time.Millisecond)
	case "gogc":
		debug.SetGCPercent(n)
	case "limit":
		debug.SetMemoryLimit(int64(n))
	case "procs":
		runtime.GOMAXPROCS(n)
	}
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(map[string]interface{}{"ports": map[string]int{"h1": l.Addr().(*net.TCPAddr).Port}})
	go http.Serve(l, nil)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var word string
		var n, m int
		_, _ = fmt.Sscan(in.Text(), &word, &n, &m)
		if word == "self" {
			_ = out.Encode(map[string]interface{}{"self": self()})
			continue
		}
		do(word, n, m)
		_ = out.Encode(map[string]interface{}{"did": in.Text()})
	}
	select {}
}
