#include "rig.h"

static uint64_t stop(struct rig *r, uint64_t ms)
{
	uint64_t from = sink_now();

	rig_close(r, ms);
	return (sink_now() - from) / MS;
}

Test(export_stop, everything_queued_arrives_before_the_agent_ends, .timeout = 30)
{
	size_t arrived;
	struct rig r;

	rig_open(&r, STEPS({ .status = 200 }), "--batch-count=20", NULL);
	for (int i = 0; i < 13; i++)
		produce(&r, 8);
	rig_start(&r);
	pool_close(r.pool);
	export_stop(r.export, sink_now() + 5000 * MS);
	arrived = r.sink.accepted;
	cr_expect_eq(arrived, 104);
	cr_expect_eq(stat_get(spans_exported), 104);
	cr_expect_eq(heart_age(HEART_EXPORT), 0, "no longer watched");
	(void)stop(&r, 0);
}

Test(export_stop, a_receiver_that_hangs_does_not_delay_the_end, .timeout = 30)
{
	struct rig r;
	uint64_t took;

	rig_open(&r, STEPS({ .action = HANG }), NULL);
	rig_start(&r);
	produce(&r, 8);
	produce(&r, 3);
	while (r.sink.nrequests == 0)
		(void)usleep(1000);
	took = stop(&r, 500);
	cr_expect_geq(took, 499, "it used the time it was given");
	cr_expect_lt(took, 1200, "%llu", (unsigned long long)took);
	cr_expect_eq(stat_get(spans_dropped_shutdown), 11);
	cr_expect_eq(stat_get(otlp_failed_timeout), 8);
	cr_expect_eq(stat_get(otlp_failed_shutdown), 3, "never tried");
}

Test(export_stop, a_receiver_that_accepts_no_connection_does_not_delay_the_end, .timeout = 30)
{
	struct rig r;
	uint64_t took;

	/* Nobody answers in that network (RFC 5737). */
	rig_open(&r, STEPS({ .status = 200 }), "--otlp-endpoint=http://192.0.2.1:4318", NULL);
	rig_start(&r);
	produce(&r, 8);
	(void)usleep(50000);
	took = stop(&r, 300);
	cr_expect_lt(took, 1000, "%llu", (unsigned long long)took);
	cr_expect_eq(stat_get(spans_dropped_shutdown), 8);
}

Test(export_stop, a_wait_that_ends_after_the_deadline_is_given_up_at_once, .timeout = 30)
{
	struct rig r;
	uint64_t took;

	rig_open(&r, STEPS({ .status = 429, .headers = "Retry-After: 60\r\n" }), NULL);
	rig_start(&r);
	produce(&r, 8);
	while (stat_get(otlp_requests_4xx) == 0)
		(void)usleep(1000);
	(void)usleep(20000);
	took = stop(&r, 5000);
	cr_expect_lt(took, 1000, "%llu", (unsigned long long)took);
	cr_expect_eq(stat_get(spans_dropped_shutdown), 8);
	cr_expect_eq(r.sink.nrequests, 1);
}

Test(export_stop, a_wait_that_ends_before_the_deadline_is_kept, .timeout = 30)
{
	struct rig r;

	rig_open(&r, STEPS({ .status = 429, .headers = "Retry-After: 1\r\n" }, { .status = 200 }),
		 NULL);
	rig_start(&r);
	produce(&r, 8);
	(void)stop(&r, 5000);
	cr_expect_eq(stat_get(spans_exported), 8);
}

Test(export_stop, a_wait_of_our_own_is_cut_short_by_the_end, .timeout = 30)
{
	struct rig r;

	rig_open(&r, STEPS({ .status = 503 }, { .status = 200 }), "--export-retry-min=20s",
		 "--export-retry-max=1m", NULL);
	rig_start(&r);
	produce(&r, 8);
	while (stat_get(otlp_requests_5xx) == 0)
		(void)usleep(1000);
	(void)usleep(20000);
	cr_expect_lt(stop(&r, 5000), 1000);
	cr_expect_eq(stat_get(spans_exported), 8);
}

Test(export_stop, a_batch_that_could_not_be_delivered_for_max_age_is_dropped, .timeout = 30)
{
	struct rig r;

	rig_open(&r, STEPS({ .status = 503 }), "--export-max-age=1s", NULL);
	rig_start(&r);
	produce(&r, 5);
	settle();
	cr_expect_eq(stat_get(spans_dropped_too_old), 5);
	cr_expect_eq(stat_get(otlp_failed_5xx), 5);
	cr_expect_geq(r.sink.requests[r.sink.nrequests - 1].at_ns - r.sink.requests[0].at_ns,
		      700 * MS);
	cr_expect_lt(r.sink.requests[r.sink.nrequests - 1].at_ns - r.sink.requests[0].at_ns,
		     1100 * MS);
	(void)stop(&r, 100);
}

Test(export_stop, without_a_start_there_is_nothing_to_stop)
{
	struct rig r;

	rig_open(&r, STEPS({ .status = 200 }), NULL);
	(void)stop(&r, 100);
}

/* What export_new() says to one option. */
static int open_with(const char *option)
{
	char *argv[] = { "agent", (char *)(uintptr_t)option, NULL };
	struct export *e = NULL;
	struct config *cfg = NULL;
	struct pool *p = NULL;
	int err, rest;

	err = config_load(&cfg, 2, argv, &rest);
	if (err == 0) {
		cr_assert_eq(pool_new(&p, 4, 8, 16384), 0);
		err = export_new(&e, cfg, p);
		cr_expect_eq(err == 0, e != NULL);
	}
	export_free(&e);
	pool_free(&p);
	config_free(&cfg);
	return err;
}

Test(export_stop, options_that_make_no_sense_are_refused_when_it_is_opened)
{
	cr_expect_eq(open_with("--otlp-endpoint=collector:4318"), 0);
	cr_expect_eq(open_with("--exporters=none"), 0);
	cr_expect_eq(open_with("--exporters=stdout"), 0);
	cr_expect_eq(open_with("--otlp-endpoint=http://"), -EINVAL);
	cr_expect_eq(open_with("--otlp-endpoint=ftp://collector"), -EINVAL);
	cr_expect_eq(open_with("--exporters=jaeger"), -EINVAL);
	cr_expect_eq(open_with("--otlp-headers=bad name=x"), -EINVAL);
	cr_expect_eq(open_with("--otlp-headers=a=x\r\nb: y"), -EINVAL);
	cr_expect_eq(open_with("--otlp-headers=empty="), 0);
}
