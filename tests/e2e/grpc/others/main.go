// The two other ways in which Go programs speak gRPC: connect-go, which is net/http all through, and grpc-gateway, which answers HTTP
// by calling gRPC. No generated code: the messages are protobuf's well-known ones.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"

	"connectrpc.com/connect"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type text = wrapperspb.StringValue

func listen() (net.Listener, int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	return l, l.Addr().(*net.TCPAddr).Port
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func echo(_ interface{}, ctx context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
	in := new(text)
	return in, decode(in)
}

func serveGRPC(l net.Listener) {
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "truth.Gateway", HandlerType: (*interface{})(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}}}, struct{}{})
	must(s.Serve(l))
}

// What protoc-gen-grpc-gateway makes of `get: "/v1/echo/{value}"`.
func gateway(target string) http.Handler {
	cc, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	mux := runtime.NewServeMux()
	must(mux.HandlePath("GET", "/v1/echo/{value}", func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		_, out := runtime.MarshalerForRequest(mux, r)
		ctx, err := runtime.AnnotateContext(r.Context(), mux, r, "/truth.Gateway/Echo", runtime.WithHTTPPathPattern("/v1/echo/{value}"))
		answer := new(text)
		if err == nil {
			err = cc.Invoke(ctx, "/truth.Gateway/Echo", &text{Value: params["value"]}, answer)
		}
		if err != nil {
			runtime.HTTPError(ctx, mux, out, w, r, err)
			return
		}
		runtime.ForwardResponseMessage(ctx, mux, out, w, r, answer)
	}))
	return mux
}

// /call?how=connect|grpc|grpcweb: a client of connect-go calls a server of connect-go, by each of its protocols.
func connecting(address string) http.Handler {
	const method = "/truth.Connect/Echo"
	mux := http.NewServeMux()
	mux.Handle(method, connect.NewUnaryHandler(method, func(ctx context.Context, r *connect.Request[text]) (*connect.Response[text], error) {
		if r.Msg.Value == "fail" {
			return nil, connect.NewError(connect.CodeNotFound, nil)
		}
		return connect.NewResponse(r.Msg), nil
	}))
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	mux.HandleFunc("/call", func(w http.ResponseWriter, r *http.Request) {
		options := map[string][]connect.ClientOption{"connect": nil, "grpc": {connect.WithGRPC()}, "grpcweb": {connect.WithGRPCWeb()}}
		c := connect.NewClient[text, text](client, "http://"+address+method, options[r.FormValue("how")]...)
		if _, err := c.CallUnary(r.Context(), connect.NewRequest(&text{Value: "hello"})); err != nil {
			http.Error(w, err.Error(), 500)
		}
	})
	return mux
}

func main() {
	rpc, rpcPort := listen()
	go serveGRPC(rpc)
	front, frontPort := listen()
	go http.Serve(front, gateway(fmt.Sprintf("127.0.0.1:%d", rpcPort)))
	conn, connPort := listen()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{Handler: connecting(fmt.Sprintf("127.0.0.1:%d", connPort)), Protocols: protocols}
	go server.Serve(conn)
	fmt.Printf("{\"ports\": {\"gateway\": %d, \"connect\": %d}}\n", frontPort, connPort)
	os.Stdout.Sync()
	select {}
}
