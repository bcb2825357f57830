// Sends requests of random shapes by net/http, and tells of each what arrived, byte for byte: `serve` is the receiver, which
// looks at the bytes of the connection and not at what an HTTP server made of them; `send` the sender. The same seed gives the
// same requests, so the bytes with and without an agent can be compared. Needs nothing but the standard library, any Go.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
)

var (
	address = flag.String("address", "127.0.0.1:0", "serve: where; send: to whom")
	count   = flag.Int("n", 1000, "requests")
	first   = flag.Int("first", 0, "number of the first one")
	workers = flag.Int("workers", 8, "at a time")
	seed    = flag.Int64("seed", 1, "of the shapes")
	out     = flag.String("out", "", "file of what arrived, a line of JSON for each request, in their order")
	pace    = flag.Int("pace", 0, "microseconds between two requests of a worker")
	idle    = flag.Bool("idle", false, "open the connections before the line on stdin")
	wrapped = flag.Bool("wrapped", false, "over connections of the program's own making")
	secure  = flag.Bool("tls", false, "to a server of its own, over TLS")
	plain   = flag.Bool("plain", false, "nothing but small GETs")
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("serve or send?")
	}
	verb := os.Args[1]
	flag.CommandLine.Parse(os.Args[2:])
	switch verb {
	case "serve":
		serve()
	case "web":
		web()
	case "send":
		send()
	default:
		log.Fatal("what is ", verb, "?")
	}
}

// A server of net/http, for the other end of a trace.
func web() {
	l := listen()
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, r.Header.Get("Traceparent")) })
	log.Fatal(http.Serve(l, nil))
}
