// A web server with one handler for each way to answer. Says as JSON lines on stdout where it listens and, with -truth, what
// really happened to each request: the harness compares that with the spans.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type truth struct {
	RID      string `json:"rid"`
	Method   string `json:"method"`
	URI      string `json:"uri"`
	Host     string `json:"host"`
	Proto    string `json:"proto"`
	Remote   string `json:"remote"`
	Pattern  string `json:"pattern"`
	Parent   string `json:"traceparent"`
	Status   int    `json:"status"`
	Start    int64  `json:"start"`
	End      int64  `json:"end"`
	Panicked bool   `json:"panicked"`
}

var (
	out     = json.NewEncoder(os.Stdout)
	outLock sync.Mutex
	tell    = flag.Bool("truth", false, "tell each request's truth")
	served  int64
)

func say(v interface{}) {
	outLock.Lock()
	defer outLock.Unlock()
	_ = out.Encode(v)
}

// Each handler says itself which status goes out: a recording ResponseWriter would hide what net/http does with its own.
func handle(status int, h func(http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		atomic.AddInt64(&served, 1)
		if !*tell {
			h(w, r)
			return
		}
		t := truth{RID: r.URL.Query().Get("rid"), Method: r.Method, URI: r.RequestURI, Host: r.Host, Proto: r.Proto,
			Remote: r.RemoteAddr, Pattern: patternOf(r), Parent: r.Header.Get("Traceparent"), Status: status,
			Start: time.Now().UnixNano(), Panicked: true}
		defer func() {
			t.End = time.Now().UnixNano()
			say(map[string]truth{"truth": t})
		}()
		h(w, r)
		t.Panicked = false
	}
}

func number(r *http.Request, key string, def int) int {
	if n, err := strconv.Atoi(r.URL.Query().Get(key)); err == nil {
		return n
	}
	return def
}

//go:noinline
func recurse(n int) byte {
	var frame [1024]byte
	frame[n%1024] = byte(n)
	if n == 0 {
		return frame[0]
	}
	return recurse(n-1) + frame[n%1024]
}

func deep(w http.ResponseWriter, r *http.Request) {
	done := make(chan byte)
	go func() { done <- recurse(64) }() // 64 KB on a fresh goroutine
	x := recurse(64) + <-done           // and on the request's own
	fmt.Fprintln(w, x)
}

func hijack(w http.ResponseWriter, r *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: test\r\nConnection: Upgrade\r\n\r\nbye")
	conn.Close()
}

func stream(w http.ResponseWriter, r *http.Request) {
	for i := 0; i < number(r, "n", 5); i++ {
		fmt.Fprintf(w, "data: %d\n\n", i)
		w.(http.Flusher).Flush()
		select {
		case <-time.After(time.Duration(number(r, "ms", 20)) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
}

func routes() http.Handler {
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") }
	mux.HandleFunc("/fast", handle(200, ok))
	mux.HandleFunc("/healthz", handle(200, ok))
	mux.HandleFunc("/slow", handle(200, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(number(r, "ms", 50)) * time.Millisecond)
		ok(w, r)
	}))
	mux.HandleFunc("/fail", handle(500, func(w http.ResponseWriter, r *http.Request) { http.Error(w, "broken", 500) }))
	mux.HandleFunc("/teapot", handle(418, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(418) }))
	mux.HandleFunc("/nothing", handle(200, func(w http.ResponseWriter, r *http.Request) {}))
	mux.HandleFunc("/nocontent", handle(204, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(204) }))
	mux.HandleFunc("/redirect", handle(302, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/fast", 302) }))
	mux.HandleFunc("/early", handle(200, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(103)
		ok(w, r)
	}))
	mux.HandleFunc("/panic", handle(0, func(w http.ResponseWriter, r *http.Request) { panic("on purpose") }))
	mux.HandleFunc("/panic_late", handle(202, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(202)
		w.(http.Flusher).Flush()
		panic("after the header")
	}))
	mux.HandleFunc("/abort", handle(0, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }))
	mux.HandleFunc("/goexit", handle(0, func(w http.ResponseWriter, r *http.Request) { runtime.Goexit() }))
	mux.HandleFunc("/recovered", handle(503, func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			_ = recover()
			w.WriteHeader(503)
		}()
		panic("recovered by the handler")
	}))
	mux.HandleFunc("/hijack", handle(101, hijack))
	mux.HandleFunc("/stream", handle(200, stream))
	mux.HandleFunc("/deep", handle(200, deep))
	mux.HandleFunc("/echo", handle(200, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%08d", n)
	}))
	patterns(mux, ok)
	// A middleware that copies the request: what the mux finds out is in the copy.
	type key struct{}
	inner := http.NewServeMux()
	innerPatterns(inner, ok)
	mux.HandleFunc("/mid/", func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, 1)))
	})
	// One that rewrites the path before it goes on.
	mux.Handle("/strip/", http.StripPrefix("/strip", mux))
	return mux
}

func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "server"},
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func listen(address string) net.Listener {
	l, err := net.Listen("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	return l
}

func main() {
	address := flag.String("addr", "127.0.0.1:0", "where to listen for HTTP/1.1")
	socket := flag.String("unix", "", "path of a unix socket to listen on, too")
	withTLS := flag.Bool("tls", false, "listen for HTTPS, too (HTTP/2 by ALPN)")
	withH2C := flag.Bool("h2c", false, "listen for unencrypted HTTP/2, too (Server.Protocols)")
	flag.Parse()
	log.SetOutput(io.Discard)
	h := routes()
	ports := map[string]int{}
	serve := func(name string, s *http.Server, l net.Listener, secure bool) {
		ports[name] = l.Addr().(*net.TCPAddr).Port
		go func() {
			if secure {
				log.Fatal(s.ServeTLS(l, "", ""))
			}
			log.Fatal(s.Serve(l))
		}()
	}
	serve("h1", &http.Server{Handler: h}, listen(*address), false)
	if *socket != "" {
		l, err := net.Listen("unix", *socket)
		if err != nil {
			log.Fatal(err)
		}
		go func() { log.Fatal((&http.Server{Handler: h}).Serve(l)) }()
	}
	if *withTLS {
		serve("tls", &http.Server{Handler: h, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate()}}},
			listen("127.0.0.1:0"), true)
	}
	if *withH2C {
		serve("h2c", h2cServer(h), listen("127.0.0.1:0"), false)
	}
	say(map[string]interface{}{"ports": ports, "go": runtime.Version(), "pid": os.Getpid()})
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if <-stop == syscall.SIGHUP { // becomes itself again: same process, another program image
		log.Fatal(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
	}
	say(map[string]int64{"served": atomic.LoadInt64(&served)})
	os.Exit(7) // a code of our own: the agent must not change it
}
