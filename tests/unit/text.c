#include "trace/text.h"

#include <criterion/criterion.h>

static struct arena arena;

static void set_up(void)
{
	cr_assert_eq(arena_init(&arena, 4096), 0);
}

static void tear_down(void)
{
	arena_clear(&arena);
}

TestSuite(text, .init = set_up, .fini = tear_down);

static void expect_utf8(const char *in, const char *out)
{
	struct str s = str_of(in);

	cr_assert_eq(text_utf8(&s, &arena), 0);
	cr_assert(str_eq(s, out), "'%s' -> '%.*s', not '%s'", in, (int)s.n, s.p, out);
}

Test(text, valid_text_stays_where_it_is)
{
	const char *text = "/gr\xc3\xbc\xc3\x9f/\xe2\x82\xac/\xf0\x9f\x98\x80";
	struct str s = str_of(text);

	cr_assert_eq(text_utf8(&s, &arena), 0);
	cr_assert_eq(s.p, text);
	cr_assert_eq(arena.used, 0u);
}

Test(text, bytes_that_fit_nowhere_become_replacement_characters)
{
	expect_utf8("\xff", "\xef\xbf\xbd");
	expect_utf8("a\xc3(b", "a\xef\xbf\xbd(b");
	expect_utf8("/\xff\xfe/x", "/\xef\xbf\xbd\xef\xbf\xbd/x");
	expect_utf8("x\xe2\x82", "x\xef\xbf\xbd\xef\xbf\xbd");
	expect_utf8("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* a surrogate */
}

Test(text, no_room_is_said_and_the_text_stays_untouched)
{
	struct str s = str_of("\xff");

	arena.used = arena.size;
	cr_assert_eq(text_utf8(&s, &arena), -ENOSPC);
	cr_assert(str_eq(s, "\xff"));
}

static void expect_cut(const char *in, size_t max, const char *out)
{
	struct str s = text_cut(str_of(in), max);

	cr_assert(str_eq(s, out), "'%s' cut at %zu is '%.*s'", in, max, (int)s.n, s.p);
}

Test(text, a_cut_leaves_whole_characters)
{
	expect_cut("abc", 5, "abc");
	expect_cut("abc", 3, "abc");
	expect_cut("abcd", 3, "abc");
	expect_cut("ab\xc3\xbc", 3, "ab");
	expect_cut("ab\xc3\xbc", 4, "ab\xc3\xbc");
	expect_cut("a\xe2\x82\xac", 3, "a");
	expect_cut("a\xe2\x82\xac", 4, "a\xe2\x82\xac");
	expect_cut("\xf0\x9f\x98\x80", 3, "");
	expect_cut("abc", 0, "");
	expect_cut("", 3, "");
}

Test(text, what_the_kernel_cut_within_a_character_loses_its_beginning)
{
	expect_cut("ab\xe2\x82", 4,
		   "ab"); /* exactly as long as the limit: its rest was left behind */
	expect_cut("ab\xe2\x82", 5, "ab\xe2\x82");
}

Test(text, stray_continuation_bytes_do_not_count_as_a_character)
{
	expect_cut("\x80\x80\x80\x80", 4, "\x80\x80\x80\x80");
	expect_cut("a\xbf", 2, "a\xbf");
}

Test(text, numbers_are_digits_within_bounds)
{
	cr_assert_eq(text_number(str_of("0"), 65535), 0);
	cr_assert_eq(text_number(str_of("65535"), 65535), 65535);
	cr_assert_eq(text_number(str_of("65536"), 65535), -1);
	cr_assert_eq(text_number(str_of("99999999999999999999999"), 65535), -1);
	cr_assert_eq(text_number(str_of(""), 65535), -1);
	cr_assert_eq(text_number(str_of("8o"), 65535), -1);
	cr_assert_eq(text_number(str_of("-1"), 65535), -1);
	cr_assert_eq(text_number(str_of("+1"), 65535), -1);
}

Test(text, taking_more_than_there_is_takes_nothing)
{
	struct str rest = str_of("abc"), out = { NULL, 0 };

	cr_assert(text_take(&rest, 2, &out) && out.n == 2 && rest.n == 1 && *rest.p == 'c');
	cr_assert(!text_take(&rest, 2, &out) && rest.n == 1);
	cr_assert(text_take(&rest, 1, &out) && text_take(&rest, 0, &out) && out.n == 0);
}

Test(text, what_no_header_may_hold_is_absent)
{
	cr_assert(str_eq(text_header(str_of("a=1,\tb=2")), "a=1,\tb=2"));
	cr_assert_null(text_header(str_of("a=1\n")).p);
	cr_assert_null(text_header(str_of("a=\xc3\xa4")).p);
	cr_assert_null(text_header(str_of("")).p);
}
