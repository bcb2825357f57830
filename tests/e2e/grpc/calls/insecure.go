//go:build !oldgrpc
// +build !oldgrpc

package main

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func plaintext() grpc.DialOption { return grpc.WithTransportCredentials(insecure.NewCredentials()) }
