//go:build oldgrpc
// +build oldgrpc

package main

import "google.golang.org/grpc"

func plaintext() grpc.DialOption { return grpc.WithInsecure() }
