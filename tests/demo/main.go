// The programs that the demo traces, a shop's web server and its stock, by one file: plain net/http, built without symbols,
// knowing nothing of tracing.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path"
	"time"
)

type user struct{}

// As many do: the handlers get a copy of the request.
func login(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), user{}, "somebody")))
	})
}

func call(ctx context.Context, method, url string) error {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// What is in stock, and a reservation made on a goroutine that knows nothing of the request.
func order(stock string, r *http.Request) error {
	if err := call(r.Context(), "GET", stock+"/stock/"+path.Base(r.URL.Path)); err != nil {
		return err
	}
	reserved := make(chan error)
	go func() { reserved <- call(context.Background(), "POST", stock+"/reserve") }()
	return <-reserved
}

func web(mux *http.ServeMux, stock string) {
	mux.HandleFunc("/fast", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "fast") })
	mux.HandleFunc("/slow", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(150 * time.Millisecond)
		fmt.Fprintln(w, "slow")
	})
	mux.HandleFunc(pattern("items"), func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "an item") })
	mux.HandleFunc("/broken", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "broken", 500) })
	mux.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) { panic("on purpose") })
	mux.HandleFunc(pattern("orders"), func(w http.ResponseWriter, r *http.Request) {
		if err := order(stock, r); err != nil {
			http.Error(w, err.Error(), 502)
		}
	})
}

func stock(mux *http.ServeMux, self string) {
	mux.HandleFunc(pattern("stock"), func(w http.ResponseWriter, r *http.Request) {
		if err := call(r.Context(), "GET", self+"/prices/"+path.Base(r.URL.Path)); err != nil {
			http.Error(w, err.Error(), 502)
		}
	})
	mux.HandleFunc(pattern("prices"), func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "a price") })
	mux.HandleFunc("/reserve", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(201) })
}

// With an argument, the URL of the stock: the web server.
func main() {
	log.SetOutput(io.Discard) // net/http would print the stack of the panic above
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	if len(os.Args) > 1 {
		web(mux, os.Args[1])
	} else {
		stock(mux, "http://"+l.Addr().String())
	}
	fmt.Printf("{\"port\": %d}\n", l.Addr().(*net.TCPAddr).Port)
	log.Fatal(http.Serve(l, login(mux)))
}
