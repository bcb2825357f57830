//go:build !go1.24

package main

import (
	"log"
	"net/http"
)

func h2cServer(http.Handler) *http.Server {
	log.Fatal("this Go has no Server.Protocols")
	return nil
}
