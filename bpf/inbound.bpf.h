/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * inbound.bpf.h - span ids that requests came with lately: who sends one of them on sends somebody
 * else's. Costs one store into an array. */
#pragma once
#include "live.h"

/* That span of that process as the map has it. */
static __always_inline __u64 inbound_word(const struct cookie *c, __u64 span)
{
	return span ^ ((__u64)c->generation << 16 | c->slot) * 0x9e3779b97f4a7c15ULL;
}

static __always_inline __u64 *inbound_place(__u64 word)
{
	__u32 at = word * 0x9e3779b97f4a7c15ULL >> (64 - INBOUND_BITS);

	return bpf_map_lookup_elem(&inbound, &at);
}

static __always_inline void inbound_note(const struct cookie *c, __u64 span)
{
	__u64 word = inbound_word(c, span), *at = inbound_place(word);

	if (at)
		*at = word;
}

/* Whether a request came to this process with that span id lately. */
static __always_inline int inbound_has(const struct cookie *c, __u64 span)
{
	__u64 word = inbound_word(c, span), *at = inbound_place(word);

	return at && *at == word;
}
