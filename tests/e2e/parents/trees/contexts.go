// Contexts of one's own.
package main

import (
	"context"
	"sync"
	"time"
)

// Embeds it, behind other things.
type labelled struct {
	name string
	lock sync.Mutex
	context.Context
}

// Wraps it, as a field among others, by value in the interface.
type wrapped struct {
	name   string
	parent context.Context
}

func (w wrapped) Deadline() (time.Time, bool) { return w.parent.Deadline() }
func (w wrapped) Done() <-chan struct{}       { return w.parent.Done() }
func (w wrapped) Err() error                  { return w.parent.Err() }
func (w wrapped) Value(key any) any           { return w.parent.Value(key) }

// Has the values, but does not end with it.
type detached struct{ parent context.Context }

func (detached) Deadline() (t time.Time, ok bool) { return }
func (detached) Done() <-chan struct{}            { return nil }
func (detached) Err() error                       { return nil }
func (d detached) Value(key any) any              { return d.parent.Value(key) }

// Embeds a struct that embeds it.
type base struct{ context.Context }
type derived struct {
	count int
	base
}

// Embeds a pointer: where its parent is cannot be seen without following it.
type byPointer struct {
	*base
	other int
}

// Two that could be meant.
type merged struct {
	first, second context.Context
}

func (m merged) Deadline() (time.Time, bool) { return m.first.Deadline() }
func (m merged) Done() <-chan struct{}       { return m.first.Done() }
func (m merged) Err() error                  { return m.first.Err() }
func (m merged) Value(key any) any {
	if v := m.first.Value(key); v != nil {
		return v
	}
	return m.second.Value(key)
}

// A function, and nothing to see.
type byFunc func(key any) any

func (byFunc) Deadline() (t time.Time, ok bool) { return }
func (byFunc) Done() <-chan struct{}            { return nil }
func (byFunc) Err() error                       { return nil }
func (f byFunc) Value(key any) any              { return f(key) }

// Its own parent, by itself or by another one of its kind.
type cyclic struct{ context.Context }

func (*cyclic) Deadline() (t time.Time, ok bool) { return }
func (*cyclic) Done() <-chan struct{}            { return nil }
func (*cyclic) Err() error                       { return nil }
func (*cyclic) Value(any) any                    { return nil }

func cycle(length int) context.Context {
	first := &cyclic{}
	at := first
	for i := 1; i < length; i++ {
		next := &cyclic{at}
		at = next
	}
	first.Context = at
	return first
}

type key int

// levels makes n contexts above ctx, of changing kinds.
func levels(ctx context.Context, n int) (context.Context, func()) {
	var cancels []context.CancelFunc
	for i := 0; i < n; i++ {
		var cancel context.CancelFunc
		switch i % 4 {
		default:
			ctx = context.WithValue(ctx, key(i), i)
		case 2:
			ctx, cancel = context.WithCancel(ctx)
		case 3:
			ctx, cancel = context.WithTimeout(ctx, time.Hour)
		}
		if cancel != nil {
			cancels = append(cancels, cancel)
		}
	}
	return ctx, func() {
		for _, c := range cancels {
			c()
		}
	}
}

// custom is one of the contexts above, around ctx, and whether its parent can be seen.
func custom(ctx context.Context, which int) (context.Context, bool) {
	switch which {
	case 0:
		return &labelled{name: "x", Context: ctx}, true
	case 1:
		return wrapped{"x", ctx}, true
	case 2:
		return detached{ctx}, true
	case 3:
		return &derived{base: base{ctx}}, true
	case 4:
		return derived{base: base{ctx}}, true
	case 5:
		return base{wrapped{"y", &labelled{Context: context.WithValue(ctx, key(0), 1)}}}, true
	case 6:
		return byPointer{base: &base{ctx}}, false
	case 7:
		return merged{ctx, context.Background()}, false
	case 8:
		return merged{context.Background(), ctx}, false
	default:
		return byFunc(ctx.Value), false
	}
}

const customs = 10
