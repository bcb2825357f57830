/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * traceparent_text.h - the traceparent header as it is put onto the wire: a line of HTTP/1, a field
 * of HPACK (RFC 7541). Pure, so that a unit test can try it. */
#pragma once
#include <linux/types.h>

#define TRACEPARENT_VALUE 55
#define TRACEPARENT_LINE  70 /* "traceparent: 00-<32>-<16>-01\r\n" */
/* A literal without indexing (6.2.2): neither side's table changes, so the field may be put behind
 * those that an encoder has written. 0x00, length and name, length and value, no Huffman code. */
#define TRACEPARENT_FIELD 69

/* Room for either. */
struct traceparent_text {
	char bytes[72] __attribute__((aligned(8)));
};

static inline __attribute__((always_inline)) char traceparent_digit(__u8 n)
{
	return n < 10 ? '0' + n : 'a' - 10 + n;
}

static inline __attribute__((always_inline)) void traceparent_hex(char *to, const __u8 *bytes,
								  int n)
{
	for (int i = 0; i < n; i++) {
		to[2 * i] = traceparent_digit(bytes[i] >> 4);
		to[2 * i + 1] = traceparent_digit(bytes[i] & 15);
	}
}

/* TRACEPARENT_VALUE bytes. */
static inline __attribute__((always_inline)) void
traceparent_value(char *to, const __u8 trace_id[16], const __u8 span_id[8], __u32 sampled)
{
	to[0] = to[1] = '0';
	to[2] = '-';
	traceparent_hex(to + 3, trace_id, 16);
	to[35] = '-';
	traceparent_hex(to + 36, span_id, 8);
	to[52] = '-';
	to[53] = '0';
	to[54] = sampled ? '1' : '0';
}

static inline __attribute__((always_inline)) void traceparent_line(struct traceparent_text *t,
								   const __u8 trace_id[16],
								   const __u8 span_id[8],
								   __u32 sampled)
{
	__builtin_memcpy(t->bytes, "traceparent: ", 13);
	traceparent_value(t->bytes + 13, trace_id, span_id, sampled);
	t->bytes[68] = '\r';
	t->bytes[69] = '\n';
}

static inline __attribute__((always_inline)) void traceparent_field(struct traceparent_text *t,
								    const __u8 trace_id[16],
								    const __u8 span_id[8],
								    __u32 sampled)
{
	t->bytes[0] = 0;
	t->bytes[1] = 11;
	__builtin_memcpy(t->bytes + 2, "traceparent", 11);
	t->bytes[13] = TRACEPARENT_VALUE;
	traceparent_value(t->bytes + 14, trace_id, span_id, sampled);
}
