#include "base/utf8.h"

#include <criterion/criterion.h>

Test(utf8, valid_text_of_every_length_is_valid)
{
	static const char *const texts[] = { "",
					     "a",
					     "GET /items/{id}",
					     "\xc3\xa9",
					     "1234567\xe2\x82\xac",
					     "\xf0\x9f\x98\x80 after",
					     "\xed\x9f\xbf",
					     "\xee\x80\x80",
					     "\xf4\x8f\xbf\xbf" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		cr_expect_eq(utf8_valid(texts[i], strlen(texts[i])), strlen(texts[i]), "%s",
			     texts[i]);
}

Test(utf8, overlong_surrogate_too_high_cut_and_stray_bytes_are_found_where_they_stand)
{
	static const char *const bad[] = {
		"\x80",         "\xc0\xaf",         "\xc1\xbf",         "\xe0\x9f\xbf",
		"\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
		"\xff",         "\xe2\x82",         "\xf0\x9f\x98",     "\xc3"
	};
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		for (size_t before = 0; before < 20; before++) {
			memset(text, 'x', before);
			memcpy(text + before, bad[i], strlen(bad[i]));
			cr_expect_eq(utf8_valid(text, before + strlen(bad[i])), before, "%zu %zu",
				     i, before);
		}
	}
}

Test(utf8, repaired_text_is_valid_and_keeps_its_good_characters)
{
	char text[] = "a\xff\xe2\x82\xac\xe2\x82 b\xc3";

	utf8_repair(text, strlen(text));
	cr_expect_str_eq(text, "a?\xe2\x82\xac?? b?");
}
