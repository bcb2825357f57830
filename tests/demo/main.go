// The program that the demo traces: a shop's web server, plain net/http, built without symbols, knowing nothing of tracing.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

func main() {
	log.SetOutput(io.Discard) // net/http would print the stack of the panic below
	http.HandleFunc("/fast", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "fast") })
	http.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(150 * time.Millisecond)
		fmt.Fprintln(w, "slow")
	})
	http.HandleFunc(itemPattern, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "an item") })
	http.HandleFunc("/broken", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "broken", 500) })
	http.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) { panic("on purpose") })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("{\"port\": %d}\n", l.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(l, nil))
}
