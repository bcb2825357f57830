// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* toy.bpf.c - kernel half of `toy`. The argument says what to do: even ones send an event, odd ones
 * begin an operation that never ends. */
#include "tests/bpf/toy.h"
#include "go.h"

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

static __always_inline void send(const struct go_slot *s, const struct cookie *c, __u64 argument)
{
	struct op_key key = { .slot = c->slot };
	__u32 *calls = bpf_map_lookup_elem(&toy_calls, &key);
	struct toy_event ev = {
		.head = { .flags = EVENT_SAMPLED, .cookie = *c },
		.found = s->at[TOY_FOUND],
		.missing = s->at[TOY_MISSING],
		.parts = s->parts,
		.calls_before = calls ? *calls : 0,
		.argument = argument,
		.ro_lo = s->ro_lo,
		.ro_hi = s->ro_hi,
	};

	ev.head.start_ns = ev.head.end_ns = bpf_ktime_get_boot_ns();
	ev.head.span_id[0] = ev.head.trace_id[0] = 1;
	go_send(&ev.head, sizeof(ev));
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
	const struct go_slot *s = go_slot(ctx, &c);
	struct op_key key = { .slot = c.slot, .id = argument };

	if (!s)
		return 0;
	if (argument & 1)
		(void)share_put(&toy_ops, &key, &op);
	else
		send(s, &c, argument);
	return 0;
}

SEC("uprobe.multi")
int toy_leave(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
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
