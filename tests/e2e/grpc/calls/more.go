package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Calls within the process: a listener whose connections are pipes; targets whose address begins with "pipe".
type pipes struct{ accept chan net.Conn }

var pipe = &pipes{make(chan net.Conn)}

func (p *pipes) Accept() (net.Conn, error) {
	c, ok := <-p.accept
	if !ok {
		return nil, errors.New("closed")
	}
	return c, nil
}
func (p *pipes) Close() error   { return nil }
func (p *pipes) Addr() net.Addr { return nowhere{} }

type nowhere struct{}

func (nowhere) Network() string { return "pipe" }
func (nowhere) String() string  { return "pipe" }

func dial(ctx context.Context, address string) (net.Conn, error) {
	if strings.HasPrefix(address, "pipe") {
		client, server := net.Pipe()
		pipe.accept <- server
		return client, nil
	}
	if strings.HasPrefix(address, "unix:") || strings.HasPrefix(address, "@") {
		return new(net.Dialer).DialContext(ctx, "unix", "@"+strings.TrimLeft(strings.TrimPrefix(address, "unix:"), "@\x00"))
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// A web server that calls out: /call?method=U5&command=ok&how=context|go|background, in the handler's goroutine or in one of its own.
func serveWeb(l net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("/call", func(w http.ResponseWriter, r *http.Request) {
		cc, err := connection(self)
		if err != nil {
			panic(err)
		}
		ctx, done := r.Context(), make(chan error)
		if r.FormValue("how") != "context" {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		one := func() {
			done <- cc.Invoke(ctx, "/truth.Calls/"+r.FormValue("method"), &raw{[]byte(r.FormValue("command"))}, new(raw))
		}
		if r.FormValue("how") == "go" {
			go one()
			err = <-done
		} else {
			err = cc.Invoke(ctx, "/truth.Calls/"+r.FormValue("method"), &raw{[]byte(r.FormValue("command"))}, new(raw))
		}
		if err != nil {
			http.Error(w, err.Error(), 500)
		}
	})
	panic(http.Serve(l, mux))
}

// gRPC served by net/http: Server.ServeHTTP behind its HTTP/2.
func serveTLS(l net.Listener, s *grpc.Server) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	web := &http.Server{Handler: s, TLSConfig: &tls.Config{NextProtos: []string{"h2"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}}
	panic(web.ServeTLS(l, "", ""))
}

func unverified() grpc.DialOption {
	return grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}))
}
