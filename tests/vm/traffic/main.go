// Requests of random shapes over TLS, HTTP/2 and gRPC, and a receiver that looks at what arrived: at the bytes of HTTP/1, at the
// header blocks and data of HTTP/2. The same numbers give the same requests, so what arrives with and without an agent can be
// compared. `serve` is the receiver, `send` the sender, `web` a plain server for the other end of a trace, `compare` and `joined` the judges.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/big"
	"net"
	"os"
	"time"
)

var (
	address = flag.String("address", "", "send: to whom")
	kind    = flag.String("kind", "h1", "send: h1, h2, xnet, grpc")
	count   = flag.Int("n", 100, "requests")
	workers = flag.Int("workers", 4, "at a time")
	out     = flag.String("out", "/dev/null", "file of what arrived, a line of JSON for each request")
	wait    = flag.String("wait", "", "begin when this file is there")
	pace    = flag.Int("pace", 0, "microseconds between two requests of a worker")
	plain   = flag.Bool("plain", false, "small requests only")
	want    = flag.String("want", "all", "compare: all, some or none have a traceparent of the agent's")
	flags   = flag.String("flags", "01", "compare: its last two digits")
)

// What one request was on the wire.
type arrival struct {
	Sha    string   `json:"sha"`    // of all but the traceparents
	Values []string `json:"values"` // of its traceparents
	Wrong  string   `json:"wrong,omitempty"`
}

// What the sender knows of one request.
type sent struct {
	I     int      `json:"i"`
	Shape string   `json:"shape"`
	Own   bool     `json:"own"` // it has a traceparent of the program's own
	Big   bool     `json:"big"` // its headers may be too long for another one
	Got   *arrival `json:"got"`
	Error string   `json:"error,omitempty"`
}

func listen(secure bool, protocols ...string) (net.Listener, int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if secure {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: protocols})
	}
	return l, port
}

func certificate() tls.Certificate {
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(240 * time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		log.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func serve() {
	h1, p1 := listen(true, "http/1.1")
	h2, p2 := listen(true, "h2")
	clear, p3 := listen(false)
	say(map[string]int{"h1": p1, "h2": p2, "xnet": p2, "grpc": p3})
	go each(h2, connection2)
	go each(clear, connection2)
	each(h1, connection1)
}

func each(l net.Listener, f func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go f(c)
	}
}

func say(what interface{}) {
	line, _ := json.Marshal(what)
	fmt.Println(string(line))
}

func main() {
	if len(os.Args) < 2 {
		log.Fatal("serve, web, send or compare?")
	}
	flag.CommandLine.Parse(os.Args[2:])
	switch os.Args[1] {
	case "serve":
		serve()
	case "web":
		web()
	case "send":
		send()
	case "compare":
		compare(flag.Arg(0), flag.Arg(1))
	case "joined":
		joined(flag.Arg(0), *count)
	default:
		log.Fatal("what is ", os.Args[1], "?")
	}
}
