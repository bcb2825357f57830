// A web server that calls gRPC servers of its own, with and without OpenTelemetry's instrumentation on either side. Each gRPC
// server calls the leaf from within.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

var (
	collector = flag.String("collector", "", "host:port of the collector")
	leaf      string
	plain     = &http.Client{Transport: &http.Transport{}}
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func call(ctx context.Context) {
	md, _ := metadata.FromIncomingContext(ctx)
	request, err := http.NewRequestWithContext(ctx, "GET", leaf+"/leaf?rid="+strings.Join(md.Get("rid"), "")+".inside", nil)
	check(err)
	response, err := plain.Do(request)
	check(err)
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

// A gRPC server, and a plain and an instrumented client of it.
func serve(options ...grpc.ServerOption) (plain, wrapped grpc_health_v1.HealthClient) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	options = append(options, grpc.UnaryInterceptor(
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			call(ctx)
			return handler(ctx, request)
		}))
	server := grpc.NewServer(options...)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go server.Serve(listener)
	to := func(options ...grpc.DialOption) grpc_health_v1.HealthClient {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
		connection, err := grpc.Dial(listener.Addr().String(), options...)
		check(err)
		return grpc_health_v1.NewHealthClient(connection)
	}
	return to(), to(grpc.WithStatsHandler(otelgrpc.NewClientHandler()))
}

func main() {
	flag.Parse()
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpoint(*collector), otlptracehttp.WithInsecure())
	check(err)
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter, trace.WithBatchTimeout(100*time.Millisecond)),
		trace.WithResource(resource.NewSchemaless(attribute.String("from", "sdk"))))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})

	clients := map[string]grpc_health_v1.HealthClient{}
	clients["/neither"], clients["/client"] = serve()
	clients["/server"], clients["/both"] = serve(grpc.StatsHandler(otelgrpc.NewServerHandler()))
	http.HandleFunc("/leaf", func(w http.ResponseWriter, r *http.Request) {})
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		ctx := metadata.AppendToOutgoingContext(r.Context(), "rid", r.URL.Query().Get("rid"))
		_, err := clients[r.URL.Path].Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		check(err)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	leaf = fmt.Sprintf("http://%s", listener.Addr())
	line, _ := json.Marshal(map[string]any{"ports": map[string]int{"h1": listener.Addr().(*net.TCPAddr).Port}})
	fmt.Println(string(line))
	go http.Serve(listener, nil)
	done := make(chan os.Signal, 1)
	signal.Notify(done, syscall.SIGTERM, os.Interrupt)
	<-done
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	provider.Shutdown(ctx)
}
