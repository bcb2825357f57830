// The ways in which a request calls out.
package main

import (
	"context"
	"math/rand"
	"sync"
	"sync/atomic"
	"time"
)

var ways = append([]func(*node){
	direct, background, fromGoroutine, fromBareGoroutine, group, pool, poolWithoutContext, lazyPool,
	lazyPoolWithContext, values, customHere, customElsewhere, timer, timerWithoutContext, handedOver,
	handedOverDetached, handedOverBare, inStruct, flight, grandchild, cyclicHere, cyclicElsewhere, oldHere,
	oldElsewhere, deepStack,
}, newWays...)

// fork is a source of random numbers for another goroutine.
func (n *node) fork() *rand.Rand { return rand.New(rand.NewSource(n.rand.Int63())) }

func direct(n *node)     { get(n.ctx, n, n.rand, "direct", exact) }
func background(n *node) { get(context.Background(), n, n.rand, "background", exact) }

// wait runs f on a goroutine of its own.
func wait(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

func fromGoroutine(n *node) {
	r := n.fork()
	wait(func() { get(n.ctx, n, r, "goroutine", exact) })
}

func fromBareGoroutine(n *node) {
	r := n.fork()
	wait(func() { get(context.Background(), n, r, "bare goroutine", infer) })
}

// group is golang.org/x/sync/errgroup's way: a context for all, one goroutine each.
func group(n *node) {
	var done sync.WaitGroup
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	for i := 0; i < 3; i++ {
		r := n.fork()
		done.Add(1)
		go func() {
			defer done.Done()
			get(ctx, n, r, "group", exact)
		}()
	}
	done.Wait()
}

// submit has f done by a worker, if one is free.
func submit(to chan func(), f func()) bool {
	done := make(chan struct{})
	select {
	case to <- func() { defer close(done); f() }:
		<-done
		return true
	default:
		return false
	}
}

func pool(n *node) {
	r := n.fork()
	submit(jobs, func() { get(n.ctx, n, r, "pool", exact) })
}

func poolWithoutContext(n *node) {
	r := n.fork()
	submit(jobs, func() { get(context.Background(), n, r, "pool without context", none) })
}

// startLazily starts a few workers inside of whatever request comes first.
func startLazily() {
	for atomic.AddInt32(&lazy, 1) <= 32 {
		go work(lazyJobs)
		if rand.Intn(4) == 0 {
			return
		}
	}
}

func lazyPool(n *node) {
	r := n.fork()
	startLazily()
	submit(lazyJobs, func() { get(context.Background(), n, r, "lazy pool without context", shared) })
}

func lazyPoolWithContext(n *node) {
	r := n.fork()
	startLazily()
	submit(lazyJobs, func() { get(n.ctx, n, r, "lazy pool", exact) })
}

func values(n *node) {
	r := n.fork()
	ctx, cancel := levels(n.ctx, 20+n.rand.Intn(10))
	defer cancel()
	wait(func() { get(ctx, n, r, "20 levels", exact) })
}

func customHere(n *node) {
	ctx, _ := custom(n.ctx, n.rand.Intn(customs))
	get(ctx, n, n.rand, "custom context", exact)
}

// customElsewhere: not by its goroutine, so only by the walk.
func customElsewhere(n *node) {
	r := n.fork()
	ctx, seen := custom(n.ctx, n.rand.Intn(customs))
	class := exact
	if !seen {
		class = known
	}
	submit(jobs, func() { get(ctx, n, r, "custom context elsewhere", class) })
}

func timer(n *node) {
	r, done := n.fork(), make(chan struct{})
	time.AfterFunc(time.Millisecond, func() {
		defer close(done)
		get(n.ctx, n, r, "timer", exact)
	})
	<-done
}

func timerWithoutContext(n *node) {
	r, done := n.fork(), make(chan struct{})
	time.AfterFunc(time.Millisecond, func() {
		defer close(done)
		get(context.Background(), n, r, "timer without context", known)
	})
	<-done
}

// after goes on once the request is over: its caller has the answer.
func after(n *node, f func(*rand.Rand)) {
	r := n.fork()
	behind.Add(1)
	go func() {
		defer behind.Done()
		<-n.ended
		for i := 0; i < 2; i++ {
			f(r)
		}
	}()
}

// The server has cancelled the request's context by then: the call fails, but it is one.
func handedOver(n *node) {
	after(n, func(r *rand.Rand) { get(n.ctx, nil, r, "handed over, then returned", none) })
}

func handedOverDetached(n *node) {
	after(n, func(r *rand.Rand) { get(detached{n.ctx}, nil, r, "handed over detached, then returned", none) })
}

func handedOverBare(n *node) {
	after(n, func(r *rand.Rand) {
		get(context.Background(), nil, r, "handed over without context, then returned", late)
	})
}

type job struct {
	ctx context.Context
	n   *node
	r   *rand.Rand
}

func (j *job) run() { get(j.ctx, j.n, j.r, "context in a struct", exact) }

func inStruct(n *node) {
	j := &job{context.WithValue(n.ctx, key(1), 2), n, n.fork()}
	if !submit(jobs, j.run) {
		j.run()
	}
}

var (
	flightLock sync.Mutex
	flying     chan struct{}
)

// flight is golang.org/x/sync/singleflight's way: one calls, the others wait for its result.
func flight(n *node) {
	flightLock.Lock()
	c := flying
	if c == nil {
		flying = make(chan struct{})
		c = flying
		flightLock.Unlock()
		r := n.fork()
		wait(func() { get(n.ctx, n, r, "flight", exact) })
		flightLock.Lock()
		flying = nil
		flightLock.Unlock()
		close(c)
		return
	}
	flightLock.Unlock()
	if n.depth == 1 { /* deeper ones could wait for themselves */
		<-c
	}
}

// grandchild: a goroutine's goroutine has no better parent than a guess, which is not made.
func grandchild(n *node) {
	r := n.fork()
	wait(func() {
		wait(func() { get(context.Background(), n, r, "goroutine's goroutine", known) })
	})
}

func cyclicHere(n *node) { get(cycle(1+n.rand.Intn(5)), n, n.rand, "cyclic context", exact) }

func cyclicElsewhere(n *node) {
	r := n.fork()
	ctx := cycle(1 + n.rand.Intn(100))
	submit(jobs, func() { get(ctx, n, r, "cyclic context elsewhere", none) })
}

func used() context.Context {
	oldLock.Lock()
	defer oldLock.Unlock()
	return old
}

// oldHere: the context's request is over, so it counts who calls.
func oldHere(n *node) {
	if ctx := used(); ctx != nil {
		get(ctx, n, n.rand, "another request's old context", exact)
	}
}

func oldElsewhere(n *node) {
	r := n.fork()
	if ctx := used(); ctx != nil {
		submit(jobs, func() { get(ctx, n, r, "another request's old context elsewhere", none) })
	}
}

//go:noinline
func deep(levels int, f func()) int {
	var room [1024]byte
	if levels == 0 {
		f()
		return len(room)
	}
	room[levels] = byte(levels)
	return deep(levels-1, f) + int(room[levels/2])
}

func deepStack(n *node) {
	r := n.fork()
	wait(func() {
		deep(64, func() { get(n.ctx, n, r, "deep stack", exact) })
	})
	deep(64, func() { get(context.Background(), n, n.rand, "deep stack", exact) })
}
