//go:build go1.22

package main

func pattern(of string) string { return "GET /" + of + "/{id}" }
