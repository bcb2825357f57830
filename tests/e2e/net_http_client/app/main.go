// A program that calls HTTP servers in many ways, and says as JSON lines on stdout what happened to each call: the harness
// compares that with the spans. Reads on stdin, line by line, what to do: the name of a case, or "NAME #N" for N calls.
package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type call struct {
	Case      string `json:"case"`
	Method    string `json:"method"`
	URL       string `json:"url"` // as written, with user and all
	ID        string `json:"id"`
	Status    int    `json:"status"`
	Proto     string `json:"proto"`
	Error     string `json:"error"` // Go type
	Text      string `json:"text"`
	Timeout   bool   `json:"timeout"`
	Cancelled bool   `json:"cancelled"`
	Resends   int    `json:"resends"`
	Sent      int64  `json:"sent"`
	Received  int64  `json:"received"`
	Parent    string `json:"traceparent"`
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
}

var (
	out     = json.NewEncoder(os.Stdout)
	outLock sync.Mutex
	ids     int64
)

func say(v interface{}) {
	outLock.Lock()
	defer outLock.Unlock()
	_ = out.Encode(v)
}

// An id in the query names the call.
func tag(u string) string {
	mark := "?"
	if strings.Contains(u, "?") {
		mark = "&"
	}
	return u + mark + "cid=" + strconv.FormatInt(atomic.AddInt64(&ids, 1), 10)
}

// recorder tells the truth about each call of the RoundTripper below it: one line, as one span.
type recorder struct {
	name string
	next http.RoundTripper
}

func (r recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now().UnixNano()
	resp, err := r.next.RoundTrip(req)
	tell(r.name, req, resp, err, start)
	return resp, err
}

func resends(req *http.Request) (n int) {
	for resp := req.Response; resp != nil; resp = resp.Request.Response {
		n++
	}
	return n
}

func tell(name string, req *http.Request, resp *http.Response, err error, start int64) {
	c := call{Case: name, Method: req.Method, URL: req.URL.String(), ID: req.URL.Query().Get("cid"), Resends: resends(req),
		Sent: req.ContentLength, Received: -1, Parent: req.Header.Get("Traceparent"), Start: start, End: time.Now().UnixNano()}
	if req.ContentLength == 0 && req.Body != nil {
		c.Sent = -1
	}
	if resp != nil {
		c.Status, c.Proto, c.Received = resp.StatusCode, resp.Proto, resp.ContentLength
	}
	if err != nil {
		var t interface{ Timeout() bool }
		for fmt.Sprintf("%T", err) == "*fmt.wrapError" || fmt.Sprintf("%T", err) == "*url.Error" {
			err = errors.Unwrap(err)
		}
		c.Error, c.Text = reflect.TypeOf(err).String(), err.Error()
		c.Timeout = errors.As(err, &t) && t.Timeout()
		if strings.HasPrefix(name, "client's timeout") { // net/http tells its own way of ending a request as "canceled" at times
			c.Timeout = true
		}
		c.Cancelled = !c.Timeout && (errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "request canceled"))
	}
	say(map[string]call{"call": c})
}

func drain(resp *http.Response, err error) {
	if err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func request(method, u string, body io.Reader) *http.Request {
	req, err := http.NewRequest(method, u, body)
	must(err)
	return req
}

// ---- the servers ----

func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/via" {
		via(w, r)
		return
	}
	q := r.URL.Query()
	if ms, err := strconv.Atoi(q.Get("ms")); err == nil {
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	if hops, _ := strconv.Atoi(q.Get("hops")); hops > 0 {
		status, _ := strconv.Atoi(q.Get("by"))
		if status == 0 {
			status = 302
		}
		http.Redirect(w, r, fmt.Sprintf("/hop?hops=%d&by=%d&cid=%s.%d", hops-1, status, strings.SplitN(q.Get("cid"), ".", 2)[0], hops), status)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	if status, err := strconv.Atoi(q.Get("status")); err == nil {
		w.WriteHeader(status)
		return
	}
	if n, err := strconv.Atoi(q.Get("sse")); err == nil {
		for i := 0; i < n; i++ {
			fmt.Fprint(w, "data: x\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(20 * time.Millisecond)
		}
		return
	}
	if q.Get("gzip") != "" {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		fmt.Fprintln(z, "ok")
		return
	}
	fmt.Fprintln(w, "ok")
}

// A handler that calls out: with the request's context, and with ids of its own on the wire or those that it got.
func via(w http.ResponseWriter, r *http.Request) {
	how := r.URL.Query().Get("how")
	req := request("GET", plain+"/x?cid="+r.URL.Query().Get("cid")+".1", nil).WithContext(r.Context())
	got := r.Header.Get("Traceparent")
	switch how {
	case "proxy": // which copies all headers
		to, _ := url.Parse(plain)
		r.URL.Path, r.URL.RawQuery = "/x", req.URL.RawQuery
		proxy := httputil.NewSingleHostReverseProxy(to)
		proxy.Transport = client("via proxy", h1).Transport
		proxy.ServeHTTP(w, r)
		return
	case "forward":
		req.Header = r.Header.Clone()
	case "later": // by a worker that was there before, when the request is over
		kept := request("GET", req.URL.String(), nil)
		kept.Header = r.Header.Clone()
		later <- kept
		return
	case "own":
		req.Header.Set("Traceparent", got[:36]+header()[36:52]+got[52:])
	case "other":
		req.Header.Set("Traceparent", header())
	}
	drain(client("via "+how, h1).Do(req))
	fmt.Fprintln(w, "ok")
}

var later = make(chan *http.Request, 1000)

func worker() {
	for req := range later {
		time.Sleep(20 * time.Millisecond)
		drain(client("via later", h1).Do(req))
	}
}

func header() string {
	var id [24]byte
	_, _ = rand.Read(id[:])
	return fmt.Sprintf("00-%x-%x-01", id[:16], id[16:])
}

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	return l
}

func serve(s *http.Server, secure bool) string {
	l := listen()
	s.Handler = http.HandlerFunc(answer)
	s.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate()}}
		go s.ServeTLS(l, "", "")
		return "https://" + l.Addr().String()
	}
	go s.Serve(l)
	return "http://" + l.Addr().String()
}

// Answers the first request of each connection by `first`; `then` says what becomes of the connection after it.
func raw(first string, then func(net.Conn, *bufio.Reader)) string {
	l := listen()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				if req, err := http.ReadRequest(r); err == nil {
					_, _ = io.Copy(io.Discard, req.Body)
					fmt.Fprint(c, first)
					then(c, r)
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func closed() string {
	l := listen()
	defer l.Close()
	return "http://" + l.Addr().String()
}

func proxy() (string, *int64) {
	l, n := listen(), new(int64)
	go http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		atomic.AddInt64(n, 1)
		fmt.Fprintln(w, "from the proxy:", r.URL)
	}))
	return "http://" + l.Addr().String(), n
}

// ---- the cases ----

var (
	plain, secure string
	insecure      = &tls.Config{InsecureSkipVerify: true}
	h1            = &http.Transport{MaxIdleConnsPerHost: 64}
	h1s           = &http.Transport{TLSClientConfig: insecure.Clone(), TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{}}
	h2            = &http.Transport{TLSClientConfig: insecure.Clone(), ForceAttemptHTTP2: true}
)

func client(name string, rt http.RoundTripper) *http.Client {
	return &http.Client{Transport: recorder{name, rt}}
}

func get(name string, rt http.RoundTripper, u string) {
	drain(client(name, rt).Get(tag(u)))
}

func many(n, workers int, do func()) {
	var wait sync.WaitGroup
	left := int64(n)
	for i := 0; i < workers; i++ {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for atomic.AddInt64(&left, -1) >= 0 {
				do()
			}
		}()
	}
	wait.Wait()
}

type wrapper struct{ http.RoundTripper }

func (w wrapper) RoundTrip(req *http.Request) (*http.Response, error) {
	clone := req.Clone(req.Context())
	clone.Header.Set("X-Wrapped", "yes")
	return w.RoundTripper.RoundTrip(clone)
}

var cases = map[string]func(n int){
	"get":   func(n int) { many(n, 1, func() { get("get", h1, plain+"/x") }) },
	"tls":   func(n int) { many(n, 1, func() { get("tls", h1s, secure+"/x") }) },
	"http2": func(n int) { many(n, 1, func() { get("http2", h2, secure+"/x") }) },
	"64 ways": func(n int) {
		many(n, 64, func() { get("64 ways", h1, plain+"/x") })
	},
	"64 streams": func(n int) {
		many(n, 64, func() { get("64 streams", h2, secure+"/x") })
	},
	"methods": func(int) {
		c := client("methods", h1)
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"} {
			drain(c.Do(request(method, tag(plain+"/m"), nil)))
		}
		req := request("GET", tag(plain+"/m"), nil)
		req.Method = ""
		drain(c.Do(req))
	},
	"bodies": func(int) {
		c := client("bodies", h1)
		drain(c.Do(request("POST", tag(plain+"/b"), strings.NewReader("12345"))))
		drain(c.Do(request("POST", tag(plain+"/b"), io.MultiReader(strings.NewReader("chunked")))))
		drain(c.Do(request("POST", tag(plain+"/b"), http.NoBody)))
	},
	"statuses": func(int) {
		for _, status := range []int{200, 204, 304, 400, 404, 418, 500, 503, 599} {
			get("statuses", h1, fmt.Sprint(plain, "/s?status=", status))
		}
	},
	"urls": func(int) {
		for _, path := range []string{"", "/", "/a%2Fb/c", "/a b", "/\u00fc/\u4e16", "/a?x=1&sig=SECRET&y=2", "/a//b/../c", "/%F0%9F%90%B9?", "/a;b,c:d@e$f&g=h",
			"/!*'()", "/" + strings.Repeat("p", 700), "/a?X-Goog-Signature=S", "/a#part"} {
			u, err := url.Parse(plain + path)
			must(err)
			drain(client("urls", h1).Get(tag(strings.SplitN(u.String(), "#", 2)[0])))
		}
		drain(client("urls", h1).Get(tag(plain+"/q") + "&q=" + strings.Repeat("q", 700)))
		u := request("GET", tag(plain+"/user"), nil)
		u.URL.User = url.UserPassword("me", "secret")
		drain(client("urls", h1).Do(u))
		u = request("GET", tag(plain+"/user"), nil)
		u.URL.User = url.User("me")
		drain(client("urls", h1).Do(u))
		u = request("GET", tag(plain+"/"), nil)
		u.URL.Path, u.URL.RawPath = "/changed path", "/not/the/same"
		drain(client("urls", h1).Do(u))
		u = request("GET", tag(plain+"/"), nil)
		u.Host = "other.example:99"
		drain(client("urls", h1).Do(u))
	},
	"redirects": func(int) {
		get("redirects", h1, plain+"/r?hops=3")
		drain(client("redirects", h1).Do(request("POST", tag(plain+"/r?hops=1&by=303"), strings.NewReader("x"))))
		drain(client("redirects", h1).Do(request("POST", tag(plain+"/r?hops=2&by=307"), strings.NewReader("x"))))
		get("redirects", h2, secure+"/r?hops=2")
		get("redirects", h1, plain+"/r?hops=99") // stopped after 10
	},
	"timeout": func(int) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		drain(client("timeout", h1).Do(request("GET", tag(plain+"/t?ms=2000"), nil).WithContext(ctx)))
		ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		drain(client("timeout", h2).Do(request("GET", tag(secure+"/t?ms=2000"), nil).WithContext(ctx)))
		get("timeout", &http.Transport{ResponseHeaderTimeout: 50 * time.Millisecond}, plain+"/t?ms=2000")
		get("timeout", &http.Transport{ResponseHeaderTimeout: 50 * time.Millisecond, TLSClientConfig: insecure.Clone(), ForceAttemptHTTP2: true},
			secure+"/t?ms=2000")
		// Of the client, on a transport that net/http knows: the truth is told from outside.
		c := &http.Client{Transport: &http.Transport{}, Timeout: 50 * time.Millisecond}
		req, start := request("GET", tag(plain+"/t?ms=2000"), nil), time.Now().UnixNano()
		resp, err := c.Do(req)
		tell("timeout", req, resp, err, start)
	},
	// On a transport that net/http does not know, with and without HTTP/2.
	"client's timeout": func(n int) {
		for i := 0; i < n; i++ {
			for _, rt := range []http.RoundTripper{h1, h2} {
				base := map[http.RoundTripper]string{h1: plain, h2: secure}[rt]
				c := client("client's timeout", rt)
				c.Timeout = 20 * time.Millisecond
				drain(c.Get(tag(base + "/t?ms=2000")))
			}
		}
	},
	"cancelled": func(int) {
		for _, rt := range []http.RoundTripper{h1, h2} {
			base := map[http.RoundTripper]string{h1: plain, h2: secure}[rt]
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(50*time.Millisecond, cancel)
			drain(client("cancelled", rt).Do(request("GET", tag(base+"/c?ms=2000"), nil).WithContext(ctx)))
			drain(client("cancelled", rt).Do(request("GET", tag(base+"/c"), nil).WithContext(ctx))) // before it begins
		}
		ctx, cancel := context.WithCancel(context.Background()) // while it dials
		slow := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			cancel()
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}}
		drain(client("cancelled", slow).Do(request("GET", tag(plain+"/c"), nil).WithContext(ctx)))
	},
	"refused":        func(int) { get("refused", h1, closed()) },
	"no such host":   func(int) { get("no such host", h1, "http://no-such-host.invalid:81/x") },
	"no scheme":      func(int) { get("no scheme", h1, "gopher://127.0.0.1/x") },
	"no certificate": func(int) { get("no certificate", &http.Transport{}, secure+"/x") },
	"no http": func(int) {
		get("no http", h1, raw("this is no HTTP\r\n\r\n", func(net.Conn, *bufio.Reader) {}))
		get("no http", h1, raw("", func(net.Conn, *bufio.Reader) {}))
	},
	// The second request goes out on a connection that the server closes when it sees it: net/http tries it again on a new one.
	"retried": func(int) {
		base := raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", func(_ net.Conn, r *bufio.Reader) { _, _ = r.ReadByte() })
		rt := &http.Transport{}
		get("retried", rt, base)
		get("retried", rt, base)
	},
	"gzip": func(int) { // which net/http takes off
		get("gzip", &http.Transport{}, plain+"/z?gzip=1")
		get("gzip", &http.Transport{TLSClientConfig: insecure.Clone(), ForceAttemptHTTP2: true}, secure+"/z?gzip=1")
	},
	"proxy": func(int) {
		at, n := proxy()
		u, err := url.Parse(at)
		must(err)
		get("proxy", &http.Transport{Proxy: http.ProxyURL(u)}, "http://shop.example:8080/x")
		if atomic.LoadInt64(n) != 1 {
			log.Fatal("the proxy was not asked")
		}
	},
	"continue": func(int) {
		req := request("POST", tag(plain+"/e"), strings.NewReader("12345"))
		req.Header.Set("Expect", "100-continue")
		drain(client("continue", &http.Transport{ExpectContinueTimeout: time.Second}).Do(req))
	},
	"early hints": func(int) {
		get("early hints", h1, raw("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			func(net.Conn, *bufio.Reader) {}))
	},
	"upgrade": func(int) {
		base := raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
			func(c net.Conn, _ *bufio.Reader) { _, _ = io.Copy(c, c) })
		req := request("GET", tag(base+"/ws"), nil)
		req.Header.Set("Connection", "Upgrade")
		req.Header.Set("Upgrade", "websocket")
		resp, err := client("upgrade", h1).Do(req)
		must(err)
		conn := resp.Body.(io.ReadWriteCloser)
		for i := 0; i < 5; i++ {
			fmt.Fprint(conn, "ping")
			_, err = io.ReadFull(conn, make([]byte, 4))
			must(err)
			time.Sleep(50 * time.Millisecond)
		}
		conn.Close()
	},
	"sse":          func(int) { get("sse", h1, plain+"/sse?sse=30") },
	"http2 stream": func(int) { get("http2 stream", h2, secure+"/sse?sse=30") },
	"never closed": func(n int) {
		for i := 0; i < n; i++ {
			_, err := client("never closed", &http.Transport{}).Get(tag(plain + "/n"))
			must(err)
		}
	},
	"wrapped": func(int) { get("wrapped", wrapper{wrapper{h1}}, plain+"/w") },
	// A protocol of one's own that goes to another Transport: the inner call is the attempt.
	"registered": func(int) {
		rt := &http.Transport{}
		rt.RegisterProtocol("shop", recorder{"registered", shop{}})
		drain((&http.Client{Transport: rt}).Get(tag("shop://x/y")))
	},
	// Panics out of the middle of a call, then calls again.
	"panics": func(n int) {
		bad := &http.Transport{Proxy: func(*http.Request) (*url.URL, error) { panic("on purpose") }}
		for i := 0; i < n; i++ {
			func() {
				defer func() { _ = recover() }()
				_, _ = bad.RoundTrip(request("GET", plain+"/lost", nil))
			}()
			get("panics", h1, plain+"/x")
		}
	},
	"deep": func(n int) {
		many(n, 8, func() {
			done := make(chan byte)
			go func() { done <- recurse(64) }() // 64 KB on a fresh goroutine, the call at its end
			<-done
		})
	},
	// Ids that the program puts on the wire itself.
	"own ids": func(n int) {
		for i := 0; i < n; i++ {
			req := request("GET", tag(plain+"/own"), nil)
			req.Header.Set("Traceparent", header())
			drain(client("own ids", h1).Do(req))
		}
	},
	// The same header again: by redirects, and by the program.
	"own ids again": func(n int) {
		for i := 0; i < n; i++ {
			sent := header()
			for _, u := range []string{plain + "/r?hops=2", plain + "/again"} {
				req := request("GET", tag(u), nil)
				req.Header.Set("Traceparent", sent)
				drain(client("own ids again", h1).Do(req))
			}
		}
	},
	"via": func(n int) {
		for i := 0; i < n; i++ {
			for _, how := range []string{"context", "forward", "proxy", "own", "other"} {
				req := request("GET", tag(plain+"/via?how="+how), nil)
				req.Header.Set("Traceparent", header())
				drain(client("to via", h1).Do(req))
			}
		}
	},
}

type shop struct{}

func (shop) RoundTrip(req *http.Request) (*http.Response, error) {
	inner := request("GET", plain+"/shop?"+req.URL.RawQuery, nil)
	return client("registered", h1).Transport.RoundTrip(inner)
}

//go:noinline
func recurse(n int) byte {
	var frame [1024]byte
	frame[n%1024] = byte(n)
	if n == 0 {
		get("deep", h1, plain+"/deep")
		return frame[0]
	}
	return recurse(n-1) + frame[n%1024]
}

func main() {
	plain, secure = serve(&http.Server{}, false), serve(&http.Server{}, true)
	go worker()
	say(map[string]map[string]string{"ports": {"plain": plain, "secure": secure}})
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		name, n := in.Text(), 1
		if at := strings.LastIndex(name, " #"); at >= 0 {
			n, _ = strconv.Atoi(name[at+2:])
			name = name[:at]
		}
		do := cases[name]
		if do == nil {
			log.Fatalf("no case %q", name)
		}
		do(n)
		say(map[string]string{"done": in.Text()})
	}
}
