// A web server with Datadog's tracer in it, turned on by a flag.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	httptrace "github.com/DataDog/dd-trace-go/contrib/net/http/v2"
	"github.com/DataDog/dd-trace-go/v2/ddtrace/tracer"
)

var (
	on   = flag.Bool("on", false, "start the tracer")
	self string
)

func handle(w http.ResponseWriter, r *http.Request) {
	request, err := http.NewRequestWithContext(r.Context(), "GET", self+"/leaf?rid="+r.URL.Query().Get("rid")+".plain", nil)
	if err != nil {
		panic(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	io.Copy(io.Discard, response.Body)
	response.Body.Close()
}

func main() {
	flag.Parse()
	if *on {
		tracer.Start(tracer.WithLogStartup(false))
		defer tracer.Stop()
	}
	mux := http.NewServeMux()
	mux.Handle("/sdk/", httptrace.WrapHandler(http.HandlerFunc(handle), "web", "served"))
	mux.HandleFunc("/bare/", handle)
	mux.HandleFunc("/hand/", func(w http.ResponseWriter, r *http.Request) { // a span by hand, of something else
		span, ctx := tracer.StartSpanFromContext(r.Context(), "work")
		defer span.Finish()
		handle(w, r.WithContext(ctx))
	})
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
}
