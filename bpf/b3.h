/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * b3.h - B3, the trace headers of Zipkin. Pure, so that a unit test can try it. One header
 * "b3: TRACE-SPAN[-STATE[-PARENT]]" or "b3: 0", and the older four, X-B3-TraceId, -SpanId, -Sampled
 * and -Flags, which the reader lays out as the one. */
#pragma once
#include "traceparent.h"

/* Bytes of a text with a trace id of 32 digits: "TRACE-SPAN", and what may follow. One of 16 digits
 * has 16 less. */
#define B3_IDS    49
#define B3_STATE  51
#define B3_PARENT 68
#define B3_SHORT  16

#define B3_WORDS 9 /* room for the longest */

#define B3_ZEROS 0x3030303030303030ULL

/* What a B3 header says of the sampling decision: the sender leaves it to us, or has made it. */
#define B3_BAD   -1
#define B3_NONE  0 /* there was no B3 header */
#define B3_DEFER 1
#define B3_DENY  2
#define B3_TAKE  3

static inline __attribute__((always_inline)) int b3_state(__u8 c)
{
	return c == '0' ? B3_DENY : c == '1' || c == 'd' ? B3_TAKE : B3_BAD; /* d: debug */
}

static inline __attribute__((always_inline)) int b3_is_length(__u64 len)
{
	return len == B3_IDS || len == B3_STATE || len == B3_PARENT;
}

/* Bytes from which on a text of that length is laid into the words: ids of 16 digits come behind
 * B3_ZEROS. -1: no text is that long. */
static inline __attribute__((always_inline)) int b3_shift(__u64 len)
{
	return b3_is_length(len) ? 0 : b3_is_length(len + B3_SHORT) ? B3_SHORT : -1;
}

/* c holds the text, len bytes of it with the zeros before it. Sets trace_id, parent_id and
 * EVENT_REMOTE, and EVENT_SAMPLED if the sender has decided so, and returns what it decided; or
 * returns B3_BAD and touches nothing. Little-endian. */
static inline __attribute__((always_inline)) int b3_parse(struct event *ev, const __u64 c[B3_WORDS],
							  __u64 len)
{
	__u64 bad = 0, trace0, trace1, parent;
	int state = B3_DEFER;

	if (!b3_is_length(len) || (c[4] & 0xff) != '-')
		return B3_BAD;
	trace0 = unhex16(c[0], c[1], &bad);
	trace1 = unhex16(c[2], c[3], &bad);
	parent = unhex16(c[4] >> 8 | c[5] << 56, c[5] >> 8 | c[6] << 56, &bad);
	if (len > B3_IDS) {
		if ((c[6] >> 8 & 0xff) != '-')
			return B3_BAD;
		state = b3_state(c[6] >> 16 & 0xff);
	}
	if (len > B3_STATE) { /* the parent's own parent: only that it is one */
		if ((c[6] >> 24 & 0xff) != '-')
			return B3_BAD;
		(void)unhex16(c[6] >> 32 | c[7] << 32, c[7] >> 32 | c[8] << 32, &bad);
	}
	if (bad || state == B3_BAD || !(trace0 | trace1) || !parent)
		return B3_BAD;
	*(__u64 *)ev->trace_id = trace0;
	*(__u64 *)(ev->trace_id + 8) = trace1;
	*(__u64 *)ev->parent_id = parent;
	ev->flags |= EVENT_REMOTE | (state == B3_TAKE ? EVENT_SAMPLED : 0);
	return state;
}

/* X-B3-Sampled as the state's letter, 0: it makes no sense. Early tracers wrote true and false. Its
 * text lies in `sampled`, len bytes of it. */
static inline __attribute__((always_inline)) __u8 b3_letter(__u64 sampled, __u64 len)
{
	if (len == 1 && (sampled == '0' || sampled == '1'))
		return (__u8)sampled;
	if (len == 4 && sampled == 0x65757274) /* "true" */
		return '1';
	if (len == 5 && sampled == 0x65736c6166) /* "false" */
		return '0';
	return 0;
}
