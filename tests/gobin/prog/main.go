// A program to look into: an HTTP server that is never asked, and types of all kinds.
package main

import (
	"fmt"
	"net/http"
	"os"

	dep "example.com/dep.go"
	strange "example.com/odd/v3"
)

// byValue is only ever copied: the program has no descriptor of it.
type byValue struct {
	first  int64
	second [3]uint32
	third  int64
}

//go:noinline
func (v byValue) sum() int64 { return v.first + int64(v.second[2]) + v.third }

type unused struct{ nobody, knows int }

//go:noinline
func ends(n int) int {
	if n > 5 {
		return n
	}
	if n > 3 {
		return len(os.Args)
	}
	return -n
}

func main() {
	var d dep.Thing
	var s strange.Thing
	v := byValue{first: int64(len(os.Args)), third: 3}
	fmt.Fprintln(os.Stderr, d.Touch(1), s.Touch("x"), v.sum(), ends(len(os.Args)), &d, &s)
	http.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "hi", r.URL.Path) })
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:0", nil))
}
