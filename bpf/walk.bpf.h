/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * walk.bpf.h - the walk from a context.Context up the contexts it was made from, to the live
 * operation that lent one of them, or to a span of the program's own SDK that one of them holds,
 * whichever is nearer. */
#pragma once
#include "ctx_type.bpf.h"
#include "go.h"
#include "live.h"

/* Steps of a walk: one for each WithValue, WithTimeout, ... */
#define WALK_STEPS  64
/* Implementations of context.Context that one walk may see for the first time; after more than that
 * the next walk comes further. */
#define WALK_LEARNS 16

static __always_inline struct live *live_of(__u32 slot, __u64 goid)
{
	struct op_key k = { .slot = slot, .id = goid };

	return bpf_map_lookup_elem(&live, &k);
}

#define WALK_NONE         0
#define WALK_FOUND        1
#define WALK_ENDED        2 /* the context is one of a connection, and of a request of it that is over */
/* A context holds a span of the program's own SDK, where data points to. */
#define WALK_SPAN         3
#define WALK_NOT_RECORDED 4 /* one that the SDK's sampler left out */

struct walk {
	__u64 itab, data; /* where the walk is */
	__u64 from;       /* the context that it came from; out: the one that the operation lends */
	__u64 own;        /* context that the operation of this goroutine lends, 0: none */
	__u64 goid;       /* in: of this goroutine; out: of the one whose operation was found */
	__u64 inter;
	__u64 span_type, none_type; /* in: as in struct go_sdk; 0: spans are not looked for */
	__u32 slot;
	__u16 result, unknown; /* unknown: what itab is has to be learnt first */
};

#define VALUE_AT 32 /* in context.valueCtx {Context; key, val any} */

/* A context that is lent: does the operation still live? */
static __always_inline int walk_lent(struct walk *w, const struct lent *lent)
{
	const struct live *l = live_of(w->slot, lent->goid);
	__u64 ctx = lent->how == LEND_CONN ? w->from : w->data;

	if (!l)
		return 0; /* left behind by one whose end was not seen */
	if (l->outer.active & LIVE_KIND && l->outer.ctx == ctx) {
		w->goid = lent->goid;
		w->from = ctx;
		w->result = WALK_FOUND;
	} else if (lent->how == LEND_CONN) {
		w->result = WALK_ENDED;
	}
	return w->result;
}

/* The value of a context.WithValue: is it a span? */
static __noinline int walk_value(struct walk *w)
{
	__u64 v[2];

	if (!w || go_read(v, sizeof(v), w->data + VALUE_AT))
		return 0;
	if (v[0] == w->span_type)
		w->result = WALK_SPAN;
	else if (v[0] == w->none_type)
		w->result = WALK_NOT_RECORDED;
	else
		return 0;
	w->data = v[1];
	return 1;
}

static long walk_step(__u32 i, struct walk *w)
{
	struct op_key k = { .slot = w->slot, .id = w->data };
	const struct ctx_type *type;
	const struct lent *lent;
	__u64 up[2];

	if (!w->itab || !w->data)
		return 1;
	if (w->data == w->own) {
		w->from = w->own;
		w->result = WALK_FOUND;
		return 1;
	}
	lent = bpf_map_lookup_elem(&contexts, &k);
	if (lent && walk_lent(w, lent))
		return 1;
	k.id = w->itab;
	type = bpf_map_lookup_elem(&ctx_types, &k);
	if (!type) {
		w->unknown = 1;
		return 1;
	}
	if (!type->step || (w->inter && type->inter != w->inter))
		return 1;
	w->inter = type->inter;
	if (type->value && w->span_type && walk_value(w))
		return 1;
	if (go_read(up, sizeof(up), w->data + type->step - 1)) {
		count(reads_contexts);
		return 1;
	}
	w->from = w->data;
	w->itab = up[0];
	w->data = up[1];
	return 0;
}

static __noinline int walk_known(struct walk *w)
{
	if (bpf_loop(WALK_STEPS, walk_step, w, 0) == WALK_STEPS)
		count(reads_contexts);
	return w->unknown;
}

/* Learning takes much of the stack, so it is not done in the middle of the walk. */
static __noinline int go_walk(struct walk *w)
{
	struct op_key k = { .slot = w->slot };

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < WALK_LEARNS; i++) {
		w->unknown = 0;
		if (!walk_known(w))
			break;
		k.id = w->itab;
		if (ctx_type_learn(&k, w->inter))
			break;
	}
	return w->result;
}
