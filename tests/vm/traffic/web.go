package main

import (
	"fmt"
	"net/http"

	"google.golang.org/grpc"
)

// Servers of net/http and gRPC, for the other end of a trace.
func web() {
	secure, port := listen(true, "h2", "http/1.1")
	clear, rpc := listen(false)
	say(map[string]int{"h1": port, "h2": port, "xnet": port, "grpc": rpc})
	s := grpc.NewServer(grpc.ForceServerCodec(codec{}), grpc.UnknownServiceHandler(func(_ interface{}, st grpc.ServerStream) error {
		m := &raw{}
		if err := st.RecvMsg(m); err != nil {
			return err
		}
		return st.SendMsg(&raw{[]byte("{}")})
	}))
	go s.Serve(clear)
	http.Serve(secure, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Arrived", "{}")
		fmt.Fprintln(w, "ok")
	}))
}
