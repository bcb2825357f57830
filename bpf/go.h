/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * go.h - everything a probe may use: Go's registers, bounded reads, ids, sampling, one way to send
 * an event. A library's .bpf.c includes this (and go_header.bpf.h where it reads header maps) and
 * its own contract header, nothing else.
 *
 * What the measurements say (hence the form of all this): a bpf_probe_read_user costs 62 ns for 8
 * bytes and 72 for 330, so read whole structs; a wake-up of the agent costs 11-14 us; a hash insert
 * and delete 170 ns; programs can be preempted and moved. */
#pragma once
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stddef.h>

#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "share.h"
#include "traceparent.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Waiting bytes at which a record wakes the agent; ring.wakeup. */
const volatile __u64 wake_bytes = 64 << 10;

/* One process each; the agent sets the size and fills a slot before it attaches. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct go_slot);
} slots SEC(".maps");

/* ABIInternal (Go >= 1.17 amd64, >= 1.18 arm64): integer arguments and results P1.., the current g,
 * the context of a closure. Stack arguments lie at SP+8 at an enter place and at a RET. The arm64
 * column is not tested. */
#if defined(__TARGET_ARCH_x86)
#define GO_P1(ctx)      ((ctx)->rax)
#define GO_P2(ctx)      ((ctx)->rbx)
#define GO_P3(ctx)      ((ctx)->rcx)
#define GO_P4(ctx)      ((ctx)->rdi)
#define GO_P5(ctx)      ((ctx)->rsi)
#define GO_P6(ctx)      ((ctx)->r8)
#define GO_P7(ctx)      ((ctx)->r9)
#define GO_P8(ctx)      ((ctx)->r10)
#define GO_P9(ctx)      ((ctx)->r11)
#define GO_G(ctx)       ((ctx)->r14)
#define GO_CLOSURE(ctx) ((ctx)->rdx)
#define GO_SP(ctx)      ((ctx)->rsp)
#define GO_FP(ctx)      ((ctx)->rbp) /* frame pointer, Go >= 1.21: SP at the entry less 8 */
#elif defined(__TARGET_ARCH_arm64)
#define GO_ARM64(ctx)   ((const struct user_pt_regs *)(ctx))
#define GO_P1(ctx)      (GO_ARM64(ctx)->regs[0])
#define GO_P2(ctx)      (GO_ARM64(ctx)->regs[1])
#define GO_P3(ctx)      (GO_ARM64(ctx)->regs[2])
#define GO_P4(ctx)      (GO_ARM64(ctx)->regs[3])
#define GO_P5(ctx)      (GO_ARM64(ctx)->regs[4])
#define GO_P6(ctx)      (GO_ARM64(ctx)->regs[5])
#define GO_P7(ctx)      (GO_ARM64(ctx)->regs[6])
#define GO_P8(ctx)      (GO_ARM64(ctx)->regs[7])
#define GO_P9(ctx)      (GO_ARM64(ctx)->regs[8])
#define GO_G(ctx)       (GO_ARM64(ctx)->regs[28])
#define GO_CLOSURE(ctx) (GO_ARM64(ctx)->regs[26])
#define GO_SP(ctx)      (GO_ARM64(ctx)->sp)
#define GO_FP(ctx)      (GO_ARM64(ctx)->regs[29]) /* SP less 8, not the caller's */
#else
#error "go.h: no Go register ABI for this architecture"
#endif

/* What a Go string, and the first two words of a slice, look like in memory. */
struct go_str {
	__u64 ptr, len;
};

/* Hides a value's history from the compiler, so that the bound it has just been given is still
 * known to the verifier. */
#define opaque(v) asm volatile("" : "+r"(v))

static __always_inline __u64 cap(__u64 n, __u64 max)
{
	opaque(n);
	if (unlikely(n > max))
		n = max;
	opaque(n);
	return n;
}

/* n bytes of the traced process. 0, or not 0 when the page is not there: the field is absent then.
 * A macro, as what it says of how likely that is would be lost in a function. */
#define go_read(to, n, from) unlikely(bpf_probe_read_user(to, n, (const void *)(__u64)(from)))

/* Room for a struct that is read as a whole. */
struct go_buf {
	char bytes[GO_STRUCT_MAX] __attribute__((aligned(8)));
};

/* The first n bytes of a struct. Go does not zero memory that is fresh from the kernel, so a struct
 * may end on a page that nobody has touched and that cannot be read: what lies there is zero, and
 * so is what a failed read leaves in the buffer. */
GO_APART int go_read_struct(struct go_buf *to, __u64 n, __u64 from)
{
	__u64 first = 4096 - (from & 4095);

	if (!to)
		return -1;
	n = cap(n, GO_STRUCT_MAX);
	if (likely(!bpf_probe_read_user(to->bytes, n, (const void *)from)))
		return 0;
	return first < n ? go_read(to->bytes, cap(first, GO_STRUCT_MAX), from) : -1;
}

/* Fields of a struct that was read as a whole into buf; 0 where the field is absent or lies beyond
 * the `max` bytes of buf. */
static __always_inline __u64 go_u64(const struct go_buf *buf, __u32 at)
{
	opaque(at);
	if (unlikely(at > GO_STRUCT_MAX - 8))
		return 0;
	opaque(at);
	return *(const __u64 *)(buf->bytes + (at & 0xff8));
}

static __always_inline __u8 go_u8(const struct go_buf *buf, __u32 at)
{
	opaque(at);
	if (unlikely(at > GO_STRUCT_MAX - 1))
		return 0;
	opaque(at);
	return *(const __u8 *)(buf->bytes + (at & 0xfff));
}

static __always_inline struct go_str go_str(const struct go_buf *buf, __u32 at)
{
	struct go_str none = {};

	opaque(at);
	if (unlikely(at > GO_STRUCT_MAX - 16))
		return none;
	opaque(at);
	return *(const struct go_str *)(buf->bytes + (at & 0xff8));
}

/* The slot that this hit's cookie names, or NULL: the slot has another owner by now. */
static __always_inline const struct go_slot *go_slot(void *ctx, struct cookie *cookie)
{
	__u64 bits = bpf_get_attach_cookie(ctx);
	const struct go_slot *s;
	__u32 at;

	__builtin_memcpy(cookie, &bits, sizeof(*cookie));
	at = cookie->slot;
	s = bpf_map_lookup_elem(&slots, &at);
	if (unlikely(!s || !s->generation || s->generation != cookie->generation)) {
		count(hits_stale);
		return NULL;
	}
	return s;
}

/* Key of what is remembered of the goroutine at this hit, for as long as it lives: Go uses the
 * address of a g again, never its goid, so an entry must hold that. */
static __always_inline struct op_key go_op_key(const void *ctx, const struct cookie *c)
{
	struct op_key k = { .slot = c->slot, .id = GO_G((const struct pt_regs *)ctx) };

	return k;
}

/* Copies at most max bytes of a string behind the `at` bytes that stand in data. How many: 0 when
 * it cannot be read. */
static __always_inline __u64 go_put_str(struct event *ev, char *data, __u32 at, struct go_str s,
					__u32 max)
{
	__u32 n = cap(s.len, max);

	if (unlikely(!n))
		return 0;
	if (go_read(data + at, n, s.ptr)) {
		count(reads_string);
		return 0;
	}
	if (unlikely(s.len > max))
		ev->flags |= EVENT_CUT;
	return n;
}

/* ---- ids and sampling ---- */

/* 128 bits of state; an operation steps it once. A generator is seeded from the kernel's. */
struct go_random {
	__u64 a, b;
};

static __always_inline void random_seed(struct go_random *r)
{
	r->a = (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
	r->b = (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
}

/* splitmix64's output function. */
static __always_inline __u64 random_mix(__u64 x)
{
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
	return x ^ (x >> 31);
}

static __always_inline void set_u64(__u8 *to, __u64 v)
{
	*(__u64 *)to = v; /* members of struct event are 8-aligned */
}

/* The decision of a root. */
static __always_inline void go_sample(struct event *ev, const struct go_slot *s)
{
	__u64 low = __builtin_bswap64(*(const __u64 *)(ev->trace_id + 8));

	ev->flags &= ~EVENT_SAMPLED;
	if (low < s->sample_below || s->sample_below == ~0ULL)
		ev->flags |= EVENT_SAMPLED;
}

/* Whether the operation's record says all: it is sampled, or measured. */
static __always_inline int go_is_told(const struct event *ev, const struct go_slot *s)
{
	return ev->flags & EVENT_SAMPLED || s->options & GO_OPTION_METRICS;
}

/* A span id, and a trace id as well if ev has none from a header or a live operation. Then the
 * sampling decision. */
static __always_inline void go_identify(struct event *ev, const struct go_slot *s,
					struct go_random *r)
{
	if (unlikely(ev->sdk & SDK_LEFT)) { /* it is that span of the SDK's */
		set_u64(ev->span_id, *(const __u64 *)ev->parent_id);
		return;
	}
	r->a += 0x9e3779b97f4a7c15ULL;
	set_u64(ev->span_id, random_mix(r->a) ?: 1);
	if (!(ev->flags & (EVENT_REMOTE | EVENT_LOCAL))) {
		set_u64(ev->trace_id, random_mix(r->a ^ r->b));
		set_u64(ev->trace_id + 8, random_mix(r->a + r->b) ?: 1);
		set_u64(ev->parent_id, 0);
	} else if (s->sample_inbound == SAMPLE_LIKE_PARENT) {
		return; /* EVENT_SAMPLED is set as the header or the live parent has it */
	}
	go_sample(ev, s);
}

/* ---- traceparent ---- */

/* Reads the []string at vals (nvals of them) as the traceparent header. A malformed one, or more
 * than one, is as good as none: EVENT_BAD_TP. */
GO_APART int go_traceparent(struct event *ev, __u64 vals, __u64 nvals)
{
	__u64 c[8], ptr, len;

	if (!ev)
		return 0;
	ev->flags |= EVENT_BAD_TP;
	if (nvals != 1 || go_read(c, 16, vals))
		return 0;
	ptr = c[0];
	len = c[1];
	c[0] = c[7] = 0;
	if (len >= 55 && !go_read((char *)c + 5, len > 55 ? 56 : 55, ptr) &&
	    !traceparent_parse(ev, c, len))
		ev->flags &= ~EVENT_BAD_TP;
	return 0;
}

/* ---- sending ---- */

/* Blocks of this many bytes: beyond wake_bytes a record wakes the agent again only where it begins
 * a new one. */
#define WAKE_STEP_BITS 14

static __always_inline __u64 go_wake(__u32 size)
{
	__u64 before = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA), after = before + size;

	if (likely(after < wake_bytes))
		return BPF_RB_NO_WAKEUP;
	if (before >= wake_bytes && (before ^ after) >> WAKE_STEP_BITS == 0)
		return BPF_RB_NO_WAKEUP;
	return BPF_RB_FORCE_WAKEUP;
}

/* Wakes the agent if it sleeps, by an empty record that it does not see. */
static __always_inline void go_rouse(void)
{
	__u32 zero = 0;
	struct control *c = bpf_map_lookup_elem(&control, &zero);
	void *record;

	if (likely(!c || !c->sleeping))
		return;
	c->sleeping = 0;
	record = bpf_ringbuf_reserve(&events, 8, 0);
	if (record)
		bpf_ringbuf_discard(record, BPF_RB_FORCE_WAKEUP);
}

/* Sends ev->size bytes; size is the same, with a bound that the verifier knows. First the record,
 * then the look at whether the agent sleeps: the agent says so before it looks into the ring. */
static __always_inline void go_send(struct event *ev, __u32 size)
{
	ev->size = size;
	if (unlikely(bpf_ringbuf_output(&events, ev, size, go_wake(size))))
		count(lost_ring_full);
	go_rouse();
}

/* ---- room to work in ---- */

/* A program may be preempted, and another run of it on the same CPU would find its work: so each
 * takes one of a few buffers of its CPU. All busy: the operation is skipped, counted. Buffers begin
 * with `busy`. */
#define GO_SCRATCH(name, what)                                                                     \
	struct {                                                                                   \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);                                           \
		__uint(max_entries, 4);                                                            \
		__type(key, __u32);                                                                \
		__type(value, what);                                                               \
	} name SEC(".maps");                                                                       \
	static __always_inline what *name##_take(void)                                             \
	{                                                                                          \
		for (__u32 i = 0; i < 4; i++) {                                                    \
			__u32 at = i;                                                              \
			what *s = bpf_map_lookup_elem(&name, &at);                                 \
			if (likely(s && __sync_val_compare_and_swap(&s->busy, 0, 1) == 0))         \
				return s;                                                          \
		}                                                                                  \
		count(ops_no_buffer);                                                              \
		return NULL;                                                                       \
	}                                                                                          \
	static __always_inline void name##_put(what *s)                                            \
	{                                                                                          \
		__sync_lock_test_and_set(&s->busy, 0);                                             \
	}
