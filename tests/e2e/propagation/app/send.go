package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const ownTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// What the sender knows of one request.
type sent struct {
	I     int      `json:"i"`
	Shape string   `json:"shape"`
	Own   bool     `json:"own"`  // it has a traceparent of the program's own
	Long  bool     `json:"long"` // its first two lines do not fit into net/http's buffer
	Got   *arrival `json:"got"`
	Error string   `json:"error,omitempty"`
}

// Gives its bytes in odd pieces.
type pieces struct {
	r     *rand.Rand
	data  []byte
	pause time.Duration
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := 1 + p.r.Intn(9000)
	if n > len(to) {
		n = len(to)
	}
	if n > len(p.data) {
		n = len(p.data)
	}
	time.Sleep(p.pause)
	copy(to, p.data[:n])
	p.data = p.data[n:]
	return n, nil
}

var methods = []string{"GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "PROPFIND", "BASELINE-CONTROL", "X"}

func text(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.Intn(len(letters))]
	}
	return string(b)
}

func path(r *rand.Rand) string {
	switch r.Intn(20) {
	case 0:
		return "/" + text(r, r.Intn(8000))
	case 1:
		return "/" + text(r, 3900+r.Intn(300)) // around the buffer's end
	case 2:
		return "/?a=traceparent:%0A" + text(r, 20)
	default:
		return "/" + text(r, r.Intn(200))
	}
}

func headers(r *rand.Rand, h http.Header) {
	n := 0
	switch r.Intn(12) {
	case 0:
		n = 8 + r.Intn(90)
	case 1: // up to 64 KB in many
		for i, k := 0, 100+r.Intn(400); i < k; i++ {
			h.Set(fmt.Sprintf("X-Many-%d", i), text(r, r.Intn(100)))
		}
	case 2: // and in one
		h.Set("X-Large", text(r, 3000+r.Intn(61000)))
	case 3:
	default:
		n = r.Intn(8)
	}
	for i := 0; i < n; i++ {
		h.Set(fmt.Sprintf("X-H-%d", i), text(r, r.Intn(300)))
	}
	if r.Intn(4) == 0 {
		h["User-Agent"] = nil // none is sent
	}
}

func withBody(r *rand.Rand, req *http.Request) string {
	size := r.Intn(3000)
	if r.Intn(10) == 0 {
		size = r.Intn(300000)
	}
	data := []byte(text(r, size))
	if r.Intn(10) == 0 { // a body that looks like a request itself
		data = append([]byte(req.Method+" / HTTP/1.1\r\nHost: x\r\n\r\n"), data...)
	}
	kind := r.Intn(5)
	switch kind {
	case 0:
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	case 1:
		req.Body, req.ContentLength = io.NopCloser(&pieces{r: r, data: data}), -1
	case 2:
		req.Body, req.ContentLength = io.NopCloser(&pieces{r: r, data: data}), int64(len(data))
	case 3:
		if len(data) > 9000 {
			data = data[:9000]
		}
		req.Body, req.ContentLength = io.NopCloser(&pieces{r: r, data: data, pause: time.Millisecond}), -1
	case 4: // goes out by sendfile
		f, err := os.CreateTemp("", "spoor-body")
		if err != nil {
			log.Fatal(err)
		}
		os.Remove(f.Name())
		f.Write(data)
		f.Seek(0, 0)
		req.Body, req.ContentLength = f, int64(len(data))
	}
	if len(data) == 0 && req.ContentLength == 0 {
		req.Body.Close()
		req.Body = http.NoBody
	}
	if r.Intn(6) == 0 && kind != 4 {
		req.Header.Set("Expect", "100-continue")
	}
	return fmt.Sprintf("body%d-%d", kind, size)
}

// The i-th request, always the same.
func make1(i int) (*http.Request, *sent) {
	r := rand.New(rand.NewSource(*seed*1000003 + int64(i)))
	s := &sent{I: i}
	method, where := methods[r.Intn(len(methods))], path(r)
	if *plain {
		method, where = "GET", fmt.Sprintf("/%d", i)
	}
	scheme := "http://"
	if *secure {
		scheme = "https://"
	}
	req, err := http.NewRequest(method, scheme+*address+where, nil)
	if err != nil {
		log.Fatal(err)
	}
	if *plain {
		return req, s
	}
	if r.Intn(6) == 0 {
		req.Host = text(r, 1+r.Intn(60)) + ".example.com"
	}
	if method == "GET" && r.Intn(2) == 0 {
		req.Method = "" // means GET
	}
	headers(r, req.Header)
	shape := ""
	if method != "GET" && method != "HEAD" && method != "X" && r.Intn(4) != 0 {
		shape = withBody(r, req)
	}
	if r.Intn(12) == 0 {
		s.Own = true
		name := []string{"Traceparent", "traceparent", "TRACEPARENT", "TraceParent"}[r.Intn(4)]
		req.Header[name] = []string{ownTrace}
		shape += " " + name
	}
	req.Close = r.Intn(15) == 0
	// "METHOD /path HTTP/1.1\r\nHost: host\r\n"
	s.Long = len(method)+1+len(req.URL.RequestURI())+11+len("Host: ")+len(hostOf(req))+2 > 4096
	s.Shape = fmt.Sprintf("%s path %d headers %d %s close %v", method, len(where), len(req.Header), shape, req.Close)
	return req, s
}

func hostOf(req *http.Request) string {
	if req.Host != "" {
		return req.Host
	}
	return req.URL.Host
}

func do(c *http.Client, i int) *sent {
	req, s := make1(i)
	answer, err := c.Do(req)
	if err != nil {
		s.Error = err.Error()
		return s
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	s.Got = &arrival{}
	if err := json.Unmarshal([]byte(answer.Header.Get("X-Arrived")), s.Got); err != nil {
		s.Error = "answer: " + err.Error()
	}
	return s
}

// A connection that is a *net.TCPConn no more.
type wrapper struct{ net.Conn }

func client() *http.Client {
	t := &http.Transport{MaxIdleConnsPerHost: *workers, MaxResponseHeaderBytes: 1 << 20}
	if *wrapped {
		t.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, to)
			return wrapper{c}, err
		}
	}
	if *secure {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer, _ := json.Marshal(arrival{Values: r.Header.Values("Traceparent")})
			w.Header().Set("X-Arrived", string(answer))
		}))
		*address = s.Listener.Addr().String()
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	}
	return &http.Client{Timeout: time.Minute, Transport: t}
}

func send() {
	c := client()
	all := make([]*sent, *count)
	next := int64(-1)
	if *idle {
		var open []io.ReadCloser
		for i := 0; i < *workers; i++ { // none is read until all are open: each takes a connection of its own
			answer, err := c.Get("http://" + *address + "/idle")
			if err != nil {
				log.Fatal(err)
			}
			open = append(open, answer.Body)
		}
		for _, body := range open {
			io.Copy(io.Discard, body)
			body.Close()
		}
	}
	fmt.Printf("{\"ready\": %d}\n", os.Getpid())
	var line string
	fmt.Scanln(&line)
	var wg sync.WaitGroup
	for w := 0; w < *workers; w++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for {
				i := int(atomic.AddInt64(&next, 1))
				if i >= len(all) {
					return
				}
				all[i] = do(c, *first+i)
				time.Sleep(time.Duration(*pace) * time.Microsecond)
			}
		}()
	}
	wg.Wait()
	report(all)
}

func report(all []*sent) {
	var b strings.Builder
	errors := 0
	for _, s := range all {
		if s.Error != "" {
			errors++
		}
		line, _ := json.Marshal(s)
		b.Write(line)
		b.WriteByte('\n')
	}
	if err := os.WriteFile(*out, []byte(b.String()), 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("{\"done\": %d, \"errors\": %d}\n", len(all), errors)
	fmt.Scanln(new(string)) // its connections stay until then
}
