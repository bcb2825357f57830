//go:build xnet

package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/h2c"
)

func configured() *http.Transport {
	t := &http.Transport{TLSClientConfig: insecure.Clone()}
	must(http2.ConfigureTransport(t))
	return t
}

func init() {
	clear := listen()
	go http.Serve(clear, h2c.NewHandler(http.HandlerFunc(answer), &http2.Server{}))
	base := "http://" + clear.Addr().String()
	x := &http2.Transport{AllowHTTP: true, TLSClientConfig: insecure.Clone()}
	xc := &http2.Transport{AllowHTTP: true, DialTLS: func(network, addr string, _ *tls.Config) (net.Conn, error) {
		return net.Dial(network, addr)
	}}
	both := configured()
	cases["x/net"] = func(n int) { many(n, 8, func() { get("x/net", x, secure+"/x") }) }
	cases["x/net h2c"] = func(n int) { many(n, 8, func() { get("x/net h2c", xc, base+"/x") }) }
	cases["x/net below net/http"] = func(n int) { many(n, 8, func() { get("x/net below net/http", both, secure+"/x") }) }
	cases["x/net fails"] = func(int) {
		get("x/net fails", xc, closed())
		get("x/net fails", x, secure+"/s?status=503")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		drain(client("x/net fails", x).Do(request("GET", tag(secure+"/c"), nil).WithContext(ctx)))
		get("x/net fails", x, secure+"/r?hops=2")
	}
}
