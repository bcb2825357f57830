// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* net_http.bpf.c - net/http servers: HTTP/1, HTTP/2 bundled in net/http, HTTP/2 of
 * golang.org/x/net. Two hits a request, both on an instruction that the kernel emulates; once a
 * connection a third one cleans up. */
#include "op.bpf.h"

/* A function that begins requests was hit: what it was given. */
struct begin {
	__u64 req, writer; /* *Request or *ServerRequest; *response or *responseWriter */
	__u32 kind, fields;
};

static __always_inline int is_preface(struct go_str method)
{
	__u32 text = 0;

	return method.len == 3 && !go_read(&text, 3, method.ptr) && text == 0x495250; /* "PRI" */
}

/* HTTP/1 is served through serverHandler.ServeHTTP as well as net/http's own HTTP/2; the preface of
 * HTTP/2, which HTTP/1 parses as a request "PRI * HTTP/2.0", is HTTP/1's. */
static __always_inline __u32 server_kind(const struct go_slot *s, const struct go_buf *req)
{
	if (go_u64(req, s->at[F_REQ_MAJOR]) < 2)
		return OP_H1;
	return is_preface(go_str(req, s->at[F_REQ_METHOD])) ? OP_H1 : OP_H2;
}

static __always_inline __u32 kind_part(__u32 kind)
{
	return kind == OP_H1   ? NET_HTTP_PART_H1
	       : kind == OP_H2 ? NET_HTTP_PART_H2 | NET_HTTP_PART_WRAP
			       : NET_HTTP_PART_XNET;
}

/* This goroutine serves a request already. True: the hit is about the same one (x/net's HTTP/2
 * server, or the layer that hands a stream of net/http to x/net's handler, calls net/http's
 * serverHandler). A request of HTTP/1 is never served by the goroutine of a stream. */
static __always_inline int begin_again(struct op *op, const struct go_slot *s,
				       const struct scratch *b, const struct begin *a)
{
	if (op->active != OP_H1 && a->kind != OP_H1 && a->fields == F_REQ_SIZE) {
		if (op->active == OP_H2 && !op->req)
			op->req = a->req; /* this one will carry the route */
		return 1;
	}
	count(ops_new_begin);
	(void)go_unlend(&op->rec.ev, s, op->active == OP_H1);
	op->active = 0;
	return 0;
}

static __always_inline int begin_in(void *ctx, const struct go_slot *s, struct cookie c,
				    struct scratch *b, struct begin *a)
{
	struct op_key k = go_op_key(ctx, &c);
	__u64 start = bpf_ktime_get_boot_ns(), goid = go_goid(ctx, s);
	struct op *op = bpf_map_lookup_elem(&net_http_ops, &k);

	if (op && unlikely(op->rec.ev.goid != goid)) {
		if (op->active)
			count(ops_new_begin);
		(void)go_unlend(&op->rec.ev, s, 0);
		op = NULL;
	}
	if (read_struct(&b->req, s, a->fields == F_H2REQ_SIZE ? F_H2REQ_SIZE : F_REQ_SIZE,
			a->req)) {
		count(ops_unreadable);
		return 0;
	}
	if (!a->kind)
		a->kind = server_kind(s, &b->req);
	if (unlikely(!(s->parts & kind_part(a->kind))))
		return 0;
	if (op && unlikely(op->active) && begin_again(op, s, b, a))
		return 0;
	if (unlikely(!op))
		op = op_new(&k, goid, c);
	if (unlikely(!op))
		return 0;
	op->rec.ev.start_ns = start;
	op->writer = a->writer;
	if (unlikely(a->kind != OP_H1) &&
	    go_read(&op->writer, 8,
		    a->writer +
			    s->at[a->kind == OP_H2 ? F_H2_WRITER_STATE : F_XNET_WRITER_STATE])) {
		count(ops_unreadable);
		return 0;
	}
	op->req = a->fields == F_REQ_SIZE ? a->req : 0;
	op_begin(op, s, b, a->fields);
	op->active = a->kind;
	go_lend(&op->rec.ev, s,
		go_u64(&b->req,
		       8 + (a->fields == F_REQ_SIZE ? s->at[F_REQ_CTX] : s->at[F_H2REQ_CTX])),
		a->kind == OP_H1 ? LEND_CONN : LEND_SELF);
	return 0;
}

static __always_inline int begin(struct pt_regs *ctx, struct begin a)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct scratch *b;

	if (!s)
		return 0;
	b = net_http_scratch_take();
	if (!b)
		return 0;
	begin_in(ctx, s, c, b, &a);
	net_http_scratch_put(b);
	return 0;
}

/* func (sh serverHandler) ServeHTTP(rw ResponseWriter, req *Request) */
SEC("uprobe.multi")
int net_http_begin(struct pt_regs *ctx)
{
	return begin(ctx, (struct begin){
				  .req = GO_P4(ctx), .writer = GO_P3(ctx), .fields = F_REQ_SIZE });
}

/* golang.org/x/net/http2: func (sc *serverConn) runHandler(rw *responseWriter, req *http.Request,
 * handler func(...)) */
SEC("uprobe.multi")
int net_http_xnet_begin(struct pt_regs *ctx)
{
	return begin(ctx, (struct begin){ .req = GO_P3(ctx),
					  .writer = GO_P2(ctx),
					  .fields = F_REQ_SIZE,
					  .kind = OP_XNET });
}

/* Go >= 1.27: func (h http2Handler) ServeHTTP(w *http2.ResponseWriter, req *http2.ServerRequest) */
SEC("uprobe.multi")
int net_http_wrap_begin(struct pt_regs *ctx)
{
	return begin(ctx, (struct begin){ .req = GO_P4(ctx),
					  .writer = GO_P3(ctx),
					  .fields = F_H2REQ_SIZE,
					  .kind = OP_H2 });
}

/* func (mux *ServeMux) ServeHTTP(w ResponseWriter, r *Request), where
 * findHandler(r) (h Handler, pattern string, _ *pattern, matches []string)
 * has returned. No *pattern: nothing matches, or it redirects. r was given in the fourth register,
 * and is kept in that argument's place on the stack. */
SEC("uprobe.multi")
int net_http_mux(struct pt_regs *ctx)
{
	struct go_str pattern = { GO_P3(ctx), GO_P4(ctx) };
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct op_key k;
	struct op *op;
	__u64 req;

	if (!s || !GO_P5(ctx))
		return 0;
	k = go_op_key(ctx, &c);
	op = bpf_map_lookup_elem(&net_http_ops, &k);
	if (op && op->active && go_is_told(&op->rec.ev, s) &&
	    !go_read(&req, 8, GO_FP(ctx) + 8 + 4 * 8))
		op_mux(op, s, req, &pattern);
	return 0;
}

/* The text of http.ErrAbortHandler. */
static __always_inline int is_abort_text(const __u64 *t)
{
	return t[0] == 0x707474682f74656eULL && t[1] == 0x2074726f6261203aULL &&
	       t[2] == 0x0072656c646e6148ULL;
}

/* g._panic is set while a panic or runtime.Goexit runs deferred functions. Its argument tells an
 * abort from a panic. */
GO_APART int mark_panic(struct op *op, const struct go_slot *s, __u64 g)
{
	__u64 at, arg[2], text[3] = {};
	struct go_str str;

	if (!op || !s || go_read(&at, 8, g + s->at[F_G_PANIC]) || !at)
		return 0;
	op->rec.ev.flags |= EVENT_PANICKED;
	if (go_read(arg, sizeof(arg), at + s->at[F_PANIC_ARG]))
		return 0;
	if (!arg[0] || (!go_read(&str, sizeof(str), arg[1]) && str.len == 23 &&
			!go_read(text, 23, str.ptr) && is_abort_text(text)))
		op->rec.bits |= NET_HTTP_ABORTED;
	return 0;
}

/* Ends the operation of this goroutine, if one is open. last: the entry ends with it. */
static __always_inline int end(struct pt_regs *ctx, int how, __u64 writer, int last)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct op_key k;
	struct scratch *b;
	struct op *op;
	int covered;

	if (!s)
		return 0;
	k = go_op_key(ctx, &c);
	op = bpf_map_lookup_elem(&net_http_ops, &k);
	if (!op)
		return 0;
	if (last && op->rec.ev.goid != go_goid(ctx, s)) {
		if (op->active)
			count(ops_new_begin);
		(void)go_unlend(&op->rec.ev, s, 0);
		share_drop(&net_http_ops, &k);
		return 0;
	}
	if (likely(op->active && (!writer || writer == op->writer))) {
		covered = go_unlend(&op->rec.ev, s, !last);
		if (last)
			mark_panic(op, s, GO_G(ctx));
		if (unlikely(how == END_DONE && op->rec.ev.flags & EVENT_PANICKED))
			how = END_UNWOUND;
		go_leave_to_sdk(&op->rec.ev, covered);
		if (unlikely(covered == COVERED_LIB))
			count(ops_covered);
		else if ((b = net_http_scratch_take()) != NULL) {
			op_end(op, s, b, how);
			net_http_scratch_put(b);
		}
		op->active = 0;
		op->rec.bits = 0;
	} else if (last) {
		(void)go_unlend(&op->rec.ev, s, 0);
	}
	if (last)
		share_drop(&net_http_ops, &k);
	return 0;
}

/* func (w *response) finishRequest() */
SEC("uprobe.multi")
int net_http_end(struct pt_regs *ctx)
{
	return end(ctx, END_DONE, GO_P1(ctx), 0);
}

/* (*serverConn).runHandler.func1 of either HTTP/2: deferred, so it runs after a panic as well. */
SEC("uprobe.multi")
int net_http_h2_end(struct pt_regs *ctx)
{
	return end(ctx, END_DONE, 0, 1);
}

/* (*conn).serve.func1: deferred, once a connection. A request that is open here was not ended by
 * finishRequest. */
SEC("uprobe.multi")
int net_http_conn_end(struct pt_regs *ctx)
{
	return end(ctx, END_UNWOUND, 0, 1);
}

/* HTTP/2 without TLS begins as a request of HTTP/1, "PRI * HTTP/2.0" or one with Http2-Settings,
 * that its server then hijacks: golang.org/x/net/http2 serves what was asked for as a stream, and
 * that is the request. */
static __always_inline int is_handover(const struct op *op, const struct go_slot *s,
				       struct scratch *b)
{
	struct request r = { .buf = &b->req, .fields = F_REQ_SIZE };
	struct header_walk w = { .slot = s, .buf = &b->group, .found = &b->found };

	if (op->active != OP_H1 || read_struct(&b->req, s, F_REQ_SIZE, op->req))
		return 0;
	if (is_preface(request_str(s, &r, METHOD)))
		return 1;
	if (!(s->parts & (NET_HTTP_PART_XNET | NET_HTTP_PART_WRAP)))
		return 0;
	b->found = (struct header_found){ .h2_settings = 1 };
	(void)header_find(&w, request_u64(s, &r, HEADER));
	return b->found.h2_settings == 2;
}

/* func (w *response) Hijack() */
SEC("uprobe.multi")
int net_http_hijack(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct op_key k;
	struct scratch *b;
	struct op *op;

	if (!s)
		return 0;
	k = go_op_key(ctx, &c);
	op = bpf_map_lookup_elem(&net_http_ops, &k);
	if (!op || !op->active || op->writer != GO_P1(ctx))
		return 0;
	b = net_http_scratch_take();
	if (!b)
		return 0;
	go_leave_to_sdk(&op->rec.ev, go_unlend(&op->rec.ev, s, 1));
	if (!is_handover(op, s, b))
		op_end(op, s, b, END_HIJACKED);
	net_http_scratch_put(b);
	op->active = 0;
	return 0;
}
