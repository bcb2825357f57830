// Only a client: calls the URL given every 10 ms until it is ended.
package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"time"
)

func main() {
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(map[string]int{"pid": os.Getpid()})
	for {
		r, err := http.Get(os.Args[1])
		if err != nil {
			os.Exit(1)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
		time.Sleep(10 * time.Millisecond)
	}
}
