/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * foreign.bpf.h - spans of SDKs whose ids are none of ours: the request that such a span is about
 * is left to the SDK, with all that lies below it. */
#pragma once
#include "parent.bpf.h"

/* A span of a server's operation begins on the goroutine of g. The operation of ours that it serves
 * is that one, if it is in no call out. */
static __always_inline void foreign_serves(const struct go_slot *s, const struct cookie *c, __u64 g)
{
	struct live *l;
	__u64 goid;

	if (go_read(&goid, 8, g + s->at[GO_FIELD_G_GOID]))
		return;
	l = live_of(c->slot, goid);
	if (!l || !(l->outer.active & LIVE_KIND) || l->inner.active & LIVE_KIND || l->outer.covered)
		return;
	l->outer.flags &= ~EVENT_SAMPLED;
	l->outer.covered = COVERED_SDK;
}
