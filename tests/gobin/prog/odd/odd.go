// Package strange is not named like its import path.
package strange

// Thing has the name of another package's type.
type Thing struct {
	Pad  [24]byte
	Odd  string
	Last byte
}

// Touch keeps it alive.
//
//go:noinline
func (t *Thing) Touch(s string) string {
	t.Odd += s
	return t.Odd
}
