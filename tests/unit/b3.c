#include "bpf/b3.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define TRACE  "0af7651916cd43dd8448eb211c80319c"
#define SHORT  "8448eb211c80319c"
#define SPAN   "b7ad6b7169203331"
#define PARENT "05e3ac9a4f6e3b90"

static struct event ev;

/* As the probe does it. */
static int parse(const char *text)
{
	__u64 c[B3_WORDS] = { B3_ZEROS, B3_ZEROS };
	size_t n = strlen(text);
	int shift = b3_shift(n);

	memset(&ev, 0, sizeof(ev));
	if (shift < 0)
		return B3_BAD;
	memcpy((char *)c + shift, text, n);
	return b3_parse(&ev, c, n + (size_t)shift);
}

static const unsigned char trace[16] = { 0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd,
					 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31, 0x9c };
static const unsigned char span[8] = { 0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31 };

Test(b3, ids_come_in_their_order_whatever_stands_behind_them)
{
	static const struct {
		const char *text;
		int state;
	} good[] = {
		{ TRACE "-" SPAN, B3_DEFER },
		{ TRACE "-" SPAN "-0", B3_DENY },
		{ TRACE "-" SPAN "-1", B3_TAKE },
		{ TRACE "-" SPAN "-d", B3_TAKE },
		{ TRACE "-" SPAN "-1-" PARENT, B3_TAKE },
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		cr_assert_eq(parse(good[i].text), good[i].state, "%s", good[i].text);
		cr_assert(memcmp(ev.trace_id, trace, sizeof(trace)) == 0);
		cr_assert(memcmp(ev.parent_id, span, sizeof(span)) == 0);
		cr_assert_eq(ev.flags,
			     EVENT_REMOTE | (good[i].state == B3_TAKE ? EVENT_SAMPLED : 0));
	}
}

Test(b3, a_trace_id_of_64_bits_is_the_lower_half)
{
	static const char *const good[] = { SHORT "-" SPAN, SHORT "-" SPAN "-1",
					    SHORT "-" SPAN "-1-" PARENT };
	static const unsigned char zeros[8];

	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		cr_assert_neq(parse(good[i]), B3_BAD, "%s", good[i]);
		cr_assert(memcmp(ev.trace_id, zeros, sizeof(zeros)) == 0);
		cr_assert(memcmp(ev.trace_id + 8, trace + 8, 8) == 0);
		cr_assert(memcmp(ev.parent_id, span, sizeof(span)) == 0);
	}
}

Test(b3, any_other_byte_at_any_place_is_refused)
{
	static const char good[] = TRACE "-" SPAN "-1-" PARENT;
	char text[sizeof(good)];

	for (size_t at = 0; at < sizeof(good) - 1; at++) {
		int dash = at == 32 || at == 49 || at == 51, state = at == 50;

		for (int c = 1; c < 256; c++) {
			int hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');

			memcpy(text, good, sizeof(good));
			text[at] = (char)c;
			cr_assert_eq(parse(text) != B3_BAD,
				     dash    ? c == '-'
				     : state ? c == '0' || c == '1' || c == 'd'
					     : hex,
				     "byte %02x at %zu", c, at);
		}
	}
}

Test(b3, zero_ids_and_other_lengths_are_refused)
{
	static const char good[] = TRACE "-" SPAN "-1-" PARENT "0";
	char text[sizeof(good)];

	cr_assert_eq(parse("00000000000000000000000000000000-" SPAN "-1"), B3_BAD);
	cr_assert_eq(parse("0000000000000000-" SPAN), B3_BAD);
	cr_assert_eq(parse(TRACE "-0000000000000000-1"), B3_BAD);
	for (size_t n = 0; n < sizeof(good); n++) {
		(void)snprintf(text, sizeof(text), "%.*s", (int)n, good);
		cr_assert_eq(parse(text) != B3_BAD, n == 49 || n == 51 || n == 68, "length %zu", n);
	}
}

Test(b3, what_is_refused_leaves_the_event_alone)
{
	static const struct event zero;

	cr_assert_eq(parse(TRACE "-" SPAN "-x"), B3_BAD);
	cr_assert(memcmp(&ev, &zero, sizeof(ev)) == 0);
	cr_assert_eq(parse(TRACE "-" SPAN "-1-05e3ac9a4f6e3b9g"), B3_BAD);
	cr_assert(memcmp(&ev, &zero, sizeof(ev)) == 0);
}

static __u8 letter(const char *text)
{
	__u64 c = 0;
	size_t n = strlen(text);

	memcpy(&c, text, n > 8 ? 8 : n);
	return b3_letter(c, n);
}

Test(b3, the_older_header_says_sampled_in_two_ways)
{
	cr_assert_eq(letter("1"), '1');
	cr_assert_eq(letter("0"), '0');
	cr_assert_eq(letter("true"), '1');
	cr_assert_eq(letter("false"), '0');
	cr_assert_eq(letter("2"), 0);
	cr_assert_eq(letter(""), 0);
	cr_assert_eq(letter("True"), 0);
	cr_assert_eq(letter("falsehood"), 0);
}
