// Package dep has a dot in its import path.
package dep

// Thing is reached through a pointer.
type Thing struct {
	Name  string
	Inner struct{ A, B int32 }
	Last  uint64
}

// Touch keeps it alive.
//
//go:noinline
func (t *Thing) Touch(n uint64) uint64 {
	t.Last += n
	t.Inner.B++
	return t.Last
}
