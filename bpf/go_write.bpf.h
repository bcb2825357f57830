/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * go_write.bpf.h - a traceparent written into the traced program's own memory, where it builds a
 * request: into the bufio.Writer of a connection of HTTP/1, and behind the header block that
 * Framer.WriteHeaders() is given for HTTP/2. For probes of parts with FEATURE_WRITE only: without
 * it their programs are not loaded, as kernels that refuse bpf_probe_write_user() refuse them.
 *
 * What makes it right: only memory that its owner holds to be empty is filled (behind a slice's
 * length, behind a buffer's last byte), by the goroutine that owns it, which stands still
 * meanwhile. What is filled counts only by the one word that is written last; before that, and if
 * any step fails, the request is what the program wrote.
 *
 * Sources: net/http/h2_bundle.go and x/net/http2/frame.go (HeadersFrameParam, Framer), bufio. */
#pragma once
#include "go.h"
#include "traceparent_text.h"

/* Ids on their way from the goroutine of a call to the place where its headers are written. */
struct write_ids {
	__u32 generation;
	__u32 sampled; /* the decision, 0 or 1 */
	__u8 trace_id[16];
	__u8 span_id[8];
	__u64 owner; /* the library's: what must be the same where they are taken */
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u64 seal;  /* write_seal(): an entry's memory may be used anew while it is copied */
};

/* op_key.pad: what op_key.id is the address of. Any other number is a stream's, and id its Framer.
 */
#define WRITE_BUFFER  0           /* *bufio.Writer */
#define WRITE_CALL    0x80000000u /* *Request, or the library's */
#define WRITE_ATTEMPT 0x80000001u /* goroutine */

/* Old entries go by themselves: a call that is cancelled before it is written takes none. The agent
 * sets the size where FEATURE_WRITE is on. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct op_key);
	__type(value, struct write_ids);
} writes SEC(".maps");

/* Between the announcement and the bytes lies no wait but that for the connection's lock, or for a
 * stream that the peer allows. */
#define WRITE_MAX_AGE_NS 60000000000ULL

static __always_inline __u64 write_seal(const struct op_key *k, const struct write_ids *ids)
{
	const __u64 *trace = (const __u64 *)ids->trace_id, *span = (const __u64 *)ids->span_id;

	return (trace[0] * 3 + trace[1] * 5 + span[0] * 7 + ids->owner * 11) ^ k->id ^ ids->at_ns ^
	       ((__u64)k->slot << 48 | (__u64)k->pad << 8 | ids->sampled) ^
	       (__u64)ids->generation << 20;
}

static __always_inline struct op_key write_key(__u32 slot, __u32 kind, __u64 id)
{
	struct op_key k = { .slot = slot, .pad = kind, .id = id };

	return k;
}

/* Hands ids over to whoever takes that key. */
GO_APART int write_put(const struct op_key *k, struct write_ids *ids)
{
	if (!k || !ids)
		return -1;
	ids->seal = write_seal(k, ids);
	if (bpf_map_update_elem(&writes, k, ids, BPF_ANY)) {
		count(propagation_no_room);
		return -1;
	}
	return 0;
}

static __always_inline void write_ids_of(struct write_ids *ids, const struct event *ev, __u64 owner)
{
	ids->generation = ev->cookie.generation;
	ids->sampled = ev->flags & EVENT_SAMPLED ? 1 : 0;
	__builtin_memcpy(ids->trace_id, ev->trace_id, sizeof(ids->trace_id));
	__builtin_memcpy(ids->span_id, ev->span_id, sizeof(ids->span_id));
	ids->owner = owner;
	ids->at_ns = bpf_ktime_get_ns();
}

/* Takes them away: once. 0, or -1: there are none. */
GO_APART int write_take(struct write_ids *ids, const struct op_key *k, __u32 generation)
{
	const struct write_ids *found;

	if (!ids || !k)
		return -1;
	found = bpf_map_lookup_elem(&writes, k);
	if (!found)
		return -1;
	*ids = *found;
	if (bpf_map_delete_elem(&writes, k))
		return -1;
	if (ids->seal != write_seal(k, ids) || ids->generation != generation ||
	    bpf_ktime_get_ns() - ids->at_ns > WRITE_MAX_AGE_NS) {
		count(propagation_stale);
		return -1;
	}
	return 0;
}

/* n bytes into the process. 0, or -1: counted. */
static __always_inline int write_user(__u64 to, const void *from, __u32 n)
{
	if (!bpf_probe_write_user((void *)to, from, n))
		return 0;
	count(propagation_unwritable);
	return -1;
}

/* ---- HTTP/1 ---- */

/* Offsets of bufio.Writer's fields. */
struct write_bufio {
	__u16 err, buf, n, wr;
};

/* A line more behind what waits in the *bufio.Writer at `w`, which ends with a whole line. owner:
 * what it writes to. Apart, for its own frame. */
GO_APART int write_line(const struct write_ids *ids, __u64 w, __u64 fields)
{
	struct traceparent_text text = {};
	struct write_bufio at;
	__u64 buf[2], wr[2], n, err;
	__u8 last[2] = {};

	if (!ids)
		return -1;
	__builtin_memcpy(&at, &fields, sizeof(at));
	if (go_read(buf, sizeof(buf), w + at.buf) || go_read(&n, 8, w + at.n) ||
	    go_read(wr, sizeof(wr), w + at.wr) || go_read(&err, 8, w + at.err)) {
		count(propagation_unreadable);
		return -1;
	}
	if (wr[1] != ids->owner || err) {
		count(propagation_not_request);
		return -1;
	}
	/* n 0: all before it has just been flushed, and was whole lines, too; how much of the
	 * buffer is there in memory is not known then. */
	if (n < 2 || n >= buf[1] || buf[1] - n <= TRACEPARENT_LINE) {
		count(propagation_no_space);
		return -1;
	}
	if (go_read(last, 2, buf[0] + n - 2) || last[0] != '\r' || last[1] != '\n') {
		count(propagation_not_request);
		return -1;
	}
	traceparent_line(&text, ids->trace_id, ids->span_id, ids->sampled);
	if (write_user(buf[0] + n, text.bytes, TRACEPARENT_LINE))
		return -1;
	n += TRACEPARENT_LINE;
	if (write_user(w + at.n, &n, 8))
		return -1;
	count(propagation_inserted);
	return 0;
}

/* ---- HTTP/2 ---- */

/* Longest header block that is copied to where there is room behind it. */
#define WRITE_BLOCK_MAX 4096

/* The copy on its way. */
struct write_room {
	__u64 busy;
	char bytes[WRITE_BLOCK_MAX];
};

/* Not one for each CPU, as most blocks have room behind them. The agent sets the size where
 * FEATURE_WRITE is on. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct write_room);
} write_rooms SEC(".maps");

/* Some tries, from where nobody else on this CPU begins. */
static __always_inline struct write_room *write_room_take(void)
{
	__u32 first = bpf_get_smp_processor_id() * 4;

	for (__u32 i = 0; i < 8; i++) {
		__u32 at = (first + i) & (WRITE_ROOMS - 1);
		struct write_room *r = bpf_map_lookup_elem(&write_rooms, &at);

		if (r && __sync_val_compare_and_swap(&r->busy, 0, 1) == 0)
			return r;
	}
	count(propagation_no_room);
	return NULL;
}

static __always_inline void write_room_put(struct write_room *r)
{
	__sync_lock_test_and_set(&r->busy, 0);
}

/* The begin of a HeadersFrameParam, which lies on the stack: it does not fit into registers. */
struct write_param {
	__u32 stream, pad;
	__u64 block, len, cap;
	__u8 end_stream, end_headers, pad_length, rest[5];
};
#define WRITE_PARAM_BLOCK 8
#define WRITE_PARAM_LEN   16

#if defined(__TARGET_ARCH_x86)
#define WRITE_PARAM(ctx) (GO_SP(ctx) + 8)
#else /* it lies in registers, which cannot be written */
#define WRITE_PARAM(ctx) 0
#endif

/* The memory of a buffer that nobody has filled. */
struct write_spare {
	__u64 at, n;
};

/* The field behind the block, in the same memory. 0; 1: there is no room; -1: it failed, counted.
 */
static __always_inline int write_behind(const struct write_param *p, __u64 param,
					const struct traceparent_text *text)
{
	__u64 n = p->len + TRACEPARENT_FIELD;

	if (p->cap - p->len < TRACEPARENT_FIELD)
		return 1;
	if (bpf_probe_write_user((void *)(p->block + p->len), text->bytes, TRACEPARENT_FIELD))
		return 1; /* memory that nobody has touched yet is not there */
	return write_user(param + WRITE_PARAM_LEN, &n, 8);
}

/* A copy of the block, with the field behind it, in the buffer that the frame is about to be
 * written to: that happens by way of the Framer's own buffer, so the copy is read before it is
 * written over. First the bytes, then where they are, then how many: each step leaves the block
 * whole. */
static __always_inline int write_copy(struct write_room *r, const struct write_param *p,
				      __u64 param, const struct traceparent_text *text,
				      const struct write_spare *spare)
{
	__u64 n = p->len + TRACEPARENT_FIELD, at = spare->at;
	__u64 len = cap(p->len - 1, WRITE_BLOCK_MAX - 1) + 1; /* the verifier sees: not 0 */

	if (len != p->len || !at || spare->n < n) {
		count(propagation_no_space);
		return -1;
	}
	if (go_read(r->bytes, len, p->block)) {
		count(propagation_unreadable);
		return -1;
	}
	if (write_user(at, r->bytes, len) ||
	    write_user(at + p->len, text->bytes, TRACEPARENT_FIELD) ||
	    write_user(param + WRITE_PARAM_BLOCK, &at, 8))
		return -1;
	return write_user(param + WRITE_PARAM_LEN, &n, 8);
}

/* The field into the HEADERS frame whose HeadersFrameParam lies at `param`. */
GO_APART int write_field(const struct write_ids *ids, __u64 param, const struct write_spare *spare)
{
	struct traceparent_text text = {};
	struct write_param p;
	struct write_room *r;
	int err;

	if (!ids || !spare)
		return -1;
	if (go_read(&p, sizeof(p), param)) {
		count(propagation_unreadable);
		return -1;
	}
	if (p.end_stream > 1 || p.end_headers > 1 || !p.block || p.len - 1 >= (1 << 20) ||
	    p.cap < p.len) {
		count(propagation_not_request);
		return -1;
	}
	/* Its end comes in another frame; or padding, which nobody here asks for. */
	if (!p.end_headers || p.pad_length || p.len > WRITE_BLOCK_MAX) {
		count(propagation_no_space);
		return -1;
	}
	traceparent_field(&text, ids->trace_id, ids->span_id, ids->sampled);
	err = write_behind(&p, param, &text);
	if (err > 0) {
		r = write_room_take();
		if (!r)
			return -1;
		err = write_copy(r, &p, param, &text, spare);
		write_room_put(r);
	}
	if (!err)
		count(propagation_inserted);
	return err;
}
