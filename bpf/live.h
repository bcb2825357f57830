/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * live.h - what is remembered of live operations so that others find them as their parents.
 * core.bpf.c's maps are the real ones, as with maps.h. Keys begin with the slot. Only kernel side
 * reads and writes them; the agent sizes and purges them. */
#pragma once
#include "maps.h"

/* struct live_op.active, the lower byte. The rest is of the span id, so that no two operations have
 * the same value: a reader that finds the same one before and after has read one operation. */
#define LIVE_KIND   0xff
#define LIVE_SERVER 1
#define LIVE_INNER  2

/* struct live_op.covered */
#define COVERED_LIB  1 /* another library of ours: see go_cover() */
#define COVERED_SDK  2 /* the program's own SDK; the ids are still ours */
#define COVERED_SPAN 3 /* the same, and the ids are those of its span */

/* An operation that others may have as their parent. */
struct live_op {
	__u32 active; /* 0: none */
	__u8 flags;   /* EVENT_SAMPLED, EVENT_REMOTE, EVENT_HEALTH */
	__u8 covered; /* COVERED_*: somebody else sends this operation's span */
	__u16 pad;
	__u64 ctx;   /* outer: data pointer of the context.Context it lends; 0: none */
	__u64 depth; /* inner: bytes of stack above the function that began it */
	__u8 trace_id[16];
	__u8 span_id[8];
	__u8 parent_id[8];
};

/* The live operations of one goroutine, key {slot, goid}. Written by that goroutine's probes only,
 * read by all; but an SDK's span of a request may begin on another goroutine (http.TimeoutHandler),
 * while the one that serves it waits: it sets `covered` and the ids. */
struct live {
	struct live_op outer; /* the one that the goroutine serves */
	struct live_op inner; /* the innermost call that it is in */
	__u64 conn;           /* LEND_CONN: data pointer of the connection's context */
	__u64 held;           /* 1: made by go_lend(), not by go_enter() */
};

/* How a context was lent. */
#define LEND_SELF 1 /* it is the operation's own */
#define LEND_CONN 2 /* it is its connection's, the parent of the operation's own */

/* A context that a live operation lends, key {slot, data pointer}. */
struct lent {
	__u32 how, pad;
	__u64 goid; /* whose live.outer it is */
};

/* An implementation of context.Context, key {slot, itab}: where it holds the context that it was
 * made from. */
struct ctx_type {
	__u32 step;  /* 1 + offset of its parent in what the data pointer points to; 0: unknown */
	__u32 value; /* 1: {Context; key, val any}, as context.WithValue makes it */
	__u64 inter; /* the itab's interface type, which is context.Context */
};

/* A goroutine that called out without any better parent than the operation of the goroutine that
 * started it, key {slot, goid}. */
struct started {
	__u32 seen, pad;
	__u64 span_id; /* that operation as it was at the first call; 0: none */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct op_key);
	__type(value, struct live);
} live SEC(".maps");

/* Entries of `live` that each process has, by slot; one has at most one of `contexts` with it. The
 * agent sets the size, and a slot's number to 0 before it attaches. A line of the cache each. */
struct live_share {
	__s32 held;
	__u32 pad[15];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct live_share);
} live_shares SEC(".maps");

/* Span ids that requests came with lately, each where inbound_place() says: a later one takes the
 * place of an earlier one. */
#define INBOUND_BITS 14
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << INBOUND_BITS);
	__type(key, __u32);
	__type(value, __u64);
} inbound SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct op_key);
	__type(value, struct lent);
} contexts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct op_key);
	__type(value, struct ctx_type);
} ctx_types SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct op_key);
	__type(value, struct started);
} started SEC(".maps");
