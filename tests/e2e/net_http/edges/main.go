// Handlers that do to a request, or to their connection, what makes it hard to say afterwards what the request was.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
)

var sink []*http.Request

// Frees the handler's own request, if nothing else holds it, and fills its memory with others.
func forget(w http.ResponseWriter, r *http.Request) {
	r = nil
	var others []*http.Request
	for i := 0; i < 5; i++ {
		runtime.GC()
		for j := 0; j < 2000; j++ {
			others = append(others, &http.Request{Method: "WRONG", Pattern: "/wrong", RequestURI: "/wrong", Host: "wrong"})
		}
	}
	sink = others
	w.WriteHeader(202)
}

func hijack(w http.ResponseWriter) net.Conn {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	return c
}

func main() {
	log.SetOutput(io.Discard)
	mux := http.NewServeMux()
	ok := func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") }
	mux.HandleFunc("/users/{id}/", ok)
	mux.HandleFunc("/forget/{id}", forget)
	mux.HandleFunc("/rewrite", func(w http.ResponseWriter, r *http.Request) {
		r.Method, r.URL.Path, r.Header = "PUT", "/other", http.Header{}
		ok(w, r)
	})
	mux.HandleFunc("/big_panic", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, strings.Repeat("x", 10000)) // more than is buffered: the header goes out
		panic("on purpose")
	})
	mux.HandleFunc("/small_panic", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "x") // buffered, and never sent
		panic("on purpose")
	})
	mux.HandleFunc("/hijack_elsewhere", func(w http.ResponseWriter, r *http.Request) {
		done := make(chan bool)
		go func() {
			c := hijack(w)
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx")
			c.Close()
			close(done)
		}()
		<-done
	})
	mux.HandleFunc("/hijack_late", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(202)
		hijack(w).Close()
	})
	mux.HandleFunc("/nested", func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/users/5/", nil))
		ok(w, r)
	})
	secure := httptest.NewUnstartedServer(mux)
	secure.EnableHTTP2 = true
	secure.StartTLS()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]interface{}{"ports": map[string]int{
		"h1": l.Addr().(*net.TCPAddr).Port, "tls": secure.Listener.Addr().(*net.TCPAddr).Port}})
	log.Fatal(http.Serve(l, mux))
}
