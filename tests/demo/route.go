//go:build go1.22

package main

const itemPattern = "GET /items/{id}"
