// httpapp is target (a): a net/http server whose handler works about 20 us
// and answers JSON. The other routes exist to look at correctness.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"time"

	"spoor/bench/work"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "")
	rounds := flag.Int("rounds", 16, "work per request; 0 calibrates to 20 us")
	flag.Parse()
	if *rounds > 0 {
		work.SetRounds(*rounds)
	} else {
		fmt.Println("rounds", work.Calibrate(20*time.Microsecond))
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, _ := strconv.Atoi(r.PathValue("id"))
		w.Header().Set("Content-Type", "application/json")
		w.Write(work.Do(id))
	})
	mux.HandleFunc("GET /status/{code}", func(w http.ResponseWriter, r *http.Request) {
		c, _ := strconv.Atoi(r.PathValue("code"))
		w.WriteHeader(c)
	})
	mux.HandleFunc("GET /panic", func(http.ResponseWriter, *http.Request) { panic("on purpose") })
	mux.HandleFunc("GET /hijack", func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			log.Print(err)
			return
		}
		rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: raw\r\nConnection: Upgrade\r\n\r\n")
		rw.Flush()
		c.Close()
	})
	p := new(http.Protocols)
	p.SetHTTP1(true)
	p.SetUnencryptedHTTP2(true)
	s := &http.Server{Addr: *addr, Handler: mux, Protocols: p}
	log.Fatal(s.ListenAndServe())
}
