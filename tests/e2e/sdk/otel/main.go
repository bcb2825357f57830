// A web server that has OpenTelemetry's SDK in it. What it does with it its flags say; what a request does, its path. Each
// handler tells the ids of the SDK's span that it sees, so that the test knows what the program itself has sent.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

var (
	collector = flag.String("collector", "", "host:port of the collector; empty: the SDK is not installed")
	ratio     = flag.Float64("ratio", 1, "share of traces that the SDK samples")
	self      string
	plain     = &http.Client{Transport: &http.Transport{}}
	wrapped   = &http.Client{Transport: otelhttp.NewTransport(&http.Transport{})}
)

func install() func(context.Context) error {
	if *collector == "" {
		return func(context.Context) error { return nil }
	}
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpoint(*collector), otlptracehttp.WithInsecure())
	if err != nil {
		panic(err)
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter, trace.WithBatchTimeout(100*time.Millisecond)),
		trace.WithSampler(trace.ParentBased(trace.TraceIDRatioBased(*ratio))),
		trace.WithResource(resource.NewSchemaless(attribute.String("from", "sdk"), attribute.String("program", strconv.Itoa(os.Getpid())))))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	return provider.Shutdown
}

// Calls the leaf, which is served without the SDK, by this client and with this context.
func call(ctx context.Context, client *http.Client, rid, mark string) {
	request, err := http.NewRequestWithContext(ctx, "GET", self+"/leaf?rid="+rid+"."+mark, nil)
	if err != nil {
		panic(err)
	}
	response, err := client.Do(request)
	if err != nil {
		panic(err)
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

func handle(w http.ResponseWriter, r *http.Request) {
	ctx, rid := r.Context(), r.URL.Query().Get("rid")
	sc := api.SpanContextFromContext(ctx)
	w.Header().Set("X-Span", sc.TraceID().String()+"-"+sc.SpanID().String())
	switch strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/sdk"), "/bare") {
	case "/none":
	case "/plain": // a client without instrumentation
		call(ctx, plain, rid, "plain")
	case "/wrapped": // one with
		call(ctx, wrapped, rid, "wrapped")
	case "/both":
		call(ctx, plain, rid, "plain")
		call(ctx, wrapped, rid, "wrapped")
		call(ctx, plain, rid, "again")
	case "/background": // the context is not handed on
		call(context.Background(), plain, rid, "background")
	case "/goroutine":
		var wait sync.WaitGroup
		wait.Add(1)
		go func() {
			defer wait.Done()
			call(context.Background(), plain, rid, "started")
		}()
		wait.Wait()
	case "/manual": // a span by hand, and calls below it
		inner, span := otel.Tracer("by-hand").Start(ctx, "manual")
		call(inner, plain, rid, "manual")
		cancelled, cancel := context.WithTimeout(context.WithValue(inner, "key", "value"), time.Minute)
		call(cancelled, plain, rid, "below")
		cancel()
		span.End()
		call(ctx, plain, rid, "after")
	case "/proxy": // the caller's header is handed on
		to, _ := url.Parse(self)
		r.URL.Path, r.URL.RawQuery = "/leaf", "rid="+rid+".proxy"
		httputil.NewSingleHostReverseProxy(to).ServeHTTP(w, r)
	case "/client": // a client's span by hand: the call is its operation
		inner, span := otel.Tracer("by-hand").Start(ctx, "GET leaf", api.WithSpanKind(api.SpanKindClient))
		call(inner, plain, rid, "client")
		span.End()
	default:
		w.WriteHeader(404)
	}
}

func main() {
	flag.Parse()
	stop := install()
	mux := http.NewServeMux()
	mux.Handle("/sdk/", otelhttp.NewHandler(http.HandlerFunc(handle), "served"))
	mux.Handle("/timeout/", http.TimeoutHandler(otelhttp.NewHandler(http.StripPrefix("/timeout", http.HandlerFunc(handle)), "late"),
		time.Minute, ""))
	mux.HandleFunc("/bare/", handle)
	mux.HandleFunc("/leaf", func(w http.ResponseWriter, r *http.Request) {})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	self = fmt.Sprintf("http://%s", listener.Addr())
	line, _ := json.Marshal(map[string]any{"ports": map[string]int{"h1": listener.Addr().(*net.TCPAddr).Port}})
	fmt.Println(string(line))
	go http.Serve(listener, mux)
	done := make(chan os.Signal, 1)
	signal.Notify(done, syscall.SIGTERM, os.Interrupt)
	<-done
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	stop(ctx)
}
