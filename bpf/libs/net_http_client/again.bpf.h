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

/* Sends the attempt that has failed, and makes op the next one. */
static __always_inline void begin_again(struct scratch *b, const struct go_slot *s, struct op *op)
{
	struct cookie c = op->ev.cookie;

	if (go_read_struct(&b->buf, s->at[F_REQ_SIZE], op->failed_req)) {
		count(ops_unreadable);
		return;
	}
	b->g.depth = op->depth;
	go_leave(&op->ev, &b->g, &op->entered);
	b->results.p[0] = 0;
	b->results.p[1] = op->failed[0];
	b->results.p[2] = op->failed[1];
	b->op = *op;
	send(b, s, op);
	__builtin_memset(&b->op.ev, 0, sizeof(b->op.ev));
	b->op.ev.cookie = c;
	b->op.ev.goid = b->g.goid;
	b->op.ev.start_ns = bpf_ktime_get_boot_ns();
	b->op.retries += b->op.retries < 255;
	/* What send() has read in its place. */
	if (go_read_struct(&b->buf, s->at[F_REQ_SIZE], op->failed_req))
		count(ops_unreadable);
	begin_ids(b, s);
	if (!b->op.silent)
		go_enter(&b->op.ev, &b->g, &b->op.entered);
	b->op.failed_req = 0;
	*op = b->op;
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
		op->failed_req = GO_P2(ctx);
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
	if (op && op->failed_req)
		begin_again(b, s, op);
	net_http_client_scratch_put(b);
	return 0;
}
