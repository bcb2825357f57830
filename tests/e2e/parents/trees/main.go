// trees: a program that calls itself in random trees and says for each call on whose behalf it was
// made, and how much of that can be known from outside. Node N is the request GET /n/N; the call to
// it and its request's server are two spans.
//
// "go REQUESTS SEED" on stdin starts it; then one line {"call": ...} for each call, and {"done": n}.
package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/big"
	"math/rand"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	depthMax = 6
	drivers  = 24
	workers  = 256
)

// What can be known of a call's parent.
const (
	exact  = "exact"  // it is `by`, by its context or its goroutine
	none   = "none"   // it has none
	known  = "known"  // `by` or none: its context cannot be walked
	infer  = "infer"  // `by`, by the goroutine that started the caller's
	shared = "shared" // the same, but that goroutine's request may be another one than `by`
	late   = "late"   // none, but the goroutine that started the caller's may serve again
)

type call struct {
	ID    int64  `json:"id"`
	By    int64  `json:"by"` // 0: nobody
	Way   string `json:"way"`
	Class string `json:"class"`
	Proto string `json:"proto"`
	Error string `json:"error"` // then perhaps nobody has served it
}

// A request that is being served.
type node struct {
	id    int64
	depth int
	ctx   context.Context
	rand  *rand.Rand
	ended chan struct{} // closed when its caller has its answer
}

var (
	ids       int64
	limit     int64
	seed      int64
	calls     []call
	callsLock sync.Mutex
	nodes     sync.Map // id -> *node: depth and ended, made by the caller
	h1, h2    *http.Client
	h1URL     string
	h2URL     string
	x         *http.Client // of golang.org/x/net, if it is built in
	xURL      string
	more      func(http.Handler) (*http.Client, string)
	behind    sync.WaitGroup // what goes on after its request
	jobs      = make(chan func())
	lazyJobs  = make(chan func())
	lazy      int32
	oldLock   sync.Mutex
	old       context.Context // of a request that is over
)

// get calls a new node on behalf of n and waits for its answer.
func get(ctx context.Context, n *node, r *rand.Rand, way, class string) {
	c := call{ID: atomic.AddInt64(&ids, 1), Way: way, Class: class, Proto: "1"}
	child := &node{id: c.ID, depth: 1, ended: make(chan struct{})}
	if n != nil {
		c.By = n.id
		child.depth = n.depth + 1
	}
	nodes.Store(c.ID, child)
	client, url := h1, h1URL
	switch r.Intn(3) {
	case 0:
		client, url, c.Proto = h2, h2URL, "2"
	case 1:
		if x != nil {
			client, url, c.Proto = x, xURL, "2, golang.org/x/net"
		}
	}
	req, err := http.NewRequestWithContext(ctx, "POST", url+"/n/"+strconv.FormatInt(c.ID, 10), nil)
	if err != nil {
		log.Fatal(err)
	}
	res, err := client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if err != nil {
		c.Error = err.Error()
	}
	close(child.ended)
	callsLock.Lock()
	calls = append(calls, c)
	callsLock.Unlock()
}

func serve(w http.ResponseWriter, r *http.Request) {
	id, _ := strconv.ParseInt(strings.TrimPrefix(r.URL.Path, "/n/"), 10, 64)
	found, ok := nodes.Load(id)
	if !ok {
		http.NotFound(w, r)
		return
	}
	n := found.(*node)
	n.ctx = r.Context()
	n.rand = rand.New(rand.NewSource(seed + id))
	for i := n.rand.Intn(5); i > 0 && n.depth < depthMax && atomic.LoadInt64(&ids) < limit; i-- {
		ways[n.rand.Intn(len(ways))](n)
	}
	if n.rand.Intn(50) == 0 {
		remember(n.ctx, n.ended)
	}
	if n.rand.Intn(200) == 0 {
		defer get(context.Background(), n, n.rand, "panicking", exact)
		panic(http.ErrAbortHandler)
	}
	io.WriteString(w, "ok")
}

// remember keeps the context of a request for others to use once it is over.
func remember(ctx context.Context, ended chan struct{}) {
	behind.Add(1)
	go func() {
		defer behind.Done()
		<-ended
		oldLock.Lock()
		old = detached{ctx}
		oldLock.Unlock()
	}()
}

func work(from chan func()) {
	for f := range from {
		f()
	}
}

// drive makes requests of its own, as a client that is no server's.
func drive(i int64, done *sync.WaitGroup) {
	defer done.Done()
	r := rand.New(rand.NewSource(seed<<20 + i))
	for atomic.LoadInt64(&ids) < limit {
		get(context.Background(), nil, r, "driver", none)
	}
}

func certificate() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	it := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(crand.Reader, it, it, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func listen() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return l
}

func main() {
	for i := 0; i < workers; i++ {
		go work(jobs)
	}
	quiet := log.New(io.Discard, "", 0)
	plain, secure := listen(), listen()
	handler := http.NewServeMux()
	handler.HandleFunc("/n/", serve)
	handler.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) {
		get(r.Context(), &node{depth: depthMax}, rand.New(rand.NewSource(1)), "health", exact)
	})
	go (&http.Server{Handler: handler, ErrorLog: quiet}).Serve(plain)
	go (&http.Server{Handler: handler, ErrorLog: quiet, TLSConfig: &tls.Config{
		Certificates: []tls.Certificate{certificate()}}}).ServeTLS(secure, "", "")
	h1URL, h2URL = "http://"+plain.Addr().String(), "https://"+secure.Addr().String()
	h1 = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	h2 = &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	if more != nil {
		x, xURL = more(handler)
	}
	fmt.Printf("{\"ports\": {\"h1\": %d, \"h2\": %d}}\n", plain.Addr().(*net.TCPAddr).Port, secure.Addr().(*net.TCPAddr).Port)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "go %d %d", &limit, &seed); err == nil {
			run()
		}
	}
}

func run() {
	var done sync.WaitGroup
	for i := int64(0); i < drivers; i++ {
		done.Add(1)
		go drive(i, &done)
	}
	done.Wait()
	behind.Wait()
	out := bufio.NewWriter(os.Stdout)
	for _, c := range calls {
		text, _ := json.Marshal(map[string]call{"call": c})
		out.Write(append(text, '\n'))
	}
	fmt.Fprintf(out, "{\"done\": %d}\n", len(calls))
	out.Flush()
}
