/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * propagate.h - what a library hands over to the programs that put a traceparent onto the wire, and
 * what both sides know of it. Sockets and bytes only: nothing here knows a library. */
#pragma once
#include <linux/types.h>

#include "traceparent_text.h"

/* A connection as the traced process sees it: slot and generation name the process, so 127.0.0.1 of
 * one pod is not that of another. Also the key of a hash map that begins with the slot: its entries
 * go with the process. */
struct propagate_key {
	__u32 slot, generation;
	__u32 ports;    /* local << 16 | remote, host order */
	__u32 family;   /* PROPAGATE_IPV4, PROPAGATE_IPV6 */
	__u32 local[4]; /* network order; IPv4 in [0], also where it is mapped into IPv6 */
	__u32 remote[4];
};

#define PROPAGATE_IPV4 4
#define PROPAGATE_IPV6 6

/* A request that is about to be written on that connection. */
struct propagate_pending {
	__u32 active;  /* 1 */
	__u32 sampled; /* the decision, 0 or 1 */
	__u64 at_ns;   /* CLOCK_MONOTONIC */
	__u8 trace_id[16];
	__u8 span_id[8];
	__u8 method[8];   /* the first bytes of the request, zero-padded */
	__u32 method_len; /* 1 to 8 */
	__u32 ports;      /* of the key once more, and */
	__u64 seal;       /* propagate_seal(): what is copied while the memory is reused is seen */
};

/* Of a socket in the map: whose it is, since when its writes are seen, and whom the program
 * believes to speak with, which is another one than the socket's where a service's address is
 * translated in connect(2) and back in getpeername(2). */
struct propagate_socket {
	__u32 slot, generation;
	__u64 since_ns;    /* CLOCK_MONOTONIC; a request that was pending before has begun unseen */
	__u32 peer_family; /* as in the key; 0: the socket's */
	__u32 peer_port;   /* host order */
	__u32 peer[4];     /* as in the key */
};

#define PROPAGATE_LINE TRACEPARENT_LINE

static inline __attribute__((always_inline)) __u64 propagate_seal(const struct propagate_pending *p)
{
	const __u64 *trace = (const __u64 *)p->trace_id, *span = (const __u64 *)p->span_id,
		    *method = (const __u64 *)p->method;

	return (trace[0] * 3 + trace[1] * 5 + span[0] * 7 + method[0] * 11) ^ p->at_ns ^
	       ((__u64)p->ports << 32 | p->sampled << 8 | p->method_len);
}

_Static_assert(sizeof(struct propagate_key) == 48, "wire layout changed");
_Static_assert(sizeof(struct propagate_pending) == 64, "wire layout changed");
_Static_assert(sizeof(struct propagate_socket) == 40, "wire layout changed");
