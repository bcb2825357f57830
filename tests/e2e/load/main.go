// The load client. Reads requests as JSON lines on stdin, sends them over HTTP/1.1, TLS, HTTP/2 or h2c, and writes for each what
// a client sees: status, times, the address it came from. With -for it sends one request as fast as it can and counts.
package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

type request struct {
	RID     string      `json:"rid"`
	Method  string      `json:"method"`
	Path    string      `json:"path"` // as it goes over the wire, query included
	Host    string      `json:"host"`
	Headers [][2]string `json:"headers"`
	Body    int         `json:"body"`
	Cancel  int         `json:"cancel"` // ms after which the client gives up
}

type result struct {
	RID    string `json:"rid"`
	Status int    `json:"status"`
	Proto  string `json:"proto"`
	Bytes  int64  `json:"bytes"`
	Local  string `json:"local"`
	Start  int64  `json:"start"`
	End    int64  `json:"end"`
	Err    string `json:"err"`
}

var (
	base    = flag.String("base", "", "http://HOST:PORT")
	proto   = flag.String("proto", "h1", "h1, h1s and h2 (over TLS) or h2c")
	workers = flag.Int("c", 1, "requests at a time")
	conns   = flag.Int("conns", 0, "most connections (0: as many as workers)")
	each    = flag.Bool("reconnect", false, "a connection for each request")
	rate    = flag.Float64("rate", 0, "requests a second, 0: as fast as it goes")
	bench   = flag.Duration("for", 0, "send the first request for so long and only count")
)

func transport() *http.Transport {
	t := &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
		MaxIdleConnsPerHost: 1000,
		MaxConnsPerHost:     *conns,
		DisableKeepAlives:   *each,
		DisableCompression:  true,
	}
	var p http.Protocols
	switch *proto {
	case "h1", "h1s":
		p.SetHTTP1(true)
	case "h2":
		p.SetHTTP2(true)
	case "h2c":
		p.SetUnencryptedHTTP2(true)
	}
	t.Protocols = &p
	return t
}

func send(c *http.Client, q *request) (res result) {
	res.RID = q.RID
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if q.Cancel > 0 {
		time.AfterFunc(time.Duration(q.Cancel)*time.Millisecond, cancel)
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { res.Local = i.Conn.LocalAddr().String() }})
	var body io.Reader
	if q.Body > 0 {
		body = bytes.NewReader(make([]byte, q.Body))
	} else if *proto == "h1" || *proto == "h1s" {
		body = struct{ io.Reader }{bytes.NewReader(nil)} // none, but the transport cannot know: it never sends the request again
	}
	r, err := http.NewRequestWithContext(ctx, q.Method, *base, body)
	if err != nil {
		res.Err = err.Error()
		return
	}
	r.URL.Opaque = q.Path // the path goes out byte for byte
	if q.Host != "" {
		r.Host = q.Host
	}
	for _, h := range q.Headers {
		r.Header[h[0]] = append(r.Header[h[0]], h[1]) // spelling is kept
	}
	res.Start = time.Now().UnixNano()
	a, err := c.Do(r)
	if err != nil {
		res.End, res.Err = time.Now().UnixNano(), err.Error()
		return
	}
	res.Bytes, err = io.Copy(io.Discard, a.Body)
	a.Body.Close()
	res.End, res.Status, res.Proto = time.Now().UnixNano(), a.StatusCode, a.Proto
	if err != nil {
		res.Err = err.Error()
	}
	return
}

// What a client gives up is neither of the two redirects: the answers are counted one by one.
func client(t *http.Transport) *http.Client {
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func run(c *http.Client, requests []request) {
	jobs, out := make(chan *request), bufio.NewWriter(os.Stdout)
	enc := json.NewEncoder(out)
	var lock sync.Mutex
	var wg sync.WaitGroup
	for i := 0; i < *workers; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for q := range jobs {
				res := send(c, q)
				lock.Lock()
				_ = enc.Encode(res)
				lock.Unlock()
			}
		}()
	}
	begin := time.Now()
	for i := range requests {
		if *rate > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(float64(i) / *rate * 1e9))))
		}
		jobs <- &requests[i]
	}
	close(jobs)
	wg.Wait()
	out.Flush()
}

// Raw connections and one fixed request: more of them a second than with net/http's client.
func count(q *request) {
	var sent, answered int64
	var wg sync.WaitGroup
	end := time.Now().Add(*bench)
	for i := 0; i < *workers; i++ {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			conn, err := net.Dial("tcp", (*base)[len("http://"):])
			if err != nil {
				return
			}
			defer conn.Close()
			var text bytes.Buffer
			fmt.Fprintf(&text, "%s %s HTTP/1.1\r\nHost: test\r\n", q.Method, q.Path)
			for _, h := range q.Headers {
				fmt.Fprintf(&text, "%s: %s\r\n", h[0], h[1])
			}
			text.WriteString("\r\n")
			in := bufio.NewReader(conn)
			next := time.Now()
			for time.Now().Before(end) {
				if *rate > 0 {
					next = next.Add(time.Duration(float64(*workers) / *rate * 1e9))
					time.Sleep(time.Until(next))
				}
				atomic.AddInt64(&sent, 1)
				if _, err = conn.Write(text.Bytes()); err != nil {
					return
				}
				a, err := http.ReadResponse(in, nil)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, a.Body)
				a.Body.Close()
				atomic.AddInt64(&answered, 1)
			}
		}(i)
	}
	wg.Wait()
	_ = json.NewEncoder(os.Stdout).Encode(map[string]int64{"sent": sent, "answered": answered})
}

func main() {
	flag.Parse()
	var requests []request
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		q := request{Method: "GET"}
		if err := in.Decode(&q); err != nil {
			break
		}
		requests = append(requests, q)
	}
	if *bench > 0 {
		count(&requests[0])
		return
	}
	run(client(transport()), requests)
}
