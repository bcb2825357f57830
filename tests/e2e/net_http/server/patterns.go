//go:build go1.22

package main

import "net/http"

func patterns(mux *http.ServeMux, ok http.HandlerFunc) {
	mux.HandleFunc("GET /items/{id}", handle(200, ok))
	mux.HandleFunc("/users/{user}/posts/{post...}", handle(200, ok))
	mux.HandleFunc("POST example.test/hosted/{id}", handle(200, ok))
}

func innerPatterns(mux *http.ServeMux, ok http.HandlerFunc) {
	mux.HandleFunc("/mid/{id}", handle(200, ok))
}
