/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * own.bpf.h - ids that the program itself puts onto the wire with a call. */
#pragma once
#include "parent.bpf.h"

#define EEXIST 17

/* Span ids that calls have had from the program, key {slot, span id}. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct op_key);
	__type(value, __u32);
} own_ids SEC(".maps");

/* Whether that span is the caller of what goroutine ev->goid serves, whatever lies between that and
 * ev: spans of an SDK, another call, a trace of the program's own. */
static __always_inline int is_callers(const struct event *ev, __u64 span)
{
	const struct live *l = live_of(ev->cookie.slot, ev->goid);

	return l && l->outer.active & LIVE_KIND && id_of(l->outer.parent_id) == span;
}

/* Whether a call has had that id already: a redirect and whoever sends a request again send the
 * same header. Two spans of one id would be wrong, so the later one has an id of ours. */
static __always_inline int is_known(const struct event *ev, __u64 span)
{
	struct op_key k = { .slot = ev->cookie.slot, .id = span };
	__u32 one = 1;

	return bpf_map_update_elem(&own_ids, &k, &one, BPF_NOEXIST) == -EEXIST;
}

static __always_inline int is_trace(const struct event *a, const struct event *b)
{
	return id_of(a->trace_id) == id_of(b->trace_id) &&
	       id_of(a->trace_id + 8) == id_of(b->trace_id + 8);
}

/* Whether that span may be somebody else's: a request came with it lately (and it is none of a call
 * that we have seen, as where a program calls itself), or requests come that nobody sees. */
static __always_inline int is_anothers(const struct event *ev, const struct go_slot *s, __u64 span)
{
	struct op_key k = { .slot = ev->cookie.slot, .id = span };

	if (bpf_map_lookup_elem(&own_ids, &k))
		return 0;
	return s->options & GO_OPTION_BLIND || inbound_has(&ev->cookie, span);
}

/* The program puts ids of its own (`own`: trace, its span as the parent, flags) onto the wire with
 * the call that ev is about to be, after go_parent() and go_identify(): they are those of the span.
 * They are not its own if they are its parent's, or that one's parent's, or those that a request
 * came with: a proxy hands on the header that it got, and whose span that is, is not for us to say.
 * True: such a call has no span.
 */
static __always_inline int go_take_own(struct event *ev, const struct event *own,
				       const struct go_slot *s)
{
	__u64 span = id_of(own->parent_id);
	int known = 0;

	if (is_callers(ev, span)) {
		count(ops_forwarded);
		return 1;
	}
	if (ev->flags & EVENT_LOCAL && is_trace(ev, own)) {
		if (ev->sdk & SDK_PARENT && span == id_of(ev->parent_id))
			return 0; /* the SDK's own: ours lies below its span */
		if (span == id_of(ev->parent_id) || span == ev->end_ns) {
			count(ops_forwarded);
			return 1;
		}
	}
	if (is_anothers(ev, s, span)) {
		count(ops_forwarded);
		return 1;
	}
	if (ev->flags & EVENT_LOCAL && is_trace(ev, own)) {
		if (is_known(ev, span))
			return 0;
	} else { /* a trace that the program has begun */
		known = is_known(ev, span);
		set_u64(ev->trace_id, id_of(own->trace_id));
		set_u64(ev->trace_id + 8, id_of(own->trace_id + 8));
		set_u64(ev->parent_id, known ? span : 0);
		ev->flags &= ~(EVENT_LOCAL | EVENT_STARTED);
		ev->flags |= known ? EVENT_LOCAL : 0;
		ev->sdk = 0;
	}
	if (!known)
		set_u64(ev->span_id, span);
	ev->flags &= ~EVENT_SAMPLED;
	if (s->sample_inbound == SAMPLE_LIKE_PARENT)
		ev->flags |= own->flags & EVENT_SAMPLED;
	else
		go_sample(ev, s);
	return 0;
}
