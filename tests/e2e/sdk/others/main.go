// A web server with Jaeger's and Sentry's tracers in it.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/getsentry/sentry-go"
	sentryhttp "github.com/getsentry/sentry-go/http"
	"github.com/opentracing/opentracing-go"
	"github.com/uber/jaeger-client-go"
)

func main() {
	tracer, closer := jaeger.NewTracer("web", jaeger.NewConstSampler(true), jaeger.NewNullReporter())
	defer closer.Close()
	opentracing.SetGlobalTracer(tracer)
	if err := sentry.Init(sentry.ClientOptions{EnableTracing: true, TracesSampleRate: 1}); err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/sentry", sentryhttp.New(sentryhttp.Options{}).HandleFunc(func(w http.ResponseWriter, r *http.Request) {}))
	mux.HandleFunc("/jaeger", func(w http.ResponseWriter, r *http.Request) {
		opentracing.StartSpan("work").Finish()
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	line, _ := json.Marshal(map[string]any{"ports": map[string]int{"h1": listener.Addr().(*net.TCPAddr).Port}})
	fmt.Println(string(line))
	go http.Serve(listener, mux)
	done := make(chan os.Signal, 1)
	signal.Notify(done, syscall.SIGTERM, os.Interrupt)
	<-done
}
