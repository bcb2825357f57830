// A gRPC server that echoes bytes, and with -load a client that calls it over so many connections, one call at a time on each.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
)

type raw struct{ b []byte }

type codec struct{}

func (codec) Marshal(v any) ([]byte, error) { return v.(*raw).b, nil }
func (codec) Unmarshal(b []byte, v any) error {
	v.(*raw).b = append([]byte(nil), b...)
	return nil
}
func (codec) Name() string { return "proto" }

func echo(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	in := new(raw)
	return in, decode(in)
}

func serve(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "bench.Echo", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Echo", Handler: echo}}}, struct{}{})
	return s.Serve(l)
}

func load(addr string, conns int, how time.Duration) {
	var calls, failed atomic.Int64
	var wait sync.WaitGroup
	start := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	for i := 0; i < conns; i++ {
		cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			panic(err)
		}
		wait.Add(1)
		go func() {
			defer wait.Done()
			in, out := &raw{make([]byte, 100)}, new(raw)
			for time.Since(start) < how {
				if cc.Invoke(ctx, "/bench.Echo/Echo", in, out) != nil {
					failed.Add(1)
				}
				calls.Add(1)
			}
		}()
	}
	wait.Wait()
	cancel()
	json.NewEncoder(os.Stdout).Encode(map[string]any{"requests": calls.Load(), "errors": failed.Load(),
		"rps": float64(calls.Load()) / time.Since(start).Seconds()})
}

func main() {
	addr := flag.String("addr", "127.0.0.1:0", "address")
	loading := flag.Bool("load", false, "call the server")
	conns := flag.Int("conns", 64, "connections")
	how := flag.Duration("d", time.Second, "how long")
	flag.Parse()
	encoding.RegisterCodec(codec{})
	if *loading {
		load(*addr, *conns, *how)
		return
	}
	fmt.Fprintln(os.Stderr, serve(*addr))
	os.Exit(1)
}
