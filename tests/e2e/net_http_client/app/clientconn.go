//go:build go1.26

package main

import (
	"context"
	"net/url"
)

func init() {
	cases["client conn"] = func(n int) {
		for _, base := range []string{plain, secure} {
			u, err := url.Parse(base)
			must(err)
			cc, err := h2.NewClientConn(context.Background(), u.Scheme, u.Host)
			must(err)
			for i := 0; i < n; i++ {
				get("client conn", cc, base+"/x")
			}
			get("client conn", cc, base+"/s?status=404")
			cc.Close()
		}
	}
}
