// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* toy.bpf.c - kernel half of `toy`. The argument says what to do: even ones send an event, odd ones
 * begin an operation that never ends. */
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "tests/bpf/toy.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile __u32 wake_bytes = 1;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct go_slot);
} slots SEC(".maps");

struct toy_op {
	__u32 active, pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct op_key);
	__type(value, struct toy_op);
} toy_ops SEC(".maps");

/* Remembered, but no operation. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct op_key);
	__type(value, __u32);
} toy_calls SEC(".maps");

static __always_inline const struct go_slot *slot_of(struct pt_regs *ctx, struct cookie *c)
{
	__u64 bits = bpf_get_attach_cookie(ctx);
	const struct go_slot *s;
	__u32 at;

	__builtin_memcpy(c, &bits, sizeof(*c));
	at = c->slot;
	s = bpf_map_lookup_elem(&slots, &at);
	if (s && s->generation && s->generation == c->generation)
		return s;
	count(hits_stale);
	return NULL;
}

static __always_inline __u64 wake(void)
{
	__u32 zero = 0;
	struct control *c = bpf_map_lookup_elem(&control, &zero);

	if (c && c->sleeping) {
		c->sleeping = 0;
		return BPF_RB_FORCE_WAKEUP;
	}
	return bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) >= wake_bytes ? BPF_RB_FORCE_WAKEUP
									   : BPF_RB_NO_WAKEUP;
}

static __always_inline void send(const struct go_slot *s, const struct cookie *c, __u64 argument)
{
	struct op_key key = { .slot = c->slot };
	struct toy_event *ev = bpf_ringbuf_reserve(&events, sizeof(*ev), 0);
	__u32 *calls = bpf_map_lookup_elem(&toy_calls, &key);

	if (!ev) {
		count(lost_ring_full);
		return;
	}
	__builtin_memset(ev, 0, sizeof(*ev));
	ev->head.size = sizeof(*ev);
	ev->head.flags = EVENT_SAMPLED;
	ev->head.cookie = *c;
	ev->head.start_ns = ev->head.end_ns = bpf_ktime_get_boot_ns();
	ev->head.span_id[0] = ev->head.trace_id[0] = 1;
	ev->found = s->at[TOY_FOUND];
	ev->missing = s->at[TOY_MISSING];
	ev->parts = s->parts;
	ev->calls_before = calls ? *calls : 0;
	ev->argument = argument;
	ev->ro_lo = s->ro_lo;
	ev->ro_hi = s->ro_hi;
	bpf_ringbuf_submit(ev, wake());
}

SEC("uprobe.multi")
int toy_enter(struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	__u64 argument = ctx->rdi;
#else
	__u64 argument = ((struct user_pt_regs *)ctx)->regs[0];
#endif
	struct toy_op op = { .active = 1 };
	struct cookie c;
	const struct go_slot *s = slot_of(ctx, &c);
	struct op_key key = { .slot = c.slot, .id = argument };

	if (!s)
		return 0;
	if (argument & 1) {
		if (bpf_map_update_elem(&toy_ops, &key, &op, BPF_ANY))
			count(ops_no_room);
	} else {
		send(s, &c, argument);
	}
	return 0;
}

SEC("uprobe.multi")
int toy_leave(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = slot_of(ctx, &c);
	struct op_key key = { .slot = c.slot };
	__u32 *calls, one = 1;

	if (!s)
		return 0;
	calls = bpf_map_lookup_elem(&toy_calls, &key);
	if (calls)
		__sync_fetch_and_add(calls, 1);
	else
		bpf_map_update_elem(&toy_calls, &key, &one, BPF_ANY);
	return 0;
}
