// Servers whose ServeMux stands behind something, or inside another one; each with and without TLS.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"
)

type key struct{}

func ok(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") }

// A middleware as most are.
func copying(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/denied" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, 1)))
	})
}

func cloning(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.Clone(context.WithValue(r.Context(), key{}, 1)))
	})
}

// Rewrites where the request comes from and where it goes.
func rewriting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(context.WithValue(r.Context(), key{}, 1))
		u := *r.URL
		u.Path, u.RawPath = "/new"+strings.TrimPrefix(u.Path, "/old"), ""
		r.URL = &u
		next.ServeHTTP(w, r)
	})
}

func mux(patterns ...string) *http.ServeMux {
	m := http.NewServeMux()
	for _, p := range patterns {
		m.HandleFunc(p, ok)
	}
	return m
}

// Patterns that are no constants of the program.
func made(p string) string { return strings.Join(strings.Split(p, "|"), os.Getenv("NOTHING")) }

func servers() map[string]http.Handler {
	plain := func() *http.ServeMux {
		m := mux("GET /users/{id}", "/files/{path...}", "/exact/{$}", "/tree/", "POST /users/{id}", "example.test/hosted/{id}",
			made("/made|/{of}|/strings"))
		m.HandleFunc("/batch/{n}", func(w http.ResponseWriter, r *http.Request) {
			inner := mux("/", "/batch/{other}")
			inner.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/batch/1", nil))
			ok(w, r)
		})
		return m
	}
	inner := mux("/users/{id}", "/", "GET /deep/{a}/{b}")
	api := http.NewServeMux()
	api.Handle("/v1/", http.StripPrefix("/v1", inner))
	nested := http.NewServeMux()
	nested.Handle("/api/", http.StripPrefix("/api", api))
	nested.Handle("/t/{tenant}/", copying(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.StripPrefix("/t/"+r.PathValue("tenant"), inner).ServeHTTP(w, r)
	})))
	nested.Handle("/same/", copying(mux("/same/{x}", "/same/")))
	nested.Handle("/old/", rewriting(mux("/new/{x}")))
	blue, green := mux("/{colour}/blue"), mux("/{colour}/green")
	return map[string]http.Handler{
		"plain":    plain(),
		"copied":   copying(plain()),
		"twice":    copying(copying(plain())),
		"cloned":   cloning(plain()),
		"nested":   nested,
		"nested2":  copying(nested),
		"rewriter": rewriting(mux("/new/{x}")),
		"stripped": http.StripPrefix("/v1", inner),
		"two": copying(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "blue") {
				blue.ServeHTTP(w, r)
			} else {
				green.ServeHTTP(w, r)
			}
		})),
		"asking": copying(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			blue.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/some/blue", nil))
			green.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", r.URL.Path, nil).WithContext(r.Context()))
			sub := httptest.NewRequest("GET", "/some/blue", nil)
			sub.Header, sub.Host, sub.RemoteAddr = r.Header, r.Host, r.RemoteAddr
			blue.ServeHTTP(httptest.NewRecorder(), sub)
			ok(w, r)
		})),
		"own": copying(http.HandlerFunc(ok)),
		"late": http.TimeoutHandler(plain(), 10*time.Second, "late"),
	}
}

func main() {
	log.SetOutput(io.Discard)
	ports := map[string]int{}
	quiet := log.New(io.Discard, "", 0)
	for name, h := range servers() {
		s := httptest.NewUnstartedServer(h)
		s.Config.ErrorLog = quiet
		s.Start()
		tls := httptest.NewUnstartedServer(h)
		tls.Config.ErrorLog = quiet
		tls.EnableHTTP2 = true
		tls.StartTLS()
		ports[name] = port(s)
		ports[name+"_tls"] = port(tls)
	}
	_ = json.NewEncoder(os.Stdout).Encode(map[string]interface{}{"ports": ports})
	select {}
}

func port(s *httptest.Server) int {
	var n int
	_, _ = fmt.Sscanf(s.Listener.Addr().String(), "127.0.0.1:%d", &n)
	return n
}
