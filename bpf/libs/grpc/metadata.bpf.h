/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * metadata.bpf.h - what a context.Context holds of google.golang.org/grpc/metadata: the inbound
 * metadata of a stream that is served, the outgoing ones of a call. */
#pragma once
#include "op.bpf.h"

/* A value of type map[string][]string: what metadata.MD is. */
GO_APART int is_metadata(__u64 type)
{
	struct go_type t;

	if (go_read(&t, sizeof(t), type) || (t.kind & 31) != TYPE_MAP || t.size != 8)
		return 0;
	return type_kind(t.elem) == TYPE_STRING && type_kind(t.map_elem) == TYPE_SLICE;
}

/* A struct like metadata.rawMD {md MD, added [][]string}. */
GO_APART int is_outgoing(__u64 type)
{
	struct go_type t;
	__u64 first;

	if (go_read(&t, sizeof(t), type) || (t.kind & 31) != TYPE_STRUCT || t.size != 32 ||
	    go_read(&first, 8, t.map_elem + 8))
		return 0;
	return is_metadata(first);
}

/* Walks the chain of contexts down to the inbound metadata, or the outgoing ones, at most so many
 * steps: metadata.NewIncomingContext() and its like make a valueCtx {Context, key, val any} whose
 * key is an empty struct. What is looked for is, or stands near, the context that is begun with. 0:
 * there is none; else the value's data pointer. */
GO_APART __u64 find_metadata(struct learned *l, __u64 ctx, __u32 steps, int outgoing)
{
	__u64 w[6], type;

	if (!l)
		return 0;
	type = outgoing ? l->outgoing : l->metadata;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 16 && i < steps; i++) {
		struct go_type t;

		if (!ctx)
			return 0;
		if (go_read(w, sizeof(w), ctx)) {
			/* Not a valueCtx: one whose end nobody has touched yet, see
			 * go_read_struct(). */
			w[2] = w[4] = 0;
			if (go_read(w, 16, ctx))
				return 0;
		}
		if (w[4] && w[4] == type)
			return w[5];
		if (w[2] > 4096 && w[4] > 4096 && !type && !go_read(&t, 24, w[2]) &&
		    (t.kind & 31) == TYPE_STRUCT && t.size == 0 &&
		    (outgoing ? is_outgoing(w[4]) : is_metadata(w[4]))) {
			if (outgoing)
				l->outgoing = w[4];
			else
				l->metadata = w[4];
			return w[5];
		}
		ctx = w[1];
	}
	return 0;
}

/* One "key, value" of AppendToOutgoingContext(). */
static __always_inline void own_pair(struct scratch *b, __u64 at)
{
	struct go_str key;
	__u64 k[2] = {};

	if (go_read(&key, sizeof(key), at) || key.len != 11 || go_read(k, 11, key.ptr))
		return;
	if ((k[0] | KEY_LOWER) == KEY_TRACEPAR && (k[1] | 0x202020) == KEY_ENT)
		go_traceparent(&b->own, at + 16, 1);
}

/* The pairs of `n` []string that lie at `at`, as far as that is reasonable. */
GO_APART int own_added(struct scratch *b, __u64 at, __u64 n)
{
	struct go_str pairs;

	if (!b)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 8 && i < n; i++) {
		if (go_read(&pairs, sizeof(pairs), at + 24 * i))
			return 0;
#pragma clang loop unroll(disable)
		for (__u32 k = 0; k < 8 && 2 * k + 1 < pairs.len; k++)
			own_pair(b, pairs.ptr + 32 * k);
	}
	return 0;
}

/* The traceparent that the program itself has put into the outgoing metadata: b->own. True: there
 * is one. */
GO_APART int own_header(struct scratch *b, const struct go_slot *s, __u64 raw)
{
	struct header_walk w = {};
	__u64 md[3]; /* map, added */

	if (!b || !s || !raw || go_read(md, sizeof(md), raw))
		return 0;
	b->own.flags = 0;
	header_want_own(&b->found, s);
	w.found = &b->found;
	w.slot = s;
	w.buf = &b->group;
	if (header_find(&w, md[0]))
		count(reads_headers);
	if (b->found.parent.ptr)
		go_traceparent(&b->own, b->found.parent.ptr, b->found.parent.len);
	if (md[2])
		own_added(b, md[1], md[2]);
	return b->own.flags & EVENT_REMOTE;
}
