#include "bpf/traceparent.h"
#include "bpf/traceparent_text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const char good[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

static struct event ev;

/* As the probe does it: at most 56 bytes of the value. */
static int parse(const char *text)
{
	__u64 c[8] = { 0 };
	size_t n = strlen(text);

	memset(&ev, 0, sizeof(ev));
	if (n < 55)
		return -1;
	memcpy((char *)c + 5, text, n > 56 ? 56 : n);
	return traceparent_parse(&ev, c, n);
}

Test(traceparent, a_valid_header_gives_its_ids_in_their_order)
{
	static const unsigned char trace[16] = { 0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd,
						 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c };
	static const unsigned char parent[8] = { 0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31 };

	cr_assert_eq(parse(good), 0);
	cr_assert(memcmp(ev.trace_id, trace, sizeof(trace)) == 0);
	cr_assert(memcmp(ev.parent_id, parent, sizeof(parent)) == 0);
	cr_assert_eq(ev.flags, EVENT_REMOTE | EVENT_SAMPLED);
}

Test(traceparent, only_the_lowest_bit_of_the_flags_says_sampled)
{
	char text[sizeof(good) + 1];

	for (unsigned flags = 0; flags < 256; flags++) {
		(void)snprintf(text, sizeof(text), "%.53s%02x", good, flags);
		cr_assert_eq(parse(text), 0);
		cr_assert_eq(ev.flags, EVENT_REMOTE | (flags & 1 ? EVENT_SAMPLED : 0), "%02x",
			     flags);
	}
}

Test(traceparent, any_other_byte_at_any_place_is_refused)
{
	char text[sizeof(good)];

	for (size_t at = 0; at < 55; at++) {
		int dash = at == 2 || at == 35 || at == 52;

		for (int c = 1; c < 256; c++) {
			int hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');

			memcpy(text, good, sizeof(good));
			text[at] = (char)c;
			/* Another version than 00 is fine: it is not ff. */
			cr_assert_eq(parse(text) == 0, dash ? c == '-' : hex, "byte %02x at %zu", c,
				     at);
		}
	}
}

Test(traceparent, version_ff_and_zero_ids_are_refused)
{
	cr_assert_eq(parse("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), -1);
	cr_assert_eq(parse("fe-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), 0);
	cr_assert_eq(parse("00-00000000000000000000000000000000-b7ad6b7169203331-01"), -1);
	cr_assert_eq(parse("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"), -1);
	cr_assert_eq(parse("00-00000000000000000000000000000001-0000000000000001-01"), 0);
	cr_assert_eq(parse("00-10000000000000000000000000000000-1000000000000000-01"), 0);
}

Test(traceparent, later_versions_may_go_on_after_a_dash_and_version_00_may_not)
{
	cr_assert_eq(parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-"), -1);
	cr_assert_eq(parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-010"), -1);
	cr_assert_eq(parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), 0);
	cr_assert_eq(parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"), 0);
	cr_assert_eq(parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.more"), -1);
	cr_assert_eq(parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-010"), -1);
}

Test(traceparent, what_is_refused_leaves_the_event_alone)
{
	static const struct event zero;

	cr_assert_eq(parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333g-01"), -1);
	cr_assert(memcmp(&ev, &zero, sizeof(ev)) == 0);
}

static const __u8 trace_id[16] = { 0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd,
				   0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c };
static const __u8 span_id[8] = { 0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31 };

Test(traceparent, a_line_of_http1_ends_as_lines_do)
{
	static const char want[] =
		"traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
	struct traceparent_text text = { 0 };

	traceparent_line(&text, trace_id, span_id, 1);
	cr_assert_eq(sizeof(want) - 1, TRACEPARENT_LINE);
	cr_assert_arr_eq(text.bytes, want, TRACEPARENT_LINE);
}

Test(traceparent, a_field_of_hpack_is_a_literal_that_changes_no_table)
{
	static const char want[] = "\0\x0btraceparent\x37"
				   "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
	struct traceparent_text text = { 0 };

	traceparent_field(&text, trace_id, span_id, 0);
	cr_assert_eq(sizeof(want) - 1, TRACEPARENT_FIELD);
	cr_assert_arr_eq(text.bytes, want, TRACEPARENT_FIELD);
}
