//go:build go1.21

package main

import (
	"context"
	"time"
)

var newWays = []func(*node){withoutCancel, afterFunc, afterFuncBelow}

func withoutCancel(n *node) {
	r := n.fork()
	ctx, cancel := context.WithCancel(n.ctx)
	cancel()
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), time.Hour)
	defer cancel()
	submit(jobs, func() { get(ctx, n, r, "without cancel", exact) })
}

// afterFunc: what a context's end starts.
func afterFunc(n *node) {
	r, done := n.fork(), make(chan struct{})
	ctx, cancel := context.WithCancel(n.ctx)
	context.AfterFunc(ctx, func() {
		defer close(done)
		get(context.WithoutCancel(ctx), n, r, "after func", exact)
	})
	cancel()
	<-done
}

// afterFuncBelow: a context between whose parent is a stopCtx, which AfterFunc makes of parents that are not the library's own.
func afterFuncBelow(n *node) {
	r := n.fork()
	ctx, cancel := context.WithCancel(&stopper{n.ctx})
	defer cancel()
	submit(jobs, func() { get(ctx, n, r, "below a stopCtx", exact) })
}

type stopper struct{ context.Context }

func (s *stopper) Done() <-chan struct{} { return make(chan struct{}) }
func (s *stopper) AfterFunc(f func()) func() bool {
	return context.AfterFunc(s.Context, f)
}
