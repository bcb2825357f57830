#include "base/stats.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <time.h>

static char *page(bool openmetrics)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	cr_assert(f);
	cr_assert_eq(stats_write(f, openmetrics), 0);
	(void)fclose(f);
	return text;
}

static int occurrences(const char *text, const char *what)
{
	int n = 0;

	for (; (text = strstr(text, what)) != NULL; text += strlen(what))
		n++;
	return n;
}

static void add_odd(struct stats_page *p, void *arg)
{
	static const char *const labels[] = { "path", "a\\b \"c\"\nd", "n", "2", NULL };

	(void)arg;
	stats_sample(p, GAUGE, "spoor_odd_info", labels, "Odd labels; value is always 1", 1);
	stats_sample(p, COUNTER, "spoor_spans_dropped_total",
		     (const char *const[]){ "reason", "elsewhere", NULL }, "Dropped", 3);
}

Test(stats, a_counter_is_printed_with_its_labels_and_value)
{
	auto_free char *text = NULL;

	stat_add(spans_dropped_queue, 7);
	text = page(false);
	cr_assert(strstr(text, "\nspoor_spans_dropped_total{reason=\"queue_oldest\"} 7\n"));
	cr_assert(strstr(text, "\n# TYPE spoor_spans_dropped_total counter\n"));
}

Test(stats, samples_of_one_family_stand_together_whoever_adds_them)
{
	auto_free char *text = NULL;
	const char *head, *end;

	stats_collector(add_odd, NULL);
	text = page(false);
	cr_assert_eq(occurrences(text, "# TYPE spoor_spans_dropped_total "), 1);
	head = strstr(text, "# TYPE spoor_spans_dropped_total ");
	end = strstr(head, "\n# ");
	cr_assert(end);
	cr_assert(strstr(head, "spoor_spans_dropped_total{reason=\"elsewhere\"} 3\n") < end);
	cr_assert(strstr(head, "spoor_spans_dropped_total{reason=\"ring_full\"}") < end);
	cr_assert_eq(occurrences(text, "\nspoor_spans_dropped_total{"),
		     occurrences(head, "spoor_spans_dropped_total{"));
}

Test(stats, label_values_are_escaped)
{
	auto_free char *text = NULL;

	stats_collector(add_odd, NULL);
	text = page(false);
	cr_assert(strstr(text, "spoor_odd_info{path=\"a\\\\b \\\"c\\\"\\nd\",n=\"2\"} 1\n"));
}

Test(stats, a_histogram_is_cumulative_and_ends_with_inf_sum_and_count)
{
	auto_free char *text = NULL;

	stat_observe(attach, 5000000); /* on the bound: le means less or equal */
	stat_observe(attach, 5000001);
	stat_observe(attach, 1000000000000); /* beyond all bounds */
	text = page(false);
	cr_assert(strstr(text, "spoor_attach_duration_seconds_bucket{le=\"0.005\"} 1\n"));
	cr_assert(strstr(text, "spoor_attach_duration_seconds_bucket{le=\"0.01\"} 2\n"));
	cr_assert(strstr(text, "spoor_attach_duration_seconds_bucket{le=\"60\"} 2\n"));
	cr_assert(strstr(text, "spoor_attach_duration_seconds_bucket{le=\"+Inf\"} 3\n"));
	cr_assert(strstr(text, "spoor_attach_duration_seconds_sum 1000.010000001\n"));
	cr_assert(strstr(text, "spoor_attach_duration_seconds_count 3\n"));
}

Test(stats, openmetrics_names_counter_families_without_total_and_ends_with_eof)
{
	auto_free char *text = page(true);

	cr_assert(strstr(text, "# TYPE spoor_attach counter\n"));
	cr_assert(strstr(text, "\nspoor_attach_total 0\n"));
	cr_assert_str_eq(text + strlen(text) - strlen("# EOF\n"), "# EOF\n");
}

Test(stats, promtool_finds_nothing_to_criticise)
{
	auto_free char *text = NULL;
	FILE *promtool;

	if (access("/usr/bin/promtool", X_OK) != 0)
		cr_skip_test("promtool is not installed");
	stats_collector(stats_process, NULL);
	stats_collector(add_odd, NULL);
	stat_observe(kubelet_request, 30000000);
	text = page(false);
	promtool = popen("/usr/bin/promtool check metrics >/dev/stderr", "w");
	cr_assert(promtool);
	(void)fputs(text, promtool);
	cr_assert_eq(pclose(promtool), 0);
}

Test(stats, the_process_metrics_are_plausible)
{
	auto_free char *text = NULL;
	const char *rss, *started;

	stats_collector(stats_process, NULL);
	text = page(false);
	rss = strstr(text, "\nprocess_resident_memory_bytes ");
	started = strstr(text, "\nprocess_start_time_seconds ");
	cr_assert(rss && started);
	cr_assert_gt(strtod(strchr(rss, ' '), NULL), 500000);
	cr_assert_float_eq(strtod(strchr(started, ' '), NULL), (double)time(NULL), 30);
	cr_assert(strstr(text, "\nprocess_open_fds "));
}
