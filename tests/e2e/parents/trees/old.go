//go:build !go1.21

package main

var newWays []func(*node)
