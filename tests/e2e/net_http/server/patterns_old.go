//go:build !go1.22

package main

import "net/http"

func patterns(mux *http.ServeMux, ok http.HandlerFunc) {
	mux.HandleFunc("/items/", handle(200, ok))
}

func innerPatterns(mux *http.ServeMux, ok http.HandlerFunc) {
	mux.HandleFunc("/mid/", handle(200, ok))
}
