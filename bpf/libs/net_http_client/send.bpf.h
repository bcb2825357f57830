/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * send.bpf.h - outbound trace context of HTTP/1: once an attempt, on the goroutine of the call,
 * when its connection is known and nothing of it is written yet. A part of net_http_client.bpf.c.
 */
#pragma once
#include "go_write.bpf.h"
#include "peer.bpf.h"

/* By which way the request's headers may be reached. */
#define SEND_NOT    0 /* counted */
#define SEND_SOCKET 1 /* k names it */
#define SEND_BUFFER                                                                                \
	2 /* of the *persistConn: TLS, a connection of the program's own making, or                \
	   * where sockets are not watched */

GO_APART int send_way(struct scratch *b, const struct go_slot *s, struct propagate_key *k, __u64 pc)
{
	const struct go_socket_fields at = { s ? s->at[F_FD_LADDR] : 0, s ? s->at[F_FD_RADDR] : 0,
					     s ? s->at[F_ADDR_IP] : 0, s ? s->at[F_ADDR_PORT] : 0 };
	__u64 conn[2], fd, fields;

	if (!b || !s || !k)
		return SEND_NOT;
	if (go_read(conn, sizeof(conn), pc + s->at[F_PCONN_CONN]) ||
	    go_type_name(&b->name, s, conn[0])) {
		count(propagation_unreadable);
		return SEND_NOT;
	}
	if (!is_tcp_conn(&b->name) || !(s->parts & NET_HTTP_CLIENT_PART_SOCKET)) {
		if (s->parts & NET_HTTP_CLIENT_PART_BUFFER)
			return SEND_BUFFER;
		if (is_tls_conn(&b->name))
			count(propagation_tls);
		else
			count(propagation_connection);
		return SEND_NOT;
	}
	__builtin_memcpy(&fields, &at, sizeof(fields));
	if (go_read(&fd, 8, conn[1]) || go_socket(k, fd, fields)) { /* TCPConn{conn{fd}} */
		count(propagation_unreadable);
		return SEND_NOT;
	}
	return SEND_SOCKET;
}

/* Whether the request has a traceparent of the program's own, in whatever case. 1, 0, or -1: it
 * cannot be told. */
GO_APART int send_is_own(struct scratch *b, const struct go_slot *s, __u64 header)
{
	struct header_walk w = {};

	if (!b || !s)
		return -1;
	header_want_own(&b->found, s);
	w.found = &b->found;
	w.slot = s;
	w.buf = &b->group;
	if (header_find(&w, header))
		return -1;
	return b->found.parent.ptr ? 1 : b->found.unread ? -1 : 0;
}

/* The request begins on that connection; what was announced there before was not written. */
static __always_inline int send_buffer(const struct go_slot *s, struct op_key *k, __u64 pc)
{
	if (go_read(&k->id, 8, pc + s->at[F_PCONN_BW]) || !k->id) {
		count(propagation_unreadable);
		return -1;
	}
	if (!bpf_map_delete_elem(&writes, k))
		count(propagation_not_sent);
	return 0;
}

/* Whether ids may go out with the request whose header map that is; counted if not. */
static __always_inline int send_may(struct scratch *b, const struct go_slot *s, const struct op *op,
				    __u64 goid, __u64 header)
{
	int own;

	if (!op || !op->active || op->bits & NET_HTTP_CLIENT_EXPORTS || op->ev.goid != goid) {
		count(propagation_no_span);
		return 0;
	}
	own = send_is_own(b, s, header);
	if (own > 0)
		count(propagation_own);
	else if (own < 0)
		count(propagation_unreadable);
	return !own;
}

static __always_inline void send_in(struct pt_regs *ctx, const struct go_slot *s, struct cookie c,
				    struct scratch *b)
{
	struct propagate_key k = { .slot = c.slot, .generation = c.generation };
	struct op_key bk = write_key(c.slot, WRITE_BUFFER, 0);
	struct op_key ok = go_op_key(ctx, &c);
	const struct op *op = bpf_map_lookup_elem(&net_http_client_ops, &ok);
	int way = send_way(b, s, &k, GO_P1(ctx));
	__u64 req, header;
	struct go_str method;

	if (way == SEND_NOT || (way == SEND_BUFFER && send_buffer(s, &bk, GO_P1(ctx))))
		return;
	if (way == SEND_SOCKET)
		go_propagate_nothing(&k);
	if (go_read(&req, 8, GO_P2(ctx) + s->at[F_TREQ_REQUEST]) ||
	    go_read(&header, 8, req + s->at[F_REQ_HEADER]) ||
	    go_read(&method, sizeof(method), req + s->at[F_REQ_METHOD])) {
		count(propagation_unreadable);
		return;
	}
	if (!send_may(b, s, op, go_goid(ctx, s), header))
		return;
	if (way == SEND_SOCKET) {
		go_propagate(&k, &op->ev, method.ptr, method.len);
	} else {
		write_ids_of(&b->ids, &op->ev, GO_P1(ctx));
		write_put(&bk, &b->ids);
	}
}

/* func (pc *persistConn) roundTrip(req *transportRequest) (resp *Response, err error) */
SEC("uprobe.multi")
int net_http_client_send(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct scratch *b;

	if (!s)
		return 0;
	b = net_http_client_scratch_take();
	if (!b)
		return 0;
	send_in(ctx, s, c, b);
	net_http_client_scratch_put(b);
	return 0;
}
