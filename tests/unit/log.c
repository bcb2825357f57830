#include "base/log.h"

#include "base/base.h"
#include "base/stats.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>

/* What log_write() puts on stderr for one message. */
static char *line_of(enum log_level least, bool json, enum log_level level, const char *text)
{
	static char line[4096];
	int fds[2], saved = dup(STDERR_FILENO);
	ssize_t n;

	cr_assert_eq(pipe(fds), 0);
	(void)dup2(fds[1], STDERR_FILENO);
	log_setup(least, json);
	log_write(level, "%s", text);
	(void)dup2(saved, STDERR_FILENO);
	(void)close(saved);
	(void)close(fds[1]);
	n = read(fds[0], line, sizeof(line) - 1);
	(void)close(fds[0]);
	line[n > 0 ? n : 0] = '\0';
	return line;
}

Test(log, a_line_has_time_level_and_message)
{
	char *line = line_of(LOG_INFO, false, LOG_WARN, "kubelet: no answer");

	cr_assert_eq(strncmp(line, "time=20", 7), 0, "%s", line);
	cr_assert_str_eq(strchr(line, ' '), " level=warn msg=\"kubelet: no answer\"\n");
}

Test(log, lower_levels_are_counted_and_not_written)
{
	uint64_t before = stat_get(log_debug);

	cr_assert_str_empty(line_of(LOG_INFO, false, LOG_DEBUG, "x"));
	cr_assert_eq(stat_get(log_debug), before + 1);
	cr_assert_str_not_empty(line_of(LOG_DEBUG, false, LOG_DEBUG, "x"));
}

Test(log, a_reader_that_stands_still_costs_lines_and_not_the_thread, .timeout = 20)
{
	uint64_t before = stat_get(log_lost), lost;
	int fds[2], saved = dup(STDERR_FILENO);
	char text[1000], sink[65536];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	cr_assert_eq(pipe(fds), 0);
	(void)dup2(fds[1], STDERR_FILENO);
	log_setup(LOG_INFO, false);
	for (int i = 0; i < 1000; i++)
		log_write(LOG_INFO, "%s", text);
	lost = stat_get(log_lost) - before;
	cr_expect(lost > 800 && lost < 1000, "%lu", (unsigned long)lost);
	cr_expect(read(fds[0], sink, sizeof(sink)) > 0);
	log_write(LOG_INFO, "%s", text);
	(void)dup2(saved, STDERR_FILENO);
	cr_assert_eq(stat_get(log_lost) - before, lost, "it reads again, and is told again");
}

Test(log, hostile_text_stays_one_line_inside_its_quotes)
{
	char *line =
		line_of(LOG_INFO, false, LOG_INFO, "a\"b\\c\nlevel=error\r\x1b[31m\xff\xc3\xa4");

	cr_assert_str_eq(strstr(line, "msg="),
			 "msg=\"a\\\"b\\\\c\\nlevel=error\\u000d\\u001b[31m\\ufffd\xc3\xa4\"\n");
}

Test(log, a_json_line_is_json_whatever_the_message_holds)
{
	char hostile[512];
	json_t *root;
	size_t n = 0;

	for (int c = 1; c < 256; c++)
		hostile[n++] = (char)c;
	hostile[n] = '\0';
	root = json_loads(line_of(LOG_INFO, true, LOG_ERROR, hostile), JSON_REJECT_DUPLICATES,
			  NULL);
	cr_assert(root);
	cr_assert_str_eq(json_string_value(json_object_get(root, "level")), "error");
	cr_assert(json_string_value(json_object_get(root, "msg")));
	cr_assert(json_string_value(json_object_get(root, "time")));
	json_decref(root);
}

Test(log, a_long_message_is_cut_and_the_line_still_ends)
{
	char text[1000];
	char *line;

	memset(text, '\x01', sizeof(text) - 1); /* six bytes each, escaped */
	text[sizeof(text) - 1] = '\0';
	line = line_of(LOG_INFO, true, LOG_INFO, text);
	cr_assert_str_eq(line + strlen(line) - 6, "...\"}\n");
	cr_assert_leq(strlen(line), 2048);
}

Test(log, escaping_never_writes_beyond_its_room)
{
	for (size_t size = 1; size < 40; size++) {
		char out[48];
		size_t n;

		memset(out, '#', sizeof(out));
		n = log_escape(out, size, "ab\"\n\x01\xe2\x82\xac\xe2\x82 end of it");
		cr_assert_lt(n, size);
		cr_assert_eq(out[n], '\0');
		cr_assert_eq(out[size], '#');
	}
}

Test(log, overlong_and_surrogate_utf8_is_replaced)
{
	char out[64];

	(void)log_escape(out, sizeof(out), "\xc0\xaf");
	cr_assert_str_eq(out, "\\ufffd\\ufffd");
	(void)log_escape(out, sizeof(out), "\xed\xa0\x80");
	cr_assert_str_eq(out, "\\ufffd\\ufffd\\ufffd");
	(void)log_escape(out, sizeof(out), "\xf0\x9f\x90\xbe");
	cr_assert_str_eq(out, "\xf0\x9f\x90\xbe");
}

Test(log, a_repeated_message_goes_out_once_a_minute_with_the_number_left_out)
{
	struct log_limit limit = { 0 };
	uint64_t skipped = 99;

	cr_assert(log_allow(&limit, &skipped));
	cr_assert_eq(skipped, 0);
	for (int i = 0; i < 5; i++)
		cr_assert_not(log_allow(&limit, &skipped));
	limit.last_ns -= LOG_LIMIT_NS; /* a minute later */
	cr_assert(log_allow(&limit, &skipped));
	cr_assert_eq(skipped, 5);
	cr_assert_not(log_allow(&limit, &skipped));
}

Test(log, so_many_different_messages_a_minute_go_out_and_the_rest_is_counted)
{
	struct log_limit limit = { 0 };
	uint64_t skipped = 0;

	for (int i = 0; i < 20; i++)
		cr_assert_eq(log_allow_some(&limit, 5, &skipped), i < 5, "%d", i);
	cr_assert_eq(skipped, 0);
	limit.last_ns -= LOG_LIMIT_NS; /* a minute later */
	cr_assert(log_allow_some(&limit, 5, &skipped));
	cr_assert_eq(skipped, 15);
	for (int i = 1; i < 20; i++)
		cr_assert_eq(log_allow_some(&limit, 5, &skipped), i < 5, "%d", i);
}
