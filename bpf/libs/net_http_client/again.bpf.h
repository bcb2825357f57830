/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * again.bpf.h - attempts that net/http makes within one call of roundTrip, as where a keep-alive
 * connection turns out to be closed: the one that failed ends, and the next one begins. Costs hits
 * only where an attempt has failed. A part of net_http_client.bpf.c. */
#pragma once

/* The attempt of the call that this goroutine is in, or NULL. b->g: the goroutine. */
static __always_inline struct op *open_attempt(struct pt_regs *ctx, const struct go_slot *s,
					       const struct cookie *c, struct scratch *b)
{
	struct op_key k = go_op_key(ctx, c);
	struct op *op = bpf_map_lookup_elem(&net_http_client_ops, &k);

	if (!op || !op->active || op->silent ||
	    go_goroutine(&b->g, s, &b->group, GO_G(ctx), GO_SP(ctx)) || op->ev.goid != b->g.goid ||
	    op->depth >= b->g.depth)
		return NULL;
	return op;
}

/* The ids of the next attempt: the parent stays. Where the program has put ids of its own onto the
 * wire, the first attempt has them, and the next one is below it. */
static __always_inline void next_ids(struct scratch *b, struct event *ev, __u32 own)
{
	if (ev->sdk & SDK_LEFT)
		return;
	random_seed(&b->random);
	if (own & OP_OWN_IDS) {
		set_u64(ev->parent_id, id_of(ev->span_id));
		ev->flags |= EVENT_LOCAL;
	}
	set_u64(ev->span_id, random_mix(b->random.a) ?: 1);
}

/* Sends the attempt that has failed, and makes op the next one. */
static __always_inline void begin_again(struct scratch *b, const struct go_slot *s, struct op *op)
{
	b->g.depth = op->depth;
	go_leave(&op->ev, &b->g, &op->entered);
	b->results.p[0] = 0;
	b->results.p[1] = op->failed[0];
	b->results.p[2] = op->failed[1];
	send(b, s, op);
	op->ev.start_ns = bpf_ktime_get_boot_ns();
	op->retries += op->retries < 255;
	next_ids(b, &op->ev, op->own);
	op->own = 0;
	op->failed[0] = 0;
	go_enter(&op->ev, &b->g, &op->entered);
}

/* func (pc *persistConn) shouldRetryRequest(req *Request, err error) bool: called when an attempt
 * has failed. */
SEC("uprobe.multi")
int net_http_client_failed(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct scratch *b;
	struct op *op;

	if (!s)
		return 0;
	b = net_http_client_scratch_take();
	if (!b)
		return 0;
	op = open_attempt(ctx, s, &c, b);
	if (op) {
		op->failed[0] = GO_P3(ctx);
		op->failed[1] = GO_P4(ctx);
	}
	net_http_client_scratch_put(b);
	return 0;
}

/* Its end: true, there will be another attempt. */
SEC("uprobe.multi")
int net_http_client_again(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct scratch *b;
	struct op *op;

	if (!s || !(GO_P1(ctx) & 0xff))
		return 0;
	b = net_http_client_scratch_take();
	if (!b)
		return 0;
	op = open_attempt(ctx, s, &c, b);
	if (op && op->failed[0])
		begin_again(b, s, op);
	net_http_client_scratch_put(b);
	return 0;
}
