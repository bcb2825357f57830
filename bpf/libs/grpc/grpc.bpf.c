// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* grpc.bpf.c - calls of google.golang.org/grpc, served and made. Two hits a call and side, unary or
 * stream, both on an instruction that the kernel emulates; a client's attempt that fails costs one
 * more. */
#include "metadata.bpf.h"
#include "op.bpf.h"
#include "write.bpf.h"

/* ---- servers ---- */

/* What the inbound metadata say. */
GO_APART int server_headers(struct op *op, const struct go_slot *s, struct scratch *b,
			    __u64 metadata)
{
	struct learned *l;
	struct header_walk w = {};
	struct header_found *f;
	struct event *ev;

	if (!op || !s || !b)
		return 0;
	ev = &op->ev;
	l = learned_of(s, ev->cookie.slot);
	f = &b->found;
	header_want(f, s, l ? l->agent_key : 0);
	f->authority_key = l ? l->authority_key : 0;
	f->interned = 0;
	w.found = f;
	w.slot = s;
	w.buf = &b->group;
	if (header_find(&w, metadata))
		count(reads_headers);
	if (l && unlikely(l->agent_key != f->agent_key || l->authority_key != f->authority_key)) {
		l->agent_key = f->agent_key;
		l->authority_key = f->authority_key;
	}
	op->authority = f->authority;
	if (f->parent.ptr)
		go_traceparent(ev, f->parent.ptr, f->parent.len);
	if (ev->flags & EVENT_REMOTE) {
		f->b3_wanted = 0; /* traceparent wins */
		op->state = f->state;
	} else if (f->b3_wanted) {
		f->b3_wanted = go_b3_headers(ev, &f->b3);
	}
	return 0;
}

GO_APART int server_identify(struct op *op, const struct go_slot *s, struct scratch *b)
{
	struct go_random random;

	if (!op || !s || !b)
		return 0;
	random_seed(&random);
	go_identify(&op->ev, s, &random);
	if (b->found.b3_wanted)
		go_b3_decide(&op->ev, s, b->found.b3_wanted);
	return 0;
}

/* Where the Stream of what handleStream() and writeStatus() are given lies. */
static __always_inline __u64 inner_stream(const struct go_slot *s, __u64 stream)
{
	if (s->at[F_SERVER_STREAM_ST] == 8 && go_read(&stream, 8, stream))
		return 0;
	return stream;
}

/* Whether the call is served by way of net/http, as far as that is known: until a first call over
 * an http2Server has ended, each may be. */
static __always_inline int is_over_http(const struct op *op, const struct go_slot *s)
{
	struct learned *l = learned_of(s, op->ev.cookie.slot);

	return l && l->http2 != op->transport;
}

static __always_inline void server_begin(struct pt_regs *ctx, const struct go_slot *s,
					 struct cookie c, struct scratch *b)
{
	__u64 start = bpf_ktime_get_boot_ns();
	__u32 at_ctx = s->at[F_STREAM_CTX], at_method = s->at[F_STREAM_METHOD];
	struct go_str *in = &b->in; /* the stream's context, itab and data */
	struct op *op;

	if (go_read_struct(&b->cs, (at_ctx > at_method ? at_ctx : at_method) + sizeof(*in),
			   inner_stream(s, GO_P4(ctx)))) {
		count(ops_unreadable);
		return;
	}
	*in = go_str(&b->cs, at_ctx);
	b->k = (struct op_key){ .slot = c.slot, .id = GO_G(ctx) };
	op = bpf_map_lookup_elem(&grpc_server_ops, &b->k);
	if (likely(op && !op->active)) {
		op->state = (struct go_str){};
		op->ev = op_zero.ev;
	} else {
		if (op_make(b, s, GRPC_OF_SERVER))
			return;
		op = bpf_map_lookup_elem(&grpc_server_ops, &b->k);
		if (!op)
			return;
	}
	op->ev.cookie = c;
	op->ev.kind = GRPC_OF_SERVER;
	op->stream = GO_P4(ctx);
	op->transport = GO_P2(ctx);
	op->method = go_str(&b->cs, at_method);
	if (s->options & GO_OPTION_LEND)
		op->ev.goid = go_goid(ctx, s);
	op->ev.start_ns = start;
	server_headers(op, s, b, find_metadata(learned_of(s, c.slot), in->len, 12, 0));
	if (is_over_http(op, s) && go_cover(&op->ev, in->ptr, in->len))
		b->found.b3_wanted = 0;
	/* The context may have a span already: some transports begin it. */
	if (go_left(&op->ev, s, in->ptr, in->len, SPAN_KIND_SERVER))
		b->found.b3_wanted = 0;
	server_identify(op, s, b);
	go_lend(&op->ev, s, in->len, LEND_SELF);
	op->active = OP_OPEN;
}

/* func (s *Server) handleStream(t transport.ServerTransport, stream *transport.Stream [or
 * ServerStream]) */
SEC("uprobe.multi")
int grpc_server(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct scratch *b;

	if (!s)
		return 0;
	b = grpc_scratch_take();
	if (!b)
		return 0;
	server_begin(ctx, s, c, b);
	grpc_scratch_put(b);
	return 0;
}

/* grpc.Server says so where it has no such method; a method's own UNIMPLEMENTED has another text.
 */
static __always_inline int is_unknown(__u32 code, struct go_str message)
{
	__u64 t[2] = {};

	if (code != 12 || message.len < 16 || go_read(t, 16, message.ptr))
		return 0;
	if (t[0] == 0x206e776f6e6b6e75ULL)                                    /* "unknown " */
		return (t[1] & 0xffffffffffffffULL) == 0x20646f6874656dULL || /* "method " */
		       t[1] == 0x2065636976726573ULL;                         /* "service " */
	return t[0] == 0x656d726f666c616dULL &&
	       t[1] == 0x646f6874656d2064ULL; /* "malformed method" */
}

/* Builds the record and sends it. peer: where a net.Addr lies, req: else the *Request that has it.
 */
GO_APART int server_end(struct op *op, const struct go_slot *s, struct scratch *b, __u64 peer,
			__u64 req)
{
	struct go_str message = {}, remote = {};
	struct grpc_event *rec;
	__u32 at = 0;

	if (!op || !s || !b)
		return 0;
	rec = new_record(b, op);
	rec->ev.end_ns = bpf_ktime_get_boot_ns();
	rec->code = status_code(s, b->found.agent_key, &message); /* laid there by the caller */
	if (is_unknown(rec->code, message))
		rec->bits |= GRPC_UNKNOWN;
	if (go_is_told(&rec->ev, s)) {
		if (peer)
			put_ip(rec, s, peer);
		else if (req && s->at[F_REQ_REMOTE] != GO_ABSENT &&
			 !go_read(&remote, sizeof(remote), req + s->at[F_REQ_REMOTE]))
			at += rec->peer_len =
				go_put_str(&rec->ev, b->data, at, remote, GRPC_PEER_MAX);
		remote = only(op->state);
		if (remote.len <= GRPC_STATE_MAX)
			at += rec->state_len =
				go_put_str(&rec->ev, b->data, at, remote, GRPC_STATE_MAX);
		at += rec->server_len =
			go_put_str(&rec->ev, b->data, at, only(op->authority), GRPC_SERVER_MAX);
	}
	send(rec, put_method(rec, s, b->data, at, op->method));
	return 0;
}

/* The first status of a stream is the one that its client gets; what comes later finds no
 * operation. */
static __always_inline int server_status(struct pt_regs *ctx, int handler)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct op_key k = { .id = GO_G(ctx) };
	__u64 peer = 0, req = 0;
	struct learned *l;
	struct scratch *b;
	struct op *op;
	__u32 at;

	if (!s)
		return 0;
	k.slot = c.slot;
	op = bpf_map_lookup_elem(&grpc_server_ops, &k);
	if (!op || !op->active || op->stream != GO_P2(ctx))
		return 0;
	go_leave_to_sdk(&op->ev, go_unlend(&op->ev, s, 0));
	if (handler && s->at[F_HANDLER_REQ] != GO_ABSENT) {
		(void)go_read(&req, 8, GO_P1(ctx) + s->at[F_HANDLER_REQ]);
	} else if (!handler) {
		at = s->at[F_SERVER_PEER] != GO_ABSENT ? s->at[F_SERVER_PEER]
						       : s->at[F_SERVER_REMOTE];
		peer = at != GO_ABSENT ? GO_P1(ctx) + at : 0;
		l = learned_of(s, c.slot);
		if (l && l->http2 != op->transport)
			l->http2 = op->transport;
	}
	b = grpc_scratch_take();
	if (b) {
		b->found.agent_key = GO_P3(ctx);
		server_end(op, s, b, peer, req);
		grpc_scratch_put(b);
	}
	share_rest(&grpc_server_ops, &k, &op->active);
	return 0;
}

/* func (t *http2Server) writeStatus(s *ServerStream, st *status.Status) error; WriteStatus before
 * 1.69 */
SEC("uprobe.multi")
int grpc_server_status(struct pt_regs *ctx)
{
	return server_status(ctx, 0);
}

/* The same of serverHandlerTransport: net/http serves, and hands over to Server.ServeHTTP(). */
SEC("uprobe.multi")
int grpc_handler_status(struct pt_regs *ctx)
{
	return server_status(ctx, 1);
}

/* ---- clients ---- */

static __always_inline int read_cs(struct scratch *b, const struct go_slot *s, __u64 cs)
{
	return go_read_struct(&b->cs, s->at[F_CS_SIZE], cs);
}

static __always_inline int is_unary(const struct scratch *b, const struct go_slot *s)
{
	__u64 desc = go_u64(&b->cs, s->at[F_CS_DESC]);
	__u8 server = 1, client = 1;

	if (!desc || go_read(&server, 1, desc + s->at[F_DESC_SERVER_STREAMS]) ||
	    go_read(&client, 1, desc + s->at[F_DESC_CLIENT_STREAMS]))
		return 0;
	return !server && !client;
}

GO_APART int client_identify(struct op *op, const struct go_slot *s)
{
	struct go_random random;

	if (!op || !s)
		return 0;
	random_seed(&random);
	go_identify(&op->ev, s, &random);
	return 0;
}

static __always_inline void client_begin(struct pt_regs *ctx, const struct go_slot *s,
					 struct cookie c, struct scratch *b)
{
	__u64 start = bpf_ktime_get_boot_ns();
	struct op *op;

	b->k = (struct op_key){ .slot = c.slot, .id = GO_P1(ctx) };
	if (go_goroutine(&b->g, s, &b->group, GO_G(ctx), GO_SP(ctx)) || read_cs(b, s, b->k.id)) {
		count(ops_unreadable);
		return;
	}
	if (!go_u8(&b->cs, s->at[F_CS_FIRST])) {
		write_attempt(b, s, bpf_map_lookup_elem(&grpc_client_ops, &b->k), GO_G(ctx));
		return;
	}
	if (op_make(b, s, GRPC_OF_CLIENT))
		return;
	op = bpf_map_lookup_elem(&grpc_client_ops, &b->k);
	if (!op)
		return;
	op->ev.cookie = c;
	op->ev.kind = GRPC_OF_CLIENT;
	op->stream = b->k.id;
	op->ev.goid = b->g.goid;
	op->ev.start_ns = start;
	b->in = go_str(&b->cs, s->at[F_CS_CTX]);
	go_parent(&op->ev, s, &b->g, b->in.ptr, b->in.len);
	client_identify(op, s);
	if (!(op->ev.sdk & SDK_LEFT) &&
	    own_header(b, s, find_metadata(learned_of(s, c.slot), b->in.len, 6, 1)))
		op->silent = go_take_own(&op->ev, &b->own, s);
	/* A stream outlives the function that makes it. */
	op->active = OP_OPEN;
	if (!op->silent && is_unary(b, s)) {
		op->active = OP_ENTERED;
		go_enter(&op->ev, &b->g, &op->entered);
	}
	write_attempt(b, s, op, GO_G(ctx));
}

/* func (cs *clientStream) newAttemptLocked(...): called for the first time, with all that a call
 * knows of itself, while newClientStream() makes the stream; again for each retry. */
SEC("uprobe.multi")
int grpc_client(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct scratch *b;

	if (!s)
		return 0;
	b = grpc_scratch_take();
	if (!b)
		return 0;
	client_begin(ctx, s, c, b);
	grpc_scratch_put(b);
	return 0;
}

/* The transport of the last attempt has the peer. */
static __always_inline void put_client_peer(struct grpc_event *rec, const struct go_slot *s,
					    __u64 attempt)
{
	__u32 at = s->at[F_ATTEMPT_TRANSPORT] != GO_ABSENT ? s->at[F_ATTEMPT_TRANSPORT]
							   : s->at[F_ATTEMPT_T];
	struct go_str transport;

	if (!attempt || at == GO_ABSENT || s->at[F_CLIENT_REMOTE] == GO_ABSENT ||
	    go_read(&transport, sizeof(transport), attempt + at) || !transport.len)
		return;
	put_ip(rec, s, transport.len + s->at[F_CLIENT_REMOTE]);
}

/* Builds the record of a call that ended with that code, from its clientStream in b->cs. */
GO_APART int client_end(struct op *op, const struct go_slot *s, struct scratch *b, __u32 code)
{
	struct go_str method = {}, target = {};
	struct grpc_event *rec;
	__u64 at_hdr, cc;
	__u32 at = 0;

	if (!op || !s || !b)
		return 0;
	rec = new_record(b, op);
	rec->ev.end_ns = bpf_ktime_get_boot_ns();
	rec->code = code;
	at_hdr = go_u64(&b->cs, s->at[F_CS_HDR]);
	(void)go_read(&method, sizeof(method), at_hdr + s->at[F_HDR_METHOD]);
	if (go_is_told(&rec->ev, s)) {
		put_client_peer(rec, s, go_u64(&b->cs, s->at[F_CS_ATTEMPT]));
		cc = go_u64(&b->cs, s->at[F_CS_CC]);
		(void)go_read(&target, sizeof(target), cc + s->at[F_CC_TARGET]);
		at += rec->server_len = go_put_str(&rec->ev, b->data, at, target, GRPC_SERVER_MAX);
	}
	send(rec, put_method(rec, s, b->data, at, method));
	return 0;
}

/* An SDK that is told of each attempt begins its span after the call has begun; the attempt's
 * context has it. */
static __always_inline void client_left(struct op *op, const struct go_slot *s, struct scratch *b,
					__u64 attempt)
{
	if (s->sdk.leave && !(op->ev.sdk & SDK_LEFT) && attempt &&
	    s->at[F_ATTEMPT_CTX] != GO_ABSENT &&
	    !go_read(&b->in, sizeof(b->in), attempt + s->at[F_ATTEMPT_CTX]))
		go_left(&op->ev, s, b->in.ptr, b->in.len, SPAN_KIND_CLIENT);
	go_leave_to_sdk(&op->ev, 0);
}

/* True for one of those that end the call of clientStream `stream` at the same time: its caller and
 * the goroutine that waits for the end of its context. Another call may be in op's place by now. */
static __always_inline int client_claim(struct op *op, __u64 stream)
{
	__u32 active = *(volatile __u32 *)&op->active;

	if (!active || op->stream != stream ||
	    __sync_val_compare_and_swap(&op->active, active, 0) != active)
		return 0;
	if (op->stream == stream)
		return active;
	*(volatile __u32 *)&op->active = active;
	return 0;
}

/* Ends the call of that clientStream, if one is open. failed: only if it has no stream yet. */
static __always_inline int client_done(void *ctx, const struct go_slot *s, struct op_key k,
				       struct go_str err, int failed)
{
	__u32 at =
		s->at[F_ATTEMPT_STREAM] != GO_ABSENT ? s->at[F_ATTEMPT_STREAM] : s->at[F_ATTEMPT_S];
	struct op *op = bpf_map_lookup_elem(&grpc_client_ops, &k);
	__u64 attempt, stream = 0;
	struct go_g g = {};
	struct scratch *b;
	int ends = 1, how = 0;

	if (!op || (failed && op->ev.goid != go_goid(ctx, s)))
		return 0;
	b = grpc_scratch_take();
	if (b && !read_cs(b, s, k.id)) {
		attempt = go_u64(&b->cs, s->at[F_CS_ATTEMPT]);
		if (failed && attempt && at != GO_ABSENT && !go_read(&stream, 8, attempt + at))
			ends = !stream;
		how = ends ? client_claim(op, k.id) : 0;
		if (how && !op->silent) {
			client_left(op, s, b, attempt);
			client_end(op, s, b, error_code(&err, s));
		}
	} else {
		how = client_claim(op, k.id);
		if (b && how)
			count(ops_unreadable);
	}
	if (b)
		grpc_scratch_put(b);
	if (!how)
		return 0;
	if (how == OP_ENTERED) {
		g.goid = op->ev.goid;
		go_leave(&op->ev, &g, &op->entered);
	}
	share_drop(&grpc_client_ops, &k);
	return 0;
}

/* func (cs *clientStream) finish(err error): the first one counts, as in finish() itself. */
SEC("uprobe.multi")
int grpc_client_finish(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct op_key k = { .id = GO_P1(ctx) };

	if (!s)
		return 0;
	k.slot = c.slot;
	return client_done(ctx, s, k, (struct go_str){ GO_P2(ctx), GO_P3(ctx) }, 0);
}

/* The end of func (cs *clientStream) retryLocked(attempt *csAttempt, lastErr error) error, which
 * is called for failed attempts only: with an error, and before there is a stream, it is the end of
 * the call, as newClientStream() fails without a finish() (since 1.46). The receiver lies in its
 * spill slot; that it does shows in that it is the key of an open call of this goroutine. */
SEC("uprobe.multi")
int grpc_client_failed(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct op_key k = {};
	struct go_str err = {};
	struct scratch *b;

	if (!s)
		return 0;
	b = grpc_scratch_take();
	if (!b)
		return 0;
	k.slot = c.slot;
	if (!go_results(&b->results, ctx, &c) && b->results.p[0] &&
	    !go_read(&k.id, 8, b->results.sp + 8))
		err = (struct go_str){ b->results.p[0], b->results.p[1] };
	grpc_scratch_put(b);
	return err.ptr ? client_done(ctx, s, k, err, 1) : 0;
}
