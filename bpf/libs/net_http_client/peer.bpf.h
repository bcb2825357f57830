/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * peer.bpf.h - who is at the other end of the connection that an answer came on, from the answer
 * alone: its body knows the connection. Whatever is followed is held to be what it should be only
 * when something shows it. Without a body there is no way. A part of net_http_client.bpf.c.
 *
 * Sources: net/http/transport.go (bodyEOFSignal, gzipReader, readLoop), h2_bundle.go
 * (transportResponseBody), crypto/tls/conn.go, net/fd_unix.go. */
#pragma once
#include "go_propagate.bpf.h"

static __always_inline int is_tcp_conn(const struct go_type_name *t)
{
	return go_type_is(t, 12, GO_TEXT8('*', 'n', 'e', 't', '.', 'T', 'C', 'P'),
			  GO_TEXT8('C', 'o', 'n', 'n', 0, 0, 0, 0), 0);
}

static __always_inline int is_tls_conn(const struct go_type_name *t)
{
	return go_type_is(t, 9, GO_TEXT8('*', 't', 'l', 's', '.', 'C', 'o', 'n'),
			  GO_TEXT8('n', 0, 0, 0, 0, 0, 0, 0), 0);
}

/* net/http's own HTTP/2 up to Go 1.26; since, and golang.org/x/net's. */
static __always_inline int is_h2_body(const struct go_type_name *t)
{
	return go_type_is(t, 31, GO_TEXT8('h', 't', 't', 'p', '.', 'h', 't', 't'),
			  GO_TEXT8('p', '2', 't', 'r', 'a', 'n', 's', 'p'),
			  GO_TEXT8('o', 'r', 't', 'R', 'e', 's', 'p', 'o')) ||
	       go_type_is(t, 27, GO_TEXT8('h', 't', 't', 'p', '2', '.', 't', 'r'),
			  GO_TEXT8('a', 'n', 's', 'p', 'o', 'r', 't', 'R'),
			  GO_TEXT8('e', 's', 'p', 'o', 'n', 's', 'e', 'B'));
}

#define CLOSURE_WORDS 5 /* the function, what it uses: two channels, the *persistConn */

/* The net.Conn of the connection of that *bodyEOFSignal, which its `fn` uses: the word that is a
 * persistConn of this Transport. 0, or -1. */
GO_APART int h1_conn(struct go_str *conn, const struct go_slot *s, __u64 body, __u64 transport)
{
	__u64 words[CLOSURE_WORDS], t, fn;

	if (!conn || !s || !transport || go_read(&fn, 8, body + s->at[F_BODY_FN]) || !fn ||
	    go_read(words, sizeof(words), fn))
		return -1;
#pragma clang loop unroll(disable)
	for (__u32 i = 1; i < CLOSURE_WORDS; i++) {
		__u64 pc = words[i];

		if (pc && !go_read(&t, 8, pc + s->at[F_PCONN_T]) && t == transport)
			return go_read(conn, sizeof(*conn), pc + s->at[F_PCONN_CONN]);
	}
	return -1;
}

static __always_inline int has_h2_body(struct scratch *b, const struct go_slot *s, __u64 itab)
{
	return !go_type_name(&b->name, s, itab) && is_h2_body(&b->name);
}

/* The same of HTTP/2: the body is {*clientStream}, or a gzipReader {io.ReadCloser, ...} on one. */
GO_APART int h2_conn(struct scratch *b, const struct go_slot *s, struct go_str *conn, __u64 itab,
		     __u64 data)
{
	struct go_str body = { itab, data };
	__u64 cc;

	if (!b || !s || !conn || s->at[F_PEER_CC] == GO_ABSENT || s->at[F_PEER_CONN] == GO_ABSENT)
		return -1;
	if (!has_h2_body(b, s, itab) &&
	    (go_read(&body, sizeof(body), data) || !has_h2_body(b, s, body.ptr)))
		return -1;
	if (go_read(&cc, 8, body.len + s->at[F_PEER_CC]))
		return -1;
	return go_read(conn, sizeof(*conn), cc + s->at[F_PEER_CONN]);
}

static __always_inline int answer_conn(struct scratch *b, const struct go_slot *s,
				       struct go_str *conn, __u64 response, __u64 transport)
{
	struct go_str body;
	__u64 inner;

	if (go_read(&body, sizeof(body), response + s->at[F_RESP_BODY]) || !body.len)
		return -1;
	if (b->rec.version == 20)
		return h2_conn(b, s, conn, body.ptr, body.len);
	if (!h1_conn(conn, s, body.len, transport))
		return 0;
	/* gzipReader {*bodyEOFSignal, ...} */
	return go_read(&inner, 8, body.len) ? -1 : h1_conn(conn, s, inner, transport);
}

/* The address of the peer, behind the `at` bytes that stand in b->data. How many bytes. */
GO_APART int put_peer(struct scratch *b, const struct go_slot *s, __u64 at, __u64 response,
		      __u64 transport)
{
	struct go_str conn, addr;
	__u64 fd, port;

	if (!b || !s || at > NET_HTTP_CLIENT_DATA_MAX - NET_HTTP_CLIENT_PEER_MAX ||
	    !(s->parts & NET_HTTP_CLIENT_PART_PEER) ||
	    answer_conn(b, s, &conn, response, transport) || go_type_name(&b->name, s, conn.ptr))
		return 0;
	if (is_tls_conn(&b->name) && (s->at[F_TLS_CONN] == GO_ABSENT ||
				      go_read(&conn, sizeof(conn), conn.len + s->at[F_TLS_CONN]) ||
				      go_type_name(&b->name, s, conn.ptr)))
		return 0;
	if (!is_tcp_conn(&b->name) || go_read(&fd, 8, conn.len) ||
	    go_read(&addr, sizeof(addr), fd + s->at[F_FD_RADDR]) || !addr.len ||
	    go_read(&port, 8, addr.len + s->at[F_ADDR_PORT]) ||
	    go_read(&addr, sizeof(addr), addr.len + s->at[F_ADDR_IP]) ||
	    (addr.len != 4 && addr.len != 16) ||
	    go_read(b->data + at, addr.len == 4 ? 4 : 16, addr.ptr))
		return 0;
	b->rec.peer_port = port;
	return b->rec.peer_len = addr.len;
}
