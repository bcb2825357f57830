//go:build go1.23

package main

import "net/http"

func patternOf(r *http.Request) string { return r.Pattern }
