// A service that asks others: GET /via?to=URL answers what URL answers, GET /n/CODE answers CODE.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

func answer(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/n/"))
	if err != nil {
		code = 404
	}
	time.Sleep(2 * time.Millisecond)
	w.WriteHeader(code)
	if code == 200 {
		_, _ = io.WriteString(w, "done") // the peer of an answer with a body is known
	}
}

func via(w http.ResponseWriter, r *http.Request) {
	request, err := http.NewRequestWithContext(r.Context(), "GET", r.URL.Query().Get("to"), nil)
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		http.Error(w, err.Error(), 502)
		return
	}
	_, _ = io.Copy(io.Discard, got.Body)
	_ = got.Body.Close()
	w.WriteHeader(got.StatusCode)
}

func main() {
	address := flag.String("address", "127.0.0.1:0", "")
	flag.Parse()
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("/n/", answer)
	http.HandleFunc("/via", via)
	_ = json.NewEncoder(os.Stdout).Encode(map[string]interface{}{"ports": map[string]int{"h1": listener.Addr().(*net.TCPAddr).Port}})
	fmt.Fprintln(os.Stderr, http.Serve(listener, nil))
}
