// Unencrypted HTTP/2 by golang.org/x/net/http2/h2c: its server calls the handler without net/http's own.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
)

func main() {
	log.SetOutput(io.Discard)
	mux := http.NewServeMux()
	mux.HandleFunc("/fast", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.Proto) })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		ms, _ := strconv.Atoi(r.URL.Query().Get("ms"))
		time.Sleep(time.Duration(ms) * time.Millisecond)
		fmt.Fprintln(w, r.Proto)
	})
	mux.HandleFunc("/fail", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "broken", 500) })
	mux.HandleFunc("/nothing", func(w http.ResponseWriter, r *http.Request) {})
	mux.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) { panic("on purpose") })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]interface{}{"ports": map[string]int{"h2c": l.Addr().(*net.TCPAddr).Port}})
	log.Fatal(http.Serve(l, h2c.NewHandler(mux, &http2.Server{MaxConcurrentStreams: 250})))
}
