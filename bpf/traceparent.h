/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * traceparent.h - the traceparent header of W3C Trace Context, eight digits at a time. Pure, so
 * that a unit test can try it. */
#pragma once
#include "event.h"

/* Functions that are neither static nor inlined are looked at by the verifier once, for themselves,
 * and not again for each way that leads to them; they see what their pointers point to by its type.
 * Each has its own stack frame: the 512 bytes are for the whole chain. */
#ifdef __bpf__
#define GO_APART __attribute__((noinline))
#else
#define GO_APART static inline
#endif

/* 8 lower-case hex digits -> 4 bytes in the same order, in the lower half; bits in the upper half
 * say that they were none. Apart, or the compiler makes vectors of several calls and a frame of 270
 * bytes. */
GO_APART __u64 unhex8(__u64 x)
{
	const __u64 one = 0x0101010101010101ULL;
	__u64 alpha = (x >> 6) & one;
	__u64 nib = (x & 0x0f * one) + alpha * 9;
	__u64 bad = (((nib + 6 * one) >> 4 & one) ^ alpha) | (nib & 0xf0 * one) |
		    ((nib + 0x30 * one + alpha * 0x27) ^ x);

	nib = (nib << 4 | nib >> 8) & 0x00ff00ff00ff00ffULL;
	nib = (nib | nib >> 8) & 0x0000ffff0000ffffULL;
	return (__u32)(nib | nib >> 16) | (bad ? 1ULL << 32 : 0);
}

/* 16 digits, 8 bytes. */
static inline __attribute__((always_inline)) __u64 unhex16(__u64 a, __u64 b, __u64 *bad)
{
	__u64 low = unhex8(a), high = unhex8(b);

	*bad |= (low | high) >> 32;
	return (__u32)low | high << 32;
}

/* c holds the header's value from byte 5 on, so that the trace id lies in c[1] to c[4]: 55 bytes of
 * it, and one more if it is longer (len >= 55). Sets trace_id, parent_id, EVENT_REMOTE and
 * EVENT_SAMPLED, or returns -1 and touches nothing. Little-endian. */
static inline __attribute__((always_inline)) int traceparent_parse(struct event *ev,
								   const __u64 c[8], __u64 len)
{
	__u64 parent0 = c[5] >> 8 | c[6] << 56, parent1 = c[6] >> 8 | c[7] << 56;
	__u64 bad, trace0, trace1, parent, last;

	/* "00-" before, '-' around the parent id; then two digits of version and of flags are eight
	 * with these. */
	if (c[0] >> 56 != '-' || (c[5] & 0xff) != '-' || (c[7] >> 8 & 0xff) != '-')
		return -1;
	last = unhex8((c[0] >> 40 & 0xffff) << 32 | (c[7] >> 16 & 0xffff) << 48 | 0x30303030);
	bad = last >> 32;
	trace0 = unhex16(c[1], c[2], &bad);
	trace1 = unhex16(c[3], c[4], &bad);
	parent = unhex16(parent0, parent1, &bad);
	if (bad || (last >> 16 & 0xff) == 0xff || !(trace0 | trace1) || !parent)
		return -1;
	if (len != 55 && ((last >> 16 & 0xff) == 0 || (c[7] >> 32 & 0xff) != '-'))
		return -1;
	*(__u64 *)ev->trace_id = trace0;
	*(__u64 *)(ev->trace_id + 8) = trace1;
	*(__u64 *)ev->parent_id = parent;
	ev->flags |= EVENT_REMOTE | (last >> 24 & 1 ? EVENT_SAMPLED : 0);
	return 0;
}
