/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * go_type.bpf.h - what the value behind an interface is, by the name of its Go type:
 * "*net.OpError". Costs three reads.
 *
 * Source: internal/abi/{iface,type}.go (itab, Type, Name). */
#pragma once
#include "go.h"

#define GO_TYPE_NAME_MAX 64

struct go_type_name {
	struct go_str text;            /* where it lies in the process; len 0: not to be had */
	__u64 w[GO_TYPE_NAME_MAX / 8]; /* its first bytes, then zeros */
};

#define TYPE_SIZE        48
#define TYPE_TFLAG       20
#define TYPE_STR         40
#define TFLAG_EXTRA_STAR 2

/* itab: the first word of an interface that has methods. 0, or -1. */
GO_APART int go_type_name(struct go_type_name *n, const struct go_slot *s, __u64 itab)
{
	__u64 type, t[TYPE_SIZE / 8], star;
	__u8 head[2]; /* flags, length as a varint */

	if (!n || !s)
		return -1;
	__builtin_memset(n, 0, sizeof(*n));
	if (!s->types || !itab || go_read(&type, 8, itab + 8) || go_read(t, sizeof(t), type))
		return -1;
	n->text.ptr = s->types + (__u32)t[TYPE_STR / 8];
	if (go_read(head, 2, n->text.ptr) || !head[1] || head[1] >= 0x80)
		return -1;
	star = t[TYPE_TFLAG / 8] >> 8 * (TYPE_TFLAG % 8) & TFLAG_EXTRA_STAR ? 1 : 0;
	n->text.ptr += 2 + star;
	n->text.len = head[1] - star;
	return go_read(n->w, cap(n->text.len, GO_TYPE_NAME_MAX), n->text.ptr);
}

#define GO_TEXT8(a, b, c, d, e, f, g, h)                                                           \
	((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 |   \
	 (__u64)(f) << 40 | (__u64)(g) << 48 | (__u64)(h) << 56)

/* Whether the name is the one whose first 24 bytes these are, n bytes long (at most 24). */
static __always_inline int go_type_is(const struct go_type_name *t, __u64 n, __u64 a, __u64 b,
				      __u64 c)
{
	return t->text.len == n && t->w[0] == a && t->w[1] == b && t->w[2] == c;
}
