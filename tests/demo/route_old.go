//go:build !go1.22

package main

func pattern(of string) string { return "/" + of + "/" } // ServeMux knows more of patterns from Go 1.22 on
