// Random ServeMuxes one inside the other, each behind StripPrefix or not, behind a middleware or not. Tells the true route of
// each request: what was stripped, as the outer patterns have it, and the pattern of the innermost mux that matched.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
)

type key struct{}

// What is known of a request on its way.
type way struct{ stripped, route string }

var (
	out  = bufio.NewWriter(os.Stdout)
	lock sync.Mutex
	rng  *rand.Rand
)

var words = []string{"a", "b", "users", "c%2Fd", "e.f", "%7Bx%7D", "ü", "a+b", "~"}

func word() string { return words[rng.Intn(len(words))] }

func pathOf(pattern string) string { return pattern[strings.IndexByte(pattern, '/'):] }

// One to three segments; open: it ends in a slash, so that another mux can stand behind it.
func pattern(open bool) string {
	var b strings.Builder
	if rng.Intn(4) == 0 && !open {
		b.WriteString("GET ")
	}
	n := 1 + rng.Intn(3)
	for i := 0; i < n; i++ {
		if rng.Intn(3) == 0 {
			fmt.Fprintf(&b, "/{w%d}", i)
		} else {
			b.WriteString("/" + word())
		}
	}
	if open {
		return b.String() + "/"
	}
	switch rng.Intn(6) {
	case 0:
		b.WriteString("/")
	case 1:
		b.WriteString("/{$}")
	case 2:
		b.WriteString("/{rest...}")
	}
	return b.String()
}

func with(r *http.Request, w way) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), key{}, w))
}

func wayOf(r *http.Request) way {
	w, _ := r.Context().Value(key{}).(way)
	return w
}

func register(m *http.ServeMux, p string, h http.Handler) {
	defer func() { _ = recover() }() // it conflicts with another one
	m.Handle(p, h)
}

func prefix(path string, n int) string {
	for i, c := range path {
		if c == '/' {
			if n--; n < 0 {
				return path[:i]
			}
		}
	}
	return path
}

// A mux and what stands behind its patterns. told: where the route of the request is kept.
func mux(depth int) http.Handler {
	m := http.NewServeMux()
	for i := 0; i < 8; i++ {
		register(m, pattern(false), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			told(r, wayOf(r).stripped+pathOf(r.Pattern))
		}))
	}
	for i := 0; i < 3 && depth > 1; i++ {
		p := pattern(true)
		cut := rng.Intn(strings.Count(p, "/"))
		inner := mux(depth - 1)
		register(m, p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			way := wayOf(r)
			told(r, way.stripped+pathOf(r.Pattern))
			if cut > 0 {
				way.stripped += prefix(pathOf(r.Pattern), cut)
				strip := prefix(r.URL.EscapedPath(), cut)
				plain := prefix(r.URL.Path, cut)
				if strip != plain {
					inner.ServeHTTP(w, stripEscaped(with(r, way), strip))
					return
				}
				http.StripPrefix(strip, inner).ServeHTTP(w, with(r, way))
				return
			}
			inner.ServeHTTP(w, with(r, way))
		}))
	}
	return m
}

// As StripPrefix, for a prefix that is written otherwise than it reads.
func stripEscaped(r *http.Request, strip string) *http.Request {
	rest := strings.TrimPrefix(r.URL.EscapedPath(), strip)
	u, err := r.URL.Parse("http://x" + rest)
	if err != nil {
		panic(err)
	}
	r2 := *r
	n := *r.URL
	n.Path, n.RawPath = u.Path, u.RawPath
	r2.URL = &n
	return &r2
}

type truth struct {
	Rid   string `json:"rid"`
	Route string `json:"route"`
}

type note struct{ route *string }
type noteKey struct{}

func told(r *http.Request, route string) {
	*r.Context().Value(noteKey{}).(note).route = route
}

func top(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var route string
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), noteKey{}, note{&route})))
		lock.Lock()
		defer lock.Unlock()
		_ = json.NewEncoder(out).Encode(map[string]truth{"truth": {r.URL.Query().Get("rid"), route}})
		_ = out.Flush()
	})
}

func main() {
	seed := flag.Int64("seed", 1, "")
	flag.Parse()
	rng = rand.New(rand.NewSource(*seed))
	ports := map[string]int{}
	var all []string
	for i := 0; i < 20; i++ {
		s := httptest.NewServer(top(mux(3)))
		var port int
		_, _ = fmt.Sscanf(s.Listener.Addr().String(), "127.0.0.1:%d", &port)
		ports[fmt.Sprint("mux", i)] = port
	}
	for i := 0; i < 500; i++ {
		var b strings.Builder
		for n := 1 + rng.Intn(6); n > 0; n-- {
			b.WriteString("/" + word())
		}
		if rng.Intn(4) == 0 {
			b.WriteString("/")
		}
		all = append(all, strings.ReplaceAll(b.String(), "ü", "%C3%BC"))
	}
	_ = json.NewEncoder(out).Encode(map[string]interface{}{"ports": ports, "paths": all})
	_ = out.Flush()
	select {}
}
