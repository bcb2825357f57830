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
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

const ownTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func text(r *rand.Rand, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.Intn(len(letters))]
	}
	return string(b)
}

// Gives its bytes in odd pieces.
type pieces struct {
	r    *rand.Rand
	data []byte
}

func (p *pieces) Read(to []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	n := 1 + p.r.Intn(9000)
	if n > len(to) {
		n = len(to)
	}
	n = copy(to[:n], p.data)
	p.data = p.data[n:]
	return n, nil
}

// Names and values, and how many bytes they are.
func headers(r *rand.Rand) (map[string]string, int) {
	n, h, size := r.Intn(8), map[string]string{}, 0
	long := 200
	switch r.Intn(14) {
	case 0:
		n = 8 + r.Intn(60)
	case 1: // too much for one frame
		n, long = 2+r.Intn(3), 20000
	case 2:
		n, long = 1, 5000
	case 3:
		n = 0
	}
	for i := 0; i < n; i++ {
		name, value := fmt.Sprintf("x-h-%d", i), text(r, r.Intn(long))
		if r.Intn(3) == 0 {
			value = "the same each time"
		}
		h[name] = value
		size += len(name) + len(value) + 40
	}
	return h, size
}

var methods = []string{"GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "PROPFIND"}

// The i-th request, always the same.
func make1(i int) (*http.Request, *sent) {
	r := rand.New(rand.NewSource(int64(i) + 1000003))
	s := &sent{I: i}
	method, where := methods[r.Intn(len(methods))], text(r, r.Intn(200))
	if r.Intn(20) == 0 && !*plain {
		where = text(r, 3000+r.Intn(3000))
	}
	req, err := http.NewRequest(method, "https://"+*address+"/"+where, nil)
	if err != nil {
		log.Fatal(err)
	}
	s.Shape = method
	if *plain {
		return req, s
	}
	h, size := headers(r)
	for k, v := range h {
		req.Header.Set(k, v)
	}
	// HTTP/1: request line, Host and User-Agent must leave room in the buffer; HTTP/2: the block must fit.
	s.Big = len(where) > 3000
	if *kind != "h1" {
		s.Big = s.Big || size > 3000
	}
	if method != "GET" && method != "HEAD" && r.Intn(4) != 0 {
		data := []byte(text(r, r.Intn(3000)))
		if r.Intn(10) == 0 {
			data = []byte(text(r, r.Intn(200000)))
		}
		if r.Intn(2) == 0 {
			req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
		} else {
			req.Body, req.ContentLength = io.NopCloser(&pieces{r: r, data: data}), -1
		}
		if *kind == "h1" && r.Intn(6) == 0 {
			req.Header.Set("Expect", "100-continue")
		}
		if *kind != "h1" && r.Intn(6) == 0 {
			req.ContentLength = -1
			req.Trailer = http.Header{"X-Trailer": {text(r, 30)}}
		}
		s.Shape += fmt.Sprintf(" body %d %d", len(data), req.ContentLength)
	}
	if r.Intn(12) == 0 {
		s.Own = true
		req.Header[[]string{"Traceparent", "traceparent", "TRACEPARENT"}[r.Intn(3)]] = []string{ownTrace}
	}
	req.Close = *kind == "h1" && r.Intn(15) == 0
	return req, s
}

func doHTTP(c *http.Client, i int) *sent {
	req, s := make1(i)
	answer, err := c.Do(req)
	if err != nil {
		s.Error = err.Error()
		return s
	}
	io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return s.answered([]byte(answer.Header.Get("X-Arrived")))
}

func (s *sent) answered(text []byte) *sent {
	s.Got = &arrival{}
	if err := json.Unmarshal(text, s.Got); err != nil {
		s.Error = "answer: " + err.Error()
	}
	return s
}

type raw struct{ b []byte }

type codec struct{}

func (codec) Marshal(v interface{}) ([]byte, error) { return v.(*raw).b, nil }
func (codec) Unmarshal(b []byte, v interface{}) error {
	v.(*raw).b = append([]byte(nil), b...)
	return nil
}
func (codec) Name() string { return "proto" }

func doRPC(cc *grpc.ClientConn, i int) *sent {
	r := rand.New(rand.NewSource(int64(i) + 1000003))
	s := &sent{I: i}
	ctx, method := context.Background(), "/traffic.Calls/"+text(r, 1+r.Intn(30))
	h, size := map[string]string{}, 0
	if !*plain {
		h, size = headers(r)
		if size > 15000 { // as servers have it
			h, size = map[string]string{"x-few": "1"}, 50
		}
		s.Big = size > 3000
		if r.Intn(12) == 0 {
			s.Own = true
			h["traceparent"] = ownTrace
		}
	}
	ctx = metadata.NewOutgoingContext(ctx, metadata.New(h))
	if r.Intn(2) == 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, time.Minute)
		defer cancel()
	}
	got := &raw{}
	var err error
	if r.Intn(2) == 0 || *plain {
		s.Shape = "unary"
		err = cc.Invoke(ctx, method, &raw{[]byte(text(r, r.Intn(3000)))}, got, grpc.ForceCodec(codec{}))
	} else {
		n := r.Intn(10)
		s.Shape = fmt.Sprint("stream of ", n)
		err = doStream(ctx, cc, method, r, n, got)
	}
	if err != nil {
		s.Error = err.Error()
		return s
	}
	return s.answered(got.b)
}

func doStream(ctx context.Context, cc *grpc.ClientConn, method string, r *rand.Rand, n int, got *raw) error {
	st, err := cc.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, grpc.ForceCodec(codec{}))
	if err != nil {
		return err
	}
	for k := 0; k < n; k++ {
		if err := st.SendMsg(&raw{[]byte(text(r, r.Intn(5000)))}); err != nil {
			return err
		}
	}
	if err := st.CloseSend(); err != nil {
		return err
	}
	if err := st.RecvMsg(got); err != nil {
		return err
	}
	if err := st.RecvMsg(&raw{}); err != io.EOF {
		return fmt.Errorf("no end: %v", err)
	}
	return nil
}

// How the kind of requests is sent: the function that sends the i-th.
func sender() func(int) *sent {
	trusting := &tls.Config{InsecureSkipVerify: true}
	c := &http.Client{Timeout: time.Minute}
	switch *kind {
	case "h1":
		c.Transport = &http.Transport{TLSClientConfig: trusting, MaxIdleConnsPerHost: *workers, MaxResponseHeaderBytes: 1 << 20}
	case "h2":
		c.Transport = &http.Transport{TLSClientConfig: trusting, ForceAttemptHTTP2: true}
	case "xnet":
		c.Transport = &http2.Transport{TLSClientConfig: trusting}
	case "grpc":
		cc, err := grpc.Dial(*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			log.Fatal(err)
		}
		return func(i int) *sent { return doRPC(cc, i) }
	default:
		log.Fatal("what is ", *kind, "?")
	}
	return func(i int) *sent { return doHTTP(c, i) }
}

func send() {
	do, all, next := sender(), make([]*sent, *count), int64(-1)
	for *wait != "" {
		if _, err := os.Stat(*wait); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
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
				all[i] = do(i)
				time.Sleep(time.Duration(*pace) * time.Microsecond)
			}
		}()
	}
	wg.Wait()
	var b strings.Builder
	for _, s := range all {
		line, _ := json.Marshal(s)
		b.Write(append(line, '\n'))
	}
	if err := os.WriteFile(*out, []byte(b.String()), 0o644); err != nil {
		log.Fatal(err)
	}
}
