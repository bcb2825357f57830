#include "rig.h"

Test(export, what_is_sent_is_an_otlp_request_over_one_connection, .timeout = 30)
{
	struct rig r;

	rig_open(&r, STEPS({ .status = 200 }),
		 "--otlp-headers=x-tenant=a b,authorization=Bearer x=", NULL);
	rig_start(&r);
	for (int i = 0; i < 3; i++) {
		produce(&r, 8);
		settle();
	}
	cr_expect_eq(r.sink.nrequests, 3);
	cr_expect_eq(r.sink.accepted, 24);
	cr_expect_eq(stat_get(spans_exported), 24);
	cr_expect_eq(r.sink.connections, 1);
	for (size_t i = 0; i < 3; i++) {
		const char *head = r.sink.requests[i].head;

		cr_expect(strncmp(head, "POST /v1/traces HTTP/1.1\r\n", 26) == 0, "%s", head);
		cr_expect(strstr(head, "Content-Type: application/x-protobuf\r\n"));
		cr_expect(strstr(head, "Content-Encoding: gzip\r\n"));
		cr_expect(strstr(head, "User-Agent: spoor/"));
		cr_expect(strstr(head, "x-tenant: a b\r\n"));
		cr_expect(strstr(head, "authorization: Bearer x=\r\n"));
		cr_expect_null(strstr(head, "Expect:"));
		cr_expect_eq(r.sink.requests[i].first, i * 8 + 1, "in order");
	}
	cr_expect_eq(stat_get(otlp_items), 24);
	cr_expect_eq(stat_get(otlp_requests_2xx), 3);
	cr_expect_eq(stat_get(otlp_retries), 0);
	cr_expect_gt(stat_get(otlp_sent_bytes), 0);
	cr_expect_gt(stat_get(otlp_last_success), 1700000000);
	rig_close(&r, 1000);
}

Test(export, three_times_503_then_200_is_delivered_once_and_others_wait_behind, .timeout = 30)
{
	struct rig r;

	rig_open(&r,
		 STEPS({ .status = 503 }, { .status = 502 }, { .status = 504 }, { .status = 200 }),
		 NULL);
	rig_start(&r);
	produce(&r, 5);
	produce(&r, 7);
	settle();
	cr_expect_eq(r.sink.nrequests, 5);
	cr_expect_eq(r.sink.accepted, 12);
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(r.sink.requests[i].first, 1);
	cr_expect_eq(r.sink.requests[4].first, 6);
	cr_expect_eq(stat_get(spans_exported), 12);
	cr_expect_eq(stat_get(otlp_retries), 3);
	cr_expect_eq(stat_get(otlp_requests_5xx), 3);
	rig_close(&r, 1000);
}

Test(export, the_back_off_doubles_from_retry_min_up_to_retry_max, .timeout = 30)
{
	uint64_t wait[5];
	struct rig r;

	rig_open(&r,
		 STEPS({ .status = 503 }, { .status = 503 }, { .status = 503 }, { .status = 503 },
		       { .status = 503 }, { .status = 200 }),
		 NULL);
	rig_start(&r);
	produce(&r, 1);
	settle();
	cr_assert_eq(r.sink.nrequests, 6);
	for (size_t i = 0; i < 5; i++)
		wait[i] = (r.sink.requests[i + 1].at_ns - r.sink.requests[i].at_ns) / MS;
	cr_expect_geq(wait[0], 19);
	cr_expect_geq(wait[1], 39);
	for (size_t i = 2; i < 5; i++) {
		cr_expect_geq(wait[i], 59);
		cr_expect_leq(wait[i], 250, "%llu: 90 ms at most, and a slow machine",
			      (unsigned long long)wait[i]);
	}
	rig_close(&r, 1000);
}

Test(export, retry_after_in_seconds_is_honoured_exactly, .timeout = 30)
{
	struct rig r;

	rig_open(&r, STEPS({ .status = 429, .headers = "Retry-After: 2\r\n" }, { .status = 200 }),
		 NULL);
	rig_start(&r);
	produce(&r, 3);
	settle();
	cr_assert_eq(r.sink.nrequests, 2);
	cr_expect_geq(r.sink.requests[1].at_ns - r.sink.requests[0].at_ns, 1995 * MS);
	cr_expect_lt(r.sink.requests[1].at_ns - r.sink.requests[0].at_ns, 2500 * MS);
	cr_expect_eq(stat_get(spans_exported), 3);
	rig_close(&r, 1000);
}

Test(export, retry_after_as_a_date_is_honoured, .timeout = 30)
{
	char header[128];
	time_t then = time(NULL) + 3;
	struct tm tm;
	struct rig r;

	(void)strftime(header, sizeof(header), "Retry-After: %a, %d %b %Y %H:%M:%S GMT\r\n",
		       gmtime_r(&then, &tm));
	rig_open(&r, STEPS({ .status = 503, .headers = header }, { .status = 200 }), NULL);
	rig_start(&r);
	produce(&r, 3);
	settle();
	cr_assert_eq(r.sink.nrequests, 2);
	cr_expect_geq(r.sink.requests[1].at_ns - r.sink.requests[0].at_ns, 1900 * MS);
	rig_close(&r, 1000);
}

Test(export, an_absurd_retry_after_is_no_reason_to_hurry, .timeout = 30)
{
	struct rig r;

	/* 2^55 s are, in nanoseconds, 0 modulo 2^64. */
	rig_open(&r, STEPS({ .status = 503, .headers = "Retry-After: 36028797018963968\r\n" }),
		 NULL);
	rig_start(&r);
	produce(&r, 3);
	while (stat_get(otlp_requests_5xx) == 0)
		(void)usleep(1000);
	(void)usleep(300000);
	cr_expect_eq(r.sink.nrequests, 1);
	rig_close(&r, 1000);
}

Test(export, a_refusal_is_not_retried_and_the_spans_are_counted_as_dropped, .timeout = 30)
{
	static const int statuses[] = { 400, 401, 403, 404, 302, 500, 501 };
	struct rig r;

	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		uint64_t before = stat_get(spans_dropped_refused);

		rig_open(&r,
			 STEPS({ .status = statuses[i],
				 .headers = "Location: http://127.0.0.1:1/\r\n",
				 .body = "no\nthanks" },
			       { .status = 200 }),
			 NULL);
		rig_start(&r);
		produce(&r, 4);
		settle();
		cr_expect_eq(r.sink.nrequests, 1, "%d", statuses[i]);
		cr_expect_eq(stat_get(spans_dropped_refused) - before, 4);
		produce(&r, 2);
		settle();
		cr_expect_eq(r.sink.nrequests, 2);
		cr_expect_eq(r.sink.accepted, 2);
		rig_close(&r, 1000);
	}
	cr_expect_eq(stat_get(otlp_failed_4xx), 5 * 4);
	cr_expect_eq(stat_get(otlp_failed_5xx), 2 * 4);
}

Test(export, the_rejected_spans_of_a_partial_success_are_counted_and_nothing_is_sent_again,
     .timeout = 30)
{
	struct rig r;

	rig_open(&r,
		 STEPS({ .status = 200, .body = "\x0a\x06\x08\x03\x12\x02no", .size = 8 },
		       { .status = 200, .body = "\x0a\x02\x08\x63", .size = 4 },
		       { .status = 200, .body = "<html>hello</html>" }),
		 NULL);
	rig_start(&r);
	produce(&r, 5);
	settle();
	cr_expect_eq(stat_get(spans_exported), 2);
	cr_expect_eq(stat_get(spans_dropped_rejected), 3);
	produce(&r, 5);
	settle();
	cr_expect_eq(stat_get(spans_dropped_rejected), 8, "never more than were sent");
	produce(&r, 5);
	settle();
	cr_expect_eq(stat_get(spans_exported), 7, "200 is 200");
	cr_expect_eq(r.sink.nrequests, 3);
	cr_expect_eq(stat_get(otlp_failed_rejected), 8);
	rig_close(&r, 1000);
}

Test(export, reset_closed_half_way_and_hanging_receivers_are_tried_again, .timeout = 30)
{
	struct rig r;

	rig_open(&r,
		 STEPS({ .action = RESET }, { .status = 200, .action = CUT, .body = "abc" },
		       { .action = HANG }, { .status = 200 }),
		 "--otlp-timeout=150ms", NULL);
	rig_start(&r);
	produce(&r, 6);
	settle();
	cr_expect_eq(r.sink.nrequests, 4);
	cr_expect_eq(r.sink.requests[3].accepted, 6);
	cr_expect_eq(stat_get(spans_exported), 6);
	cr_expect_eq(stat_get(otlp_requests_none), 3);
	cr_expect_geq(r.sink.requests[3].at_ns - r.sink.requests[2].at_ns, 150 * MS);
	cr_expect_lt(heart_age(HEART_EXPORT), 5);
	rig_close(&r, 1000);
}

Test(export, what_is_too_large_for_the_receiver_is_split_until_it_fits, .timeout = 30)
{
	struct rig r;

	rig_open(&r, STEPS({ .status = 200, .most = 2 }), NULL);
	rig_start(&r);
	produce(&r, 7);
	settle();
	cr_expect_eq(stat_get(spans_exported), 7);
	cr_expect_eq(r.sink.accepted, 7);
	cr_expect_eq(r.sink.requests[r.sink.nrequests - 1].last, 7);
	rig_close(&r, 1000);
}

Test(export, a_half_that_has_arrived_is_not_sent_again_when_the_other_fails, .timeout = 30)
{
	struct rig r;

	rig_open(&r,
		 STEPS({ .status = 413 }, { .status = 200 }, { .status = 503 }, { .status = 200 }),
		 NULL);
	rig_start(&r);
	produce(&r, 8);
	settle();
	cr_assert_eq(r.sink.nrequests, 4);
	cr_expect_eq(r.sink.requests[1].first, 1);
	cr_expect_eq(r.sink.requests[2].first, 5);
	cr_expect_eq(r.sink.requests[3].first, 5);
	cr_expect_eq(r.sink.accepted, 8);
	cr_expect_eq(stat_get(spans_exported), 8);
	rig_close(&r, 1000);
}

Test(export, a_single_span_that_is_too_large_is_dropped_and_its_neighbours_arrive, .timeout = 30)
{
	struct rig r;

	/* 413 to 4, 2, 1; then all the others are taken. */
	rig_open(&r,
		 STEPS({ .status = 413 }, { .status = 413 }, { .status = 413 }, { .status = 200 }),
		 NULL);
	rig_start(&r);
	produce(&r, 4);
	settle();
	cr_expect_eq(stat_get(spans_dropped_too_large), 1);
	cr_expect_eq(stat_get(otlp_failed_too_large), 1);
	cr_expect_eq(stat_get(spans_exported), 3);
	cr_expect_eq(r.sink.accepted, 3);
	rig_close(&r, 1000);
}

Test(export, what_is_larger_than_max_request_is_split_before_it_is_sent, .timeout = 30)
{
	struct rig r;

	rig_open(&r, STEPS({ .status = 200 }), "--otlp-max-request=64KiB", NULL);
	rig_start(&r);
	produce_large(&r, 8, 20000);
	settle();
	cr_expect_eq(r.sink.accepted, 8);
	cr_expect_eq(r.sink.nrequests, 4, "8, then 4, then 2 at a time fit");
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(r.sink.requests[i].first, 2 * i + 1);
	produce_large(&r, 3, 70000);
	settle();
	cr_expect_eq(r.sink.nrequests, 4, "not one of these is sent");
	cr_expect_eq(stat_get(spans_dropped_too_large), 3);
	cr_expect_eq(stat_get(spans_exported), 8);
	rig_close(&r, 1000);
}

Test(export, an_endless_answer_is_not_read_to_its_end, .timeout = 30)
{
	size_t size = 64u << 20;
	char *endless = calloc(1, size);
	struct rig r;

	cr_assert(endless);
	rig_open(&r,
		 STEPS({ .status = 200, .body = endless, .size = size },
		       { .status = 503, .body = endless, .size = size }, { .status = 200 }),
		 NULL);
	rig_start(&r);
	produce(&r, 2);
	settle();
	cr_expect_eq(stat_get(spans_exported), 2, "taken is taken");
	produce(&r, 3);
	settle();
	cr_expect_eq(stat_get(spans_exported), 5);
	cr_expect_eq(r.sink.nrequests, 3);
	cr_expect_eq(r.sink.connections, 3, "it hung up");
	rig_close(&r, 1000);
	free(endless);
}

Test(export, batches_that_wait_are_sent_together_up_to_an_eighth_of_the_pool, .timeout = 30)
{
	struct rig r;

	rig_open(&r, STEPS({ .status = 503 }, { .status = 200 }, { .status = 200, .most = 10 }),
		 "--batch-count=24", "--export-retry-min=200ms", "--export-retry-max=1s", NULL);
	rig_start(&r);
	produce(&r, 8);
	while (r.sink.nrequests == 0)
		(void)usleep(1000);
	for (size_t i = 0; i < 4; i++)
		produce(&r, 7);
	settle();
	cr_expect_eq(stat_get(spans_exported), 36);
	cr_expect_eq(r.sink.accepted, 36);
	cr_assert_eq(r.sink.nrequests, 9);
	for (size_t i = 0; i < 9; i++) {
		static const size_t spans[] = { 8, 8, 21, 11, 6, 6, 6, 3, 7 };

		cr_expect_eq(r.sink.requests[i].spans, spans[i],
			     "three of 24 batches, and in halves what is too large");
	}
	rig_close(&r, 1000);
}

Test(export, spans_wait_for_a_receiver_that_starts_late, .timeout = 30)
{
	struct rig r;

	rig_open(&r, STEPS({ .status = 200 }), NULL);
	cr_assert_eq(export_start(r.export), 0);
	for (int i = 0; i < 3; i++)
		produce(&r, 8);
	(void)usleep(300000);
	cr_expect_eq(stat_get(spans_exported), 0);
	expect_conserved();
	sink_start(&r.sink);
	settle();
	cr_expect_eq(stat_get(spans_exported), 24);
	cr_expect_eq(r.sink.accepted, 24);
	rig_close(&r, 1000);
}

Test(export,
     when_the_pool_is_out_of_batches_the_oldest_waiting_one_is_dropped_not_the_one_being_sent,
     .timeout = 30)
{
	struct rig r;

	rig_open(&r,
		 STEPS({ .status = 503 }, { .status = 503 }, { .status = 503 }, { .status = 200 }),
		 "--export-retry-min=300ms", "--export-retry-max=1s", NULL);
	rig_start(&r);
	produce(&r, 8); /* 1-8 is being sent */
	while (r.sink.nrequests == 0)
		(void)usleep(1000);
	for (int i = 0; i < 5; i++) /* three more batches than that one in the pool of four */
		produce(&r, 8);
	expect_conserved();
	settle();
	cr_expect_eq(stat_get(spans_dropped_queue), 16);
	cr_expect_eq(stat_get(spans_exported), 32);
	cr_assert_eq(r.sink.nrequests, 7);
	cr_expect_eq(r.sink.requests[3].first, 1);
	cr_expect_eq(r.sink.requests[4].first, 25, "9-24 were the oldest that waited");
	rig_close(&r, 1000);
}

Test(export, whatever_the_receiver_does_each_span_is_counted_once, .timeout = 60)
{
	struct sink_step steps[SINK_REQUESTS_MAX] = { 0 };
	struct rig r;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		static const struct sink_step kinds[] = {
			{ .status = 200 },
			{ .status = 503 },
			{ .status = 200, .most = 3 },
			{ .action = RESET },
			{ .status = 400 },
			{ .status = 200 },
			{ .status = 200, .body = "\x0a\x02\x08\x01", .size = 4 },
			{ .status = 200, .action = CUT }
		};

		steps[i] = kinds[i * 7 % 11 % ARRAY_SIZE(kinds)];
	}
	rig_open(&r, steps, ARRAY_SIZE(steps), "--export-retry-min=1ms", "--export-retry-max=2ms",
		 NULL);
	rig_start(&r);
	for (size_t i = 0; i < 100; i++) {
		produce(&r, 1 + i % 8);
		(void)usleep(1000);
	}
	settle();
	cr_assert_lt(r.sink.nrequests, SINK_REQUESTS_MAX);
	cr_expect_gt(stat_get(spans_exported), 0);
	cr_expect_gt(stat_get(spans_dropped_refused), 0);
	cr_expect_gt(stat_get(spans_dropped_rejected), 0);
	cr_expect_eq(r.sink.accepted, stat_get(spans_exported) + stat_get(spans_dropped_rejected));
	rig_close(&r, 1000);
}
