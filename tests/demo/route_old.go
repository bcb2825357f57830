//go:build !go1.22

package main

const itemPattern = "/items/" // ServeMux knows patterns from Go 1.22 on
