/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * write.bpf.h - outbound trace context where the bytes on the wire cannot be reached: HTTP/1 over
 * TLS, and HTTP/2. Written into the program's memory; programs that do so are loaded only where
 * FEATURE_WRITE is on. A part of net_http_client.bpf.c.
 *
 * HTTP/1: one hit more an attempt, in the connection's writeLoop. HTTP/2: three, as the headers are
 * written on a goroutine of their own: from the call to its stream by the *Request, from there to
 * the frame by the stream's number. */
#pragma once
#include "send.bpf.h"

/* func (t *transferWriter) writeHeader(w io.Writer, trace *httptrace.ClientTrace) error: request
 * line, Host and User-Agent are written, whole lines all of them. */
SEC("uprobe.multi")
int net_http_client_buffer(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct write_ids ids;
	struct write_bufio at;
	struct op_key k;
	__u64 fields;

	if (!s)
		return 0;
	k = write_key(c.slot, WRITE_BUFFER, GO_P3(ctx));
	if (write_take(&ids, &k, c.generation))
		return 0;
	at = (struct write_bufio){ s->at[F_BUFIO_ERR], s->at[F_BUFIO_BUF], s->at[F_BUFIO_N],
				   s->at[F_BUFIO_WR] };
	__builtin_memcpy(&fields, &at, sizeof(fields));
	write_line(&ids, GO_P3(ctx), fields);
	return 0;
}

/* ---- HTTP/2 ---- */

/* Where things are in the bundled copy, and in golang.org/x/net's. */
struct h2_fields {
	__u16 header, framer, limit, cs_cc, cs_id, w;
};

static __always_inline struct h2_fields h2_fields(const struct go_slot *s, int xnet)
{
	if (xnet)
		return (struct h2_fields){ s->at[F_REQ_HEADER],    s->at[F_XNET_CC_FRAMER],
					   s->at[F_XNET_CC_LIMIT], s->at[F_XNET_CS_CC],
					   s->at[F_XNET_CS_ID],    s->at[F_XNET_FRAMER_W] };
	return (struct h2_fields){ s->at[F_H2_REQ_HEADER], s->at[F_H2_CC_FRAMER],
				   s->at[F_H2_CC_LIMIT],   s->at[F_H2_CS_CC],
				   s->at[F_H2_CS_ID],      s->at[F_H2_FRAMER_W] };
}

/* A peer that takes fewer bytes of headers than this gets those of the program only. A block of at
 * most WRITE_BLOCK_MAX bytes does not come near it. */
#define PEER_LIMIT_MIN 32768

static __always_inline void h2_call_in(struct pt_regs *ctx, const struct go_slot *s,
				       struct cookie c, struct scratch *b, int xnet)
{
	struct h2_fields at = h2_fields(s, xnet);
	struct op_key ok = go_op_key(ctx, &c), k = write_key(c.slot, WRITE_CALL, GO_P2(ctx));
	const struct op *op = bpf_map_lookup_elem(&net_http_client_ops, &ok);
	__u64 header, limit;

	if (go_read(&header, 8, GO_P2(ctx) + at.header) ||
	    go_read(&limit, 8, GO_P1(ctx) + at.limit)) {
		count(propagation_unreadable);
		return;
	}
	if (limit < PEER_LIMIT_MIN) {
		count(propagation_no_space);
		return;
	}
	if (!send_may(b, s, op, go_goid(ctx, s), header))
		return;
	write_ids_of(&b->ids, &op->ev, GO_P1(ctx));
	write_put(&k, &b->ids);
}

static __always_inline int h2_call(struct pt_regs *ctx, int xnet)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct scratch *b;

	if (!s)
		return 0;
	b = net_http_client_scratch_take();
	if (!b)
		return 0;
	h2_call_in(ctx, s, c, b, xnet);
	net_http_client_scratch_put(b);
	return 0;
}

/* func (cc *http2ClientConn) roundTrip(req *Request, ...) (*Response, error): on the goroutine of
 * the call, once an attempt. */
SEC("uprobe.multi")
int net_http_client_h2_call(struct pt_regs *ctx)
{
	return h2_call(ctx, 0);
}

SEC("uprobe.multi")
int net_http_client_xnet_h2_call(struct pt_regs *ctx)
{
	return h2_call(ctx, 1);
}

static __always_inline int h2_stream(struct pt_regs *ctx, int xnet)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct h2_fields at;
	struct write_ids ids;
	struct op_key k;
	__u64 cc, framer;
	__u32 id;

	if (!s)
		return 0;
	k = write_key(c.slot, WRITE_CALL, GO_P2(ctx));
	if (write_take(&ids, &k, c.generation))
		return 0;
	at = h2_fields(s, xnet);
	if (go_read(&cc, 8, GO_P1(ctx) + at.cs_cc) || go_read(&id, 4, GO_P1(ctx) + at.cs_id) ||
	    go_read(&framer, 8, cc + at.framer)) {
		count(propagation_unreadable);
		return 0;
	}
	if (cc != ids.owner || !id || id >> 31) {
		count(propagation_not_request);
		return 0;
	}
	k = write_key(c.slot, id, framer);
	write_put(&k, &ids);
	return 0;
}

/* func (cs *http2clientStream) encodeAndWriteHeaders(req *Request) error: the stream has its
 * number. */
SEC("uprobe.multi")
int net_http_client_h2_stream(struct pt_regs *ctx)
{
	return h2_stream(ctx, 0);
}

SEC("uprobe.multi")
int net_http_client_xnet_h2_stream(struct pt_regs *ctx)
{
	return h2_stream(ctx, 1);
}

static __always_inline int is_bufio(const struct go_type_name *t)
{
	return go_type_is(t, 13, GO_TEXT8('*', 'b', 'u', 'f', 'i', 'o', '.', 'W'),
			  GO_TEXT8('r', 'i', 't', 'e', 'r', 0, 0, 0), 0);
}

/* What is empty of the buffer that the Framer at `framer` writes to; nothing where that is no
 * bufio.Writer. */
GO_APART int h2_spare(struct scratch *b, const struct go_slot *s, struct write_spare *spare,
		      __u64 w_at)
{
	__u64 w[2], buf[2], n, err;

	if (!b || !s || !spare)
		return 0;
	spare->at = spare->n = 0;
	if (go_read(w, sizeof(w), w_at) || go_type_name(&b->name, s, w[0]) || !is_bufio(&b->name))
		return 0;
	if (go_read(buf, sizeof(buf), w[1] + s->at[F_BUFIO_BUF]) ||
	    go_read(&n, 8, w[1] + s->at[F_BUFIO_N]) ||
	    go_read(&err, 8, w[1] + s->at[F_BUFIO_ERR]) || err || n >= buf[1])
		return 0;
	spare->at = buf[0] + n;
	spare->n = buf[1] - n;
	return 0;
}

static __always_inline int h2_frame(struct pt_regs *ctx, int xnet)
{
	__u64 param = WRITE_PARAM(ctx), framer = GO_P1(ctx);
	struct write_spare spare = {};
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct write_ids ids;
	struct scratch *b;
	struct op_key k;
	__u32 stream;

	if (!s || go_read(&stream, 4, param))
		return 0;
	k = write_key(c.slot, stream, framer);
	if (!stream || stream >> 31 || write_take(&ids, &k, c.generation))
		return 0;
	b = net_http_client_scratch_take();
	if (!b)
		return 0;
	h2_spare(b, s, &spare, framer + h2_fields(s, xnet).w);
	net_http_client_scratch_put(b);
	write_field(&ids, param, &spare);
	return 0;
}

/* func (f *http2Framer) WriteHeaders(p HeadersFrameParam) error: also of servers, and of trailers,
 * which nobody has announced. */
SEC("uprobe.multi")
int net_http_client_h2_frame(struct pt_regs *ctx)
{
	return h2_frame(ctx, 0);
}

SEC("uprobe.multi")
int net_http_client_xnet_h2_frame(struct pt_regs *ctx)
{
	return h2_frame(ctx, 1);
}
