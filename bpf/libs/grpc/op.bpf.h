/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * op.bpf.h - what is remembered of a call between its begin and its end, and the parts of a record
 * that servers and clients share: status, peer, method. */
#pragma once
#include "go.h"
#include "go_exit.bpf.h"
#include "go_header.bpf.h"
#include "go_type.bpf.h"
#include "go_write.bpf.h"
#include "grpc.h"
#include "own.bpf.h"

/* struct op.active */
#define OP_OPEN    1
#define OP_ENTERED 2 /* a unary client's call: its goroutine is in it until its end */

struct op {
	__u32 active; /* OP_* */
	__u32 silent; /* client: it has no span, see go_take_own() */
	__u64 stream; /* server: *Stream (< 1.69) or *ServerStream; client: *clientStream */
	/* Server: values, []string, in the inbound metadata, which nobody changes and the stream's
	 * context keeps; ptr 0: none. */
	struct go_str authority, state;
	struct go_str method; /* server; nobody changes it */
	__u64 transport;      /* server: itab of the ServerTransport */
	struct event ev;
	struct entered entered;
};

/* By goroutine: each call is served on one. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct op_key);
	__type(value, struct op);
} grpc_server_ops SEC(".maps");

/* By *clientStream: a stream may be used, and end, on any goroutine. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct op_key);
	__type(value, struct op);
} grpc_client_ops SEC(".maps");

static const struct op op_zero;

/* What is the same in a process from call to call, by slot. The agent sets the size. */
struct learned {
	__u32 generation, pad;
	__u64 metadata; /* the type of metadata.MD */
	__u64 outgoing; /* the type of metadata.rawMD */
	__u64 tcp;      /* the itab of a *net.TCPAddr as net.Addr */
	__u64 http2;    /* the itab of an *http2Server as ServerTransport */
	/* Where HPACK has these names, as literals: most calls come with just these. */
	__u64 agent_key, authority_key;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct learned);
} learned SEC(".maps");

struct scratch {
	__u64 busy;
	struct op_key k;
	struct go_str in;
	struct go_g g;
	struct go_results results;
	struct event own; /* ids that the program itself sends */
	struct write_ids ids;
	struct go_type_name name;
	struct go_buf cs, group;
	struct header_found found;
	struct grpc_event rec;
	char data[GRPC_DATA_MAX] __attribute__((aligned(8)));
};

GO_SCRATCH(grpc_scratch, struct scratch)

/* A new entry of key b->k, in the place of an old one whose end was not seen. 0, or not 0: no room.
 * Apart, as what begins an operation needs its stack for the walk over contexts. */
GO_APART int op_make(struct scratch *b, const struct go_slot *s, __u32 kind)
{
	struct go_g g = {};
	struct op *op;

	if (!b || !s)
		return -1;
	/* Nearly always there is no old one: that is not looked for first. */
	if (kind == GRPC_OF_SERVER ? !share_add(&grpc_server_ops, &b->k, &op_zero)
				   : !share_add(&grpc_client_ops, &b->k, &op_zero))
		return 0;
	op = kind == GRPC_OF_SERVER ? bpf_map_lookup_elem(&grpc_server_ops, &b->k)
				    : bpf_map_lookup_elem(&grpc_client_ops, &b->k);
	if (op && op->active) {
		count(ops_new_begin);
		if (kind == GRPC_OF_SERVER)
			(void)go_unlend(&op->ev, s, 0);
		if (op->active == OP_ENTERED) {
			g.goid = op->ev.goid;
			go_leave(&op->ev, &g, &op->entered);
		}
	}
	return kind == GRPC_OF_SERVER ? share_put(&grpc_server_ops, &b->k, &op_zero)
				      : share_put(&grpc_client_ops, &b->k, &op_zero);
}

static __always_inline struct learned *learned_of(const struct go_slot *s, __u32 slot)
{
	struct learned *l = bpf_map_lookup_elem(&learned, &slot);

	if (l && l->generation != s->generation) {
		l->metadata = l->outgoing = l->tcp = l->http2 = 0;
		l->agent_key = l->authority_key = 0;
		l->generation = s->generation;
	}
	return l;
}

/* The first words of a Go type, abi.Type. */
#define TYPE_MAP    21
#define TYPE_PTR    22
#define TYPE_SLICE  23
#define TYPE_STRING 24
#define TYPE_STRUCT 25
struct go_type {
	__u64 size, ptrdata;
	__u32 hash;
	__u8 tflag, align, field_align, kind;
	__u64 equal, gcdata;
	__u32 str, ptr_to_this;
	__u64 elem;     /* of a pointer; of a map: its key */
	__u64 map_elem; /* of a struct: its fields {name, type, offset} */
};

static __always_inline __u32 type_kind(__u64 at)
{
	struct go_type t;

	return at && !go_read(&t, 24, at) ? t.kind & 31 : 0;
}

/* ---- status ---- */

/* The code of a *status.Status; 0 also where there is none, as nil is OK. *message: that of an
 * UNIMPLEMENTED. */
static __always_inline __u32 status_code(const struct go_slot *s, __u64 status,
					 struct go_str *message)
{
	__u64 proto = 0;
	__u32 code = 0;

	if (!status || go_read(&proto, 8, status + s->at[F_STATUS_S]) || !proto)
		return 0;
	if (go_read(&code, 4, proto + s->at[F_CODE]))
		return 2;
	if (message && code == 12 && s->at[F_MESSAGE] != GO_ABSENT)
		(void)go_read(message, sizeof(*message), proto + s->at[F_MESSAGE]);
	return code;
}

/* The size of the struct that the values with that itab point to; 0: they are something else. */
static __always_inline __u64 pointee_size(__u64 itab)
{
	struct go_type t;
	__u64 w[2];

	if (go_read(w, 16, itab) || go_read(&t, 56, w[1]) || (t.kind & 31) != TYPE_PTR ||
	    go_read(&t, 24, t.elem) || (t.kind & 31) != TYPE_STRUCT)
		return 0;
	return t.size;
}

/* Steps down to what fmt.Errorf("%w") has wrapped. */
#define WRAPPED_MAX 4
GO_APART int unwrap(struct go_str *err, const struct go_slot *s)
{
	if (!err || !s || s->at[F_WRAP_SIZE] == GO_ABSENT || s->at[F_WRAP_ERR] == GO_ABSENT)
		return 0;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < WRAPPED_MAX; i++) {
		if (!err->ptr || pointee_size(err->ptr) != s->at[F_WRAP_SIZE] ||
		    go_read(err, sizeof(*err), err->len + s->at[F_WRAP_ERR]))
			return 0;
	}
	return 0;
}

/* The code of an error {itab, data} as a client's call ends with it: nil, io.EOF or a status error.
 */
GO_APART __u32 error_code(struct go_str *err, const struct go_slot *s)
{
	struct go_str text = {};
	__u64 status = 0;
	__u32 eof = 0, code = 2;

	if (!err || !s || !err->ptr)
		return 0;
	unwrap(err, s);
	if (!go_read(&text, sizeof(text), err->len) && text.len == 3 &&
	    !go_read(&eof, 3, text.ptr) && eof == 0x464f45) /* "EOF" */
		return 0;
	if (s->at[F_ERROR_S] == GO_ABSENT) {
		status = err->len;
		if (s->at[F_ERROR_E] != GO_ABSENT && go_read(&status, 8, status + s->at[F_ERROR_E]))
			return 2;
		(void)go_read(&code, 4, status + s->at[F_CODE]);
		return code;
	}
	if (go_read(&status, 8, err->len + s->at[F_ERROR_S]) || !status)
		return 2;
	return status_code(s, status, NULL);
}

/* ---- peer ---- */

/* Reads the net.Addr at `at`. What is no TCP address (a Unix socket, bufconn) is none. */
GO_APART int put_ip(struct grpc_event *rec, const struct go_slot *s, __u64 at)
{
	struct learned *l;
	__u64 w[6];

	if (!rec || !s || go_read(w, 16, at) || !w[0] || !w[1] || s->at[F_ADDR_SIZE] != sizeof(w) ||
	    s->at[F_ADDR_IP] != 0 || s->at[F_ADDR_PORT] != 24)
		return 0;
	l = learned_of(s, rec->ev.cookie.slot);
	if (!l || l->tcp != w[0]) {
		/* net.UDPAddr is the same */
		if (pointee_size(w[0]) != s->at[F_ADDR_SIZE])
			return 0;
		if (l)
			l->tcp = w[0];
	}
	if (go_read(w, sizeof(w), w[1]) || w[3] > 0xffff || (w[1] != 4 && w[1] != 16))
		return 0;
	if (w[1] == 4 ? go_read(rec->ip, 4, w[0]) : go_read(rec->ip, 16, w[0]))
		return 0;
	rec->ip_len = w[1];
	rec->port = w[3];
	return 0;
}

/* ---- strings ---- */

/* The only string of a []string. */
static __always_inline struct go_str only(struct go_str list)
{
	struct go_str s = {};

	if (list.ptr && list.len == 1)
		(void)go_read(&s, sizeof(s), list.ptr);
	return s;
}

static __always_inline __u32 put_method(struct grpc_event *rec, const struct go_slot *s, char *data,
					__u32 at, struct go_str m)
{
	if (m.len && m.ptr - s->ro_lo < s->ro_hi - s->ro_lo && m.ptr - s->ro_lo <= 0xffffffff) {
		rec->bits |= GRPC_LITERAL;
		rec->method_at = m.ptr - s->ro_lo;
		rec->method_len = cap(m.len, GRPC_METHOD_MAX);
		if (m.len > GRPC_METHOD_MAX)
			rec->ev.flags |= EVENT_CUT;
		return at;
	}
	return at + (rec->method_len = go_put_str(&rec->ev, data, at, m, GRPC_METHOD_MAX));
}

/* An empty record for this operation. */
static __always_inline struct grpc_event *new_record(struct scratch *b, const struct op *op)
{
	struct grpc_event *rec = &b->rec;

	__builtin_memset((char *)rec + sizeof(rec->ev), 0, sizeof(*rec) - sizeof(rec->ev));
	rec->ev = op->ev;
	return rec;
}

static __always_inline void send(struct grpc_event *rec, __u32 at)
{
	go_send(&rec->ev, cap(sizeof(*rec) + at, sizeof(*rec) + GRPC_DATA_MAX));
}
