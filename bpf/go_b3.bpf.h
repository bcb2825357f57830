/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * go_b3.bpf.h - B3 headers of a request in the memory of the traced process: from header maps, or
 * as a library has them. */
#pragma once
#include "b3.h"
#include "go.h"

/* The values of the headers b3, X-B3-TraceId, -SpanId, -Sampled and -Flags; ptr 0: not there. */
struct b3_values {
	struct go_str single, trace, span, sampled, flags;
};

/* "TRACE-SPAN-STATE", also the state alone. */
static __always_inline int b3_one(struct event *ev, __u64 *c, struct go_str text)
{
	int shift = b3_shift(text.len);
	__u8 letter = 0;

	if (text.len == 1)
		return go_read(&letter, 1, text.ptr) ? B3_BAD : b3_state(letter);
	if (shift < 0)
		return B3_BAD;
	if (shift ? go_read(c + 2, cap(text.len, B3_PARENT - B3_SHORT), text.ptr)
		  : go_read(c, cap(text.len, B3_PARENT), text.ptr))
		return B3_BAD;
	return b3_parse(ev, c, text.len + shift);
}

/* The letter of X-B3-Sampled and X-B3-Flags; 0: neither is there. B3_BAD. */
static __always_inline int b3_letter_of(const struct b3_values *v)
{
	__u64 text = 0;
	__u8 letter;

	if (v->flags.ptr && v->flags.len == 1 && !go_read(&text, 1, v->flags.ptr) && text == '1')
		return 'd';
	if (!v->sampled.ptr)
		return 0;
	text = 0;
	if (go_read(&text, cap(v->sampled.len, 8), v->sampled.ptr))
		return B3_BAD;
	letter = b3_letter(text, v->sampled.len);
	return letter ? letter : B3_BAD;
}

/* The four headers, laid out as the one. */
static __always_inline int b3_many(struct event *ev, __u64 *c, const struct b3_values *v)
{
	int letter = b3_letter_of(v);

	if (letter < 0)
		return B3_BAD;
	if (!v->trace.ptr && !v->span.ptr)
		return letter ? b3_state(letter) : B3_NONE;
	if (v->span.len != 16 || go_read((char *)c + 33, 16, v->span.ptr))
		return B3_BAD;
	if (v->trace.len == 32 ? go_read(c, 32, v->trace.ptr)
			       : v->trace.len != 16 || go_read(c + 2, 16, v->trace.ptr))
		return B3_BAD;
	c[4] = (c[4] & ~0xffULL) | '-';
	if (letter)
		c[6] = (c[6] & 0xff) | '-' << 8 | (__u64)letter << 16;
	return b3_parse(ev, c, letter ? B3_STATE : B3_IDS);
}

/* Takes the ids of B3 headers over, where they are well-formed; else EVENT_BAD_TP. B3_*, for
 * go_b3_decide(); B3_NONE also for malformed ones. */
GO_APART int go_b3(struct event *ev, struct b3_values *v)
{
	__u64 c[B3_WORDS] = { B3_ZEROS, B3_ZEROS };
	int state;

	if (!ev || !v)
		return B3_NONE;
	state = v->single.ptr ? b3_one(ev, c, v->single) : b3_many(ev, c, v);
	if (state != B3_BAD)
		return state;
	ev->flags |= EVENT_BAD_TP;
	return B3_NONE;
}

/* The same where the values are []string in a header map. Of a header that came twice, none counts:
 * its text is empty then, which is malformed. */
GO_APART int go_b3_headers(struct event *ev, struct b3_values *v)
{
	struct go_str *list = (struct go_str *)v;

	if (!ev || !v)
		return B3_NONE;
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < sizeof(*v) / sizeof(*list); i++) {
		struct go_str text;

		if (!list[i].ptr)
			continue;
		if (list[i].len != 1 || go_read(&text, sizeof(text), list[i].ptr) || !text.ptr) {
			text.ptr = list[i].ptr;
			text.len = 0;
		}
		list[i] = text;
	}
	return go_b3(ev, v);
}

/* The sampling decision, after go_identify(): as the sender decided, if parents are heeded, also
 * where it sent no ids; ours, where it left that to us. */
static __always_inline void go_b3_decide(struct event *ev, const struct go_slot *s, int state)
{
	if (s->sample_inbound != SAMPLE_LIKE_PARENT)
		return;
	if (state == B3_DEFER)
		go_sample(ev, s);
	else if (state == B3_DENY)
		ev->flags &= ~EVENT_SAMPLED;
	else if (state == B3_TAKE)
		ev->flags |= EVENT_SAMPLED;
}
