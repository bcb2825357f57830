/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * go_propagate.bpf.h - how a library hands over what is to be put onto the wire: a connection of
 * the traced program, and the ids. Costs six reads and one hash insert.
 *
 * Sources: net/{fd_unix,tcpsock,ip}.go (netFD, TCPAddr, IP). */
#pragma once
#include "go.h"
#include "propagate.h"

/* propagate.bpf.c's, which the agent puts in the place of this one where propagation is on. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct propagate_key);
	__type(value, struct propagate_pending);
} pending SEC(".maps");

/* Offsets that name a connection: net.netFD's laddr and raddr, net.TCPAddr's IP and Port. */
struct go_socket_fields {
	__u16 laddr, raddr, ip, port;
};

/* The *TCPAddr at `addr`: four words of address as the kernel has them, and the port. The family,
 * or 0: it is none. */
static __always_inline __u32 go_tcp_addr(__u32 ip[4], __u64 *port,
					 const struct go_socket_fields *at, __u64 addr)
{
	struct go_str s;

	if (!addr || go_read(&s, sizeof(s), addr + at->ip) || go_read(port, 8, addr + at->port) ||
	    *port - 1 >= 65535)
		return 0;
	if (s.len == 4)
		return go_read(ip, 4, s.ptr) ? 0 : PROPAGATE_IPV4;
	if (s.len != 16 || go_read(ip, 16, s.ptr))
		return 0;
	if (ip[0] || ip[1] || ip[2] != __builtin_bswap32(0xffff))
		return PROPAGATE_IPV6;
	ip[0] = ip[3]; /* ::ffff:a.b.c.d */
	ip[2] = ip[3] = 0;
	return PROPAGATE_IPV4;
}

/* Names the socket of the *netFD at `fd`. 0, or -1: not to be read, or no TCP. Apart, for its own
 * frame. */
GO_APART int go_socket(struct propagate_key *k, __u64 fd, __u64 fields)
{
	struct go_socket_fields at;
	__u64 laddr[2], raddr[2], lport, rport;

	if (!k)
		return -1;
	__builtin_memcpy(&at, &fields, sizeof(at));
	if (go_read(laddr, sizeof(laddr), fd + at.laddr) ||
	    go_read(raddr, sizeof(raddr), fd + at.raddr))
		return -1;
	k->family = go_tcp_addr(k->local, &lport, &at, laddr[1]);
	if (!k->family || go_tcp_addr(k->remote, &rport, &at, raddr[1]) != k->family)
		return -1;
	k->ports = lport << 16 | rport;
	return 0;
}

/* A request begins on that connection; what was announced there before was not written. */
static __always_inline void go_propagate_nothing(const struct propagate_key *k)
{
	if (!bpf_map_delete_elem(&pending, k))
		count(propagation_not_sent);
}

/* Announces that a request with this method ("": GET) is about to be written on that connection,
 * and that ev's span is to be its receiver's parent. After go_propagate_nothing(). */
GO_APART int go_propagate(const struct propagate_key *k, const struct event *ev, __u64 method,
			  __u64 method_len)
{
	struct propagate_pending p = { .active = 1 };

	if (!k || !ev)
		return -1;
	p.at_ns = bpf_ktime_get_ns();
	p.ports = k->ports;
	p.sampled = ev->flags & EVENT_SAMPLED ? 1 : 0;
	__builtin_memcpy(p.trace_id, ev->trace_id, sizeof(p.trace_id));
	__builtin_memcpy(p.span_id, ev->span_id, sizeof(p.span_id));
	p.method_len = cap(method_len, sizeof(p.method));
	if (!method_len) {
		__builtin_memcpy(p.method, "GET", 3);
		p.method_len = 3;
	} else if (go_read(p.method, p.method_len, method)) {
		count(propagation_unreadable);
		return -1;
	}
	p.seal = propagate_seal(&p);
	if (bpf_map_update_elem(&pending, k, &p, BPF_ANY)) {
		count(propagation_no_room);
		return -1;
	}
	return 0;
}
