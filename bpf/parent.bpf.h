/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * parent.bpf.h - who is whose parent. A library whose operations have children lends their contexts
 * (go_lend, go_unlend), one that calls out in a function that returns when the call is done marks
 * it (go_enter, go_leave), and one that begins an operation asks for its parent (go_parent) before
 * go_identify().
 *
 * In this order: the live operation that lent the context.Context which was given (1); the live one
 * of the same goroutine (2); the live one that the goroutine served which started this one (3, an
 * inference, marked EVENT_STARTED). 1 and 2 are right or absent: the walk from a context to its
 * parent steps only over types of which the program's own metadata say where it is. An operation
 * that has ended lends no more. A span of the program's own SDK that stands nearer in the chain of
 * contexts than the operation is the parent, as it is for the SDK itself, ended or not. */
#pragma once
#include "go.h"
#include "inbound.bpf.h"
#include "live.h"
#include "walk.bpf.h"

/* The runtime's fields are the first of every library. */
#define X(id, ...) GO_FIELD_##id,
enum { GO_RUNTIME_FIELDS(X) };
#undef X

/* Who this goroutine is; 0: not known. */
static __always_inline __u64 go_goid(const void *ctx, const struct go_slot *s)
{
	__u64 goid = 0;

	(void)go_read(&goid, 8, GO_G((const struct pt_regs *)ctx) + s->at[GO_FIELD_G_GOID]);
	return goid;
}

/* A goroutine at a hit. */
struct go_g {
	__u64 goid;
	__u64 parent; /* goid of the one that started it; 0: not known */
	__u64 depth;  /* bytes on its stack, the same wherever the stack is moved to */
};

/* Reads the goroutine whose g is at `at`, in one read. 0 or -1. buf is scratch. */
static __always_inline int go_goroutine(struct go_g *g, const struct go_slot *s, struct go_buf *buf,
					__u64 at, __u64 sp)
{
	__u32 goid = s->at[GO_FIELD_G_GOID], parent = s->at[GO_FIELD_G_PARENT_GOID];
	__u32 last = parent != GO_ABSENT && parent > goid ? parent : goid;

	if (go_read_struct(buf, last + 8, at))
		return -1;
	g->goid = go_u64(buf, goid);
	g->parent = parent != GO_ABSENT ? go_u64(buf, parent) : 0;
	/* stack.hi; the compiler's stack check has stackguard0 at 16, behind stack {lo, hi}. */
	g->depth = go_u64(buf, 8) - sp;
	return 0;
}

/* ---- the operations that others may have as their parent ---- */

static const struct live live_zero;

/* Operations of one process that others may have as their parent at a time;
 * operations.max_per_process. */
const volatile __s32 live_max = 4096;

/* An entry of that key, in the place of an older one. 0, or not 0: no room, counted. */
static __always_inline int live_put(const struct op_key *k, const struct live *l)
{
	__u32 at = k->slot;
	struct live_share *s = bpf_map_lookup_elem(&live_shares, &at);
	__s32 held;

	if (!s)
		return -1;
	held = __sync_fetch_and_add(&s->held, 1);
	if (held < live_max && !bpf_map_update_elem(&live, k, l, BPF_NOEXIST))
		return 0;
	__sync_fetch_and_add(&s->held, -1);
	if (!bpf_map_update_elem(&live, k, l, BPF_EXIST))
		return 0;
	if (held < live_max)
		count(live_no_room);
	else
		count(live_no_share);
	return -1;
}

static __always_inline void live_drop(const struct op_key *k)
{
	__u32 at = k->slot;
	struct live_share *s;

	if (bpf_map_delete_elem(&live, k))
		return;
	s = bpf_map_lookup_elem(&live_shares, &at);
	if (s)
		__sync_fetch_and_add(&s->held, -1);
}

static __always_inline struct live *live_make(__u32 slot, __u64 goid)
{
	struct op_key k = { .slot = slot, .id = goid };
	struct live *l = bpf_map_lookup_elem(&live, &k);

	if (l)
		return l;
	return live_put(&k, &live_zero) ? NULL : bpf_map_lookup_elem(&live, &k);
}

#define order() asm volatile("" ::: "memory")

static __always_inline __u64 id_of(const __u8 *span_id)
{
	return *(const __u64 *)span_id;
}

/* Writes what ev says into o. Whoever reads it meanwhile sees that active is another one. */
static __always_inline void live_set(struct live_op *o, const struct event *ev, __u32 kind,
				     __u64 ctx)
{
	*(volatile __u32 *)&o->active = 0;
	order();
	o->ctx = ctx;
	o->flags = ev->flags & (EVENT_SAMPLED | EVENT_REMOTE | EVENT_HEALTH);
	o->covered = 0;
	__builtin_memcpy(o->trace_id, ev->trace_id, sizeof(o->trace_id));
	__builtin_memcpy(o->span_id, ev->span_id, sizeof(o->span_id));
	__builtin_memcpy(o->parent_id, ev->parent_id, sizeof(o->parent_id));
	order();
	*(volatile __u32 *)&o->active = (__u32)id_of(ev->span_id) << 8 | kind;
}

static __always_inline void live_end(struct live_op *o)
{
	*(volatile __u32 *)&o->active = 0;
}

/* The context whose data pointer is ctx is lent by the operation of goroutine ev->goid. */
static __always_inline void lend_context(const struct event *ev, __u64 ctx, __u32 how)
{
	struct op_key k = { .slot = ev->cookie.slot, .id = ctx };
	struct lent lent = { .how = how, .goid = ev->goid };

	if (bpf_map_update_elem(&contexts, &k, &lent, BPF_ANY))
		count(live_no_room);
}

/* For one operation: an entry that is put in whole. */
static __always_inline int lend_self(const struct event *ev, __u64 ctx)
{
	struct op_key k = { .slot = ev->cookie.slot, .id = ev->goid };
	struct live l = { .held = 1 };

	live_set(&l.outer, ev, LIVE_SERVER, ctx);
	if (!live_put(&k, &l) && ctx)
		lend_context(ev, ctx, LEND_SELF);
	return 0;
}

/* A server's operation has begun on this goroutine: ev has its cookie, goid, ids and flags. ctx is
 * the data pointer of its context (0: none). LEND_SELF: whoever is given that context or one made
 * from it finds the operation; goes with go_unlend(). LEND_CONN: the same, but what stands in the
 * map is the context's parent, for as long as the goroutine serves that connection: nothing is
 * inserted for later requests. In a program in which nobody asks, nobody lends. */
GO_APART int lend_operation(const struct event *ev, __u64 ctx, __u32 how)
{
	struct live *l;
	__u64 up[2];

	if (!ev)
		return 0;
	if (ev->flags & EVENT_REMOTE)
		inbound_note(&ev->cookie, id_of(ev->parent_id));
	if (how == LEND_SELF)
		return lend_self(ev, ctx);
	l = live_make(ev->cookie.slot, ev->goid);
	if (!l)
		return 0;
	live_set(&l->outer, ev, LIVE_SERVER, ctx);
	l->inner.active = 0; /* a panic may have skipped its end */
	l->held = 1;
	if (!l->conn && ctx && !go_read(up, sizeof(up), ctx) && up[1]) {
		l->conn = up[1];
		lend_context(ev, up[1], how);
	}
	return 0;
}

static __always_inline int go_lend(const struct event *ev, const struct go_slot *s, __u64 ctx,
				   __u32 how)
{
	return unlikely(s->options & GO_OPTION_LEND) ? lend_operation(ev, ctx, how) : 0;
}

/* The operation that goroutine ev->goid serves has ended and lends no more. COVERED_*, 0: its span
 * is to be sent. keep: more requests may come on this connection. */
static __always_inline int go_unlend(const struct event *ev, const struct go_slot *s, int keep)
{
	struct op_key k = { .slot = ev->cookie.slot, .id = ev->goid };
	struct op_key c = { .slot = ev->cookie.slot };
	struct live *l;
	int covered;

	if (likely(!(s->options & GO_OPTION_LEND)))
		return 0;
	l = bpf_map_lookup_elem(&live, &k);
	if (!l)
		return 0;
	covered = l->outer.active & LIVE_KIND ? l->outer.covered : 0;
	live_end(&l->outer);
	if (keep)
		return covered;
	c.id = l->conn ?: l->outer.ctx;
	if (c.id)
		bpf_map_delete_elem(&contexts, &c);
	l->held = 0;
	live_drop(&k);
	return covered;
}

/* What a call that this goroutine is in has interrupted; a library keeps it until the end. */
struct entered {
	struct live_op before;
	__u64 depth;
};

/* A call out has begun on this goroutine, and its function will not return before go_leave(): what
 * the goroutine begins meanwhile is its child. */
GO_APART int go_enter(const struct event *ev, const struct go_g *g, struct entered *e)
{
	struct live *l;

	if (!ev || !g || !e)
		return 0;
	e->depth = g->depth;
	e->before.active = 0;
	l = live_make(ev->cookie.slot, g->goid);
	if (!l)
		return 0;
	if (l->inner.active & LIVE_KIND && l->inner.depth < g->depth)
		e->before = l->inner;
	live_set(&l->inner, ev, LIVE_INNER, 0);
	l->inner.depth = g->depth;
	return 0;
}

GO_APART int go_leave(const struct event *ev, const struct go_g *g, const struct entered *e)
{
	struct op_key k = {};
	struct live *l;

	if (!ev || !g || !e)
		return 0;
	k.slot = ev->cookie.slot;
	k.id = g->goid;
	l = bpf_map_lookup_elem(&live, &k);
	/* One that lies deeper was left without an end. */
	if (!l || !(l->inner.active & LIVE_KIND) || l->inner.depth < e->depth)
		return 0;
	l->inner = e->before; /* read by this goroutine's probes only */
	if (!(e->before.active & LIVE_KIND) && !l->held)
		live_drop(&k);
	return 0;
}

/* ---- the parent of an operation ---- */

/* Makes o the parent of ev; not if it is gone, or becomes another one meanwhile, or is not the one
 * that lends ctx or has that span id (0: any). */
static __always_inline int parent_is(struct event *ev, const struct live_op *o, __u64 ctx, __u64 id)
{
	__u32 active = *(const volatile __u32 *)&o->active;
	__u64 trace[2], span, above;
	__u8 flags, covered;

	if (!(active & LIVE_KIND) || o->covered == COVERED_LIB)
		return 0;
	order();
	trace[0] = *(const __u64 *)o->trace_id;
	trace[1] = *(const __u64 *)(o->trace_id + 8);
	span = id_of(o->span_id);
	above = id_of(o->parent_id);
	flags = o->flags;
	covered = o->covered;
	if ((ctx && o->ctx != ctx) || (id && span != id))
		return 0;
	order();
	if (*(const volatile __u32 *)&o->active != active)
		return 0;
	if (covered)
		ev->sdk |= SDK_PARENT;
	set_u64(ev->trace_id, trace[0]);
	set_u64(ev->trace_id + 8, trace[1]);
	set_u64(ev->parent_id, span);
	ev->end_ns = above;
	ev->flags |= EVENT_LOCAL | (flags & (EVENT_SAMPLED | EVENT_HEALTH));
	return 1;
}

/* Rule 3. The goroutine that started this one may serve another request by now, and this one may be
 * a worker that goes on for ever: what was so at its first call is right for good or not at all. */
static __noinline int parent_started(struct event *ev, const struct go_g *g)
{
	struct op_key k = {};
	struct started now = { .seen = 1 };
	const struct started *seen;
	const struct live *l;

	if (!ev || !g)
		return 0;
	k.slot = ev->cookie.slot;
	k.id = g->goid;
	seen = bpf_map_lookup_elem(&started, &k);
	l = live_of(ev->cookie.slot, g->parent);
	if (!seen) {
		if (l && l->outer.active & LIVE_KIND)
			now.span_id = id_of(l->outer.span_id);
		(void)bpf_map_update_elem(&started, &k, &now, BPF_ANY);
	} else {
		now.span_id = seen->span_id;
	}
	if (!now.span_id || !l || !parent_is(ev, &l->outer, 0, now.span_id))
		return 0;
	ev->flags |= EVENT_STARTED;
	return 1;
}

/* ---- spans of the program's own SDK ---- */

/* otel/trace.SpanKind */
#define SPAN_KIND_SERVER   2
#define SPAN_KIND_CLIENT   3
#define SPAN_KIND_PRODUCER 4

static __always_inline void walk_for_spans(struct walk *w, const struct go_slot *s)
{
	w->span_type = s->sdk.span;
	w->none_type = s->sdk.none;
}

static __always_inline __u64 span_kind(const struct go_slot *s, const struct walk *w)
{
	__u64 kind;

	if (w->result != WALK_SPAN || go_read(&kind, 8, w->data + s->sdk.kind_at))
		return 0;
	return kind;
}

/* Makes the span that the walk has found the parent of ev. */
static __always_inline int parent_span(struct event *ev, const struct go_slot *s,
				       const struct walk *w)
{
	__u64 c[4]; /* trace id, span id, flags */

	if (go_read(c, sizeof(c),
		    w->data + (w->result == WALK_SPAN ? s->sdk.span_at : s->sdk.none_at)) ||
	    !(c[0] | c[1]) || !c[2])
		return 0;
	set_u64(ev->trace_id, c[0]);
	set_u64(ev->trace_id + 8, c[1]);
	set_u64(ev->parent_id, c[2]);
	ev->flags |= EVENT_LOCAL | (c[3] & 1 ? EVENT_SAMPLED : 0);
	ev->sdk |= SDK_PARENT;
	return 1;
}

/* The same for an operation that calls out: a client's span of the SDK's is one of this very call,
 * and what a call of ours that is under way has made of that span is nearer. */
static __noinline int parent_of_call(struct event *ev, const struct go_slot *s,
				     const struct walk *w, const struct live_op *inner)
{
	__u64 kind;

	if (!ev || !s || !w)
		return 0;
	kind = span_kind(s, w);
	if (!parent_span(ev, s, w))
		return 0;
	if (inner && id_of(inner->parent_id) == id_of(ev->parent_id)) {
		ev->sdk = 0;
		(void)parent_is(ev, inner, 0, 0);
	} else if (s->sdk.leave && (kind == SPAN_KIND_CLIENT || kind == SPAN_KIND_PRODUCER)) {
		ev->sdk |= SDK_LEFT;
	}
	return 1;
}

/* The operation of the context {itab, data} is one of which the SDK has begun a span of that kind
 * already. True: ev has its ids, and is left to it. Before go_identify(), or at the end. */
GO_APART int go_left(struct event *ev, const struct go_slot *s, __u64 itab, __u64 data, __u64 kind)
{
	struct walk w = { .itab = itab, .data = data };

	if (!ev || !s || !s->sdk.leave)
		return 0;
	w.slot = ev->cookie.slot;
	walk_for_spans(&w, s);
	if (go_walk(&w) != WALK_SPAN || span_kind(s, &w) != kind || !parent_span(ev, s, &w))
		return 0;
	ev->sdk |= SDK_LEFT;
	return 1;
}

/* What go_unlend() has said of the operation, 0 of one that calls out, for its record: the SDK's
 * own span says what happened, a short record is enough. */
static __always_inline void go_leave_to_sdk(struct event *ev, int covered)
{
	if (covered >= COVERED_SDK)
		ev->sdk |= SDK_LEFT;
	if (ev->sdk & SDK_LEFT)
		ev->flags &= ~EVENT_SAMPLED;
}

/* The parent of the operation that begins on goroutine g and was given the context {itab, data} (0,
 * 0: none): trace id, parent id, EVENT_LOCAL, EVENT_SAMPLED as the parent has it, EVENT_STARTED by
 * rule 3. Needs ev->cookie; leaves ev alone where there is no parent. Returns EVENT_LOCAL or 0.
 * Until the operation ends, ev->end_ns is the parent id of that parent, if it is a live operation.
 */
GO_APART int go_parent(struct event *ev, const struct go_slot *s, const struct go_g *g, __u64 itab,
		       __u64 data)
{
	struct walk w = { .itab = itab, .data = data };
	const struct live_op *inner = NULL;
	const struct live *own, *l;
	int found;

	if (!ev || !s || !g)
		return 0;
	w.slot = ev->cookie.slot;
	w.goid = g->goid;
	own = live_of(w.slot, g->goid);
	if (own) {
		if (own->outer.active & LIVE_KIND)
			w.own = own->outer.ctx;
		if (own->inner.active & LIVE_KIND && own->inner.depth < g->depth)
			inner = &own->inner;
	}
	walk_for_spans(&w, s);
	found = go_walk(&w);
	if (found >= WALK_SPAN && parent_of_call(ev, s, &w, inner))
		return EVENT_LOCAL;
	if (found == WALK_FOUND) {
		l = live_of(w.slot, w.goid);
		/* A call that this goroutine is in, on behalf of the same operation, is nearer. */
		if (l && parent_is(ev, &l->outer, w.from, 0)) {
			if (inner && id_of(inner->trace_id) == id_of(ev->trace_id) &&
			    id_of(inner->trace_id + 8) == id_of(ev->trace_id + 8))
				(void)parent_is(ev, inner, 0, 0);
			return EVENT_LOCAL;
		}
	}
	if (inner && parent_is(ev, inner, 0, 0))
		return EVENT_LOCAL;
	if (own && parent_is(ev, &own->outer, 0, 0))
		return EVENT_LOCAL;
	if (w.result == WALK_NONE && s->options & GO_OPTION_STARTED && g->parent &&
	    parent_started(ev, g))
		return EVENT_LOCAL;
	return 0;
}

/* An operation that begins with the context {itab, data} and is the very thing that the live one
 * which lent it serves, seen a layer further up (gRPC over net/http): takes over its place in the
 * trace and keeps its span from being sent. True: so it is. */
GO_APART int go_cover(struct event *ev, __u64 itab, __u64 data)
{
	struct walk w = { .itab = itab, .data = data };
	struct live_op *o;
	struct live *l;

	if (!ev)
		return 0;
	w.slot = ev->cookie.slot;
	if (go_walk(&w) != WALK_FOUND)
		return 0;
	l = live_of(w.slot, w.goid);
	if (!l || !(l->outer.active & LIVE_KIND) || l->outer.ctx != w.from)
		return 0;
	o = &l->outer;
	__builtin_memcpy(ev->trace_id, o->trace_id, sizeof(ev->trace_id));
	__builtin_memcpy(ev->parent_id, o->covered == COVERED_SPAN ? o->span_id : o->parent_id,
			 sizeof(ev->parent_id));
	if (o->covered < COVERED_SDK)
		o->covered = COVERED_LIB;
	ev->flags &= ~(EVENT_SAMPLED | EVENT_REMOTE);
	ev->flags |= EVENT_LOCAL | o->flags;
	return 1;
}
