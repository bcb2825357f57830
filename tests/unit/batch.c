#include "pipeline/batch.h"

#include "base/stats.h"
#include "pipeline/resource.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <time.h>

static struct resource *resource_named(const char *name)
{
	struct resource_attr attr = { .key = "service.name", .value = name };
	struct resource *r = NULL;

	cr_assert_eq(resource_new(&r, &attr, 1), 0);
	return r;
}

static int add_one(struct batch *b, struct resource *r, int64_t number)
{
	struct attr attrs[] = { { .key = "n", .type = ATTR_INT, .i = number } };
	struct span s = { .trace_id = { 1 }, .span_id = { 2 }, .nattrs = 1, .attrs = attrs };

	return batch_add(b, &s, r);
}

static struct batch *full_batch(struct pool *p, struct resource *r, size_t n)
{
	size_t dropped;
	struct batch *b = pool_get(p, &dropped);

	cr_assert(b);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(add_one(b, r, (int64_t)i), 0);
	return b;
}

Test(batch, a_span_keeps_its_own_copy_of_its_attributes)
{
	struct attr attrs[2] = { { .key = "a", .type = ATTR_INT, .i = 1 },
				 { .key = "b", .type = ATTR_STR, .s = { "x", 1 } } };
	struct span s = {
		.trace_id = { 1 }, .span_id = { 2 }, .start_ns = 7, .nattrs = 2, .attrs = attrs
	};
	struct resource *r = resource_named("r");
	struct pool *p = NULL;
	size_t dropped;
	struct batch *b;

	cr_assert_eq(pool_new(&p, 3, 4, 4096), 0);
	b = pool_get(p, &dropped);
	cr_assert_eq(batch_add(b, &s, r), 0);
	memset(attrs, 0, sizeof(attrs));
	cr_expect_eq(b->nspans, 1);
	cr_expect_eq(b->spans[0].start_ns, 7);
	cr_expect_eq(b->spans[0].attrs[0].i, 1);
	cr_expect(str_eq(b->spans[0].attrs[1].s, "x"));
	cr_expect_neq(b->first_ns, 0);
	pool_put(p, b);
	pool_free(&p);
	resource_put(&r);
}

Test(batch, it_is_full_in_spans_in_memory_and_in_resources_and_then_unchanged)
{
	struct resource *r[BATCH_RESOURCES_MAX + 1];
	struct resource *one = resource_named("one");
	struct pool *p = NULL;
	size_t dropped;
	struct batch *b;

	cr_assert_eq(pool_new(&p, 3, 100, 8192), 0);
	b = full_batch(p, one, 100);
	cr_expect_eq(add_one(b, one, 0), -ENOSPC);
	cr_expect_eq(b->nspans, 100);

	b = pool_get(p, &dropped);
	cr_assert(arena_get(&b->arena, 8192 - 8));
	cr_expect_eq(add_one(b, one, 0), -ENOSPC);
	cr_expect_eq(b->nspans, 0);

	b = pool_get(p, &dropped);
	for (size_t i = 0; i < ARRAY_SIZE(r); i++)
		r[i] = resource_named("many");
	for (size_t i = 0; i < BATCH_RESOURCES_MAX; i++)
		cr_expect_eq(add_one(b, r[i], 0), 0);
	cr_expect_eq(add_one(b, r[BATCH_RESOURCES_MAX], 0), -ENOSPC);
	cr_expect_eq(add_one(b, r[0], 0), 0, "a resource that is there already has room");
	cr_expect_eq(b->spans[b->nspans - 1].resource, 0);
	pool_free(&p);
	for (size_t i = 0; i < ARRAY_SIZE(r); i++) {
		cr_expect_eq(r[i]->refs, 1, "the batch gave back what it held");
		resource_put(&r[i]);
	}
	resource_put(&one);
}

Test(batch, a_span_without_ids_is_refused)
{
	struct span no_trace = { .span_id = { 2 } }, no_span = { .trace_id = { 1 } };
	struct resource *r = resource_named("r");
	struct pool *p = NULL;
	struct batch *b;

	cr_assert_eq(pool_new(&p, 3, 8, 4096), 0);
	b = full_batch(p, r, 0);
	cr_expect_eq(batch_add(b, &no_trace, r), -EBADMSG);
	cr_expect_eq(batch_add(b, &no_span, r), -EBADMSG);
	cr_expect_eq(b->nspans, 0);
	cr_expect_eq(r->refs, 1);
	pool_free(&p);
	resource_put(&r);
}

Test(batch, one_reference_a_resource_is_held_until_the_batch_is_empty_again)
{
	struct resource *r = resource_named("r");
	struct pool *p = NULL;
	struct batch *b;

	cr_assert_eq(pool_new(&p, 3, 8, 4096), 0);
	b = full_batch(p, r, 5);
	cr_expect_eq(r->refs, 2);
	cr_expect_eq(b->nresources, 1);
	pool_put(p, b);
	cr_expect_eq(r->refs, 1);
	pool_free(&p);
	resource_put(&r);
}

Test(pool, without_an_empty_batch_the_oldest_queued_one_is_taken_never_one_that_is_being_sent)
{
	struct resource *r = resource_named("r");
	struct batch *sending, *second, *third, *b;
	struct pool *p = NULL;
	size_t dropped = 99;

	cr_assert_eq(pool_new(&p, 3, 8, 4096), 0);
	pool_send(p, full_batch(p, r, 1));
	sending = pool_receive(p, 0);
	pool_send(p, second = full_batch(p, r, 2));
	pool_send(p, third = full_batch(p, r, 3));
	cr_expect_eq(pool_queued(p), 5);

	b = pool_get(p, &dropped);
	cr_expect_eq(b, second);
	cr_expect_eq(dropped, 2);
	cr_expect_eq(b->nspans, 0);
	cr_expect_eq(sending->nspans, 1);
	cr_expect_eq(pool_queued(p), 3);
	cr_expect_eq(pool_receive(p, 0), third);
	cr_expect_null(pool_get(p, &dropped), "all are being filled or sent");
	cr_expect_eq(dropped, 0);
	pool_put(p, sending);
	cr_expect_eq(pool_get(p, &dropped), sending);
	pool_free(&p);
	resource_put(&r);
}

Test(pool, the_gauge_of_queued_spans_follows_every_way_a_span_can_go)
{
	struct resource *r = resource_named("r");
	struct pool *p = NULL;
	struct batch *b;
	size_t dropped;

	cr_assert_eq(pool_new(&p, 3, 8, 4096), 0);
	for (size_t i = 0; i < 3; i++)
		pool_send(p, full_batch(p, r, 4));
	cr_expect_eq(stat_get(spans_queued), 12);
	b = pool_get(p, &dropped);
	cr_expect_eq(stat_get(spans_queued), 8);
	pool_put(p, b);
	pool_put(p, pool_receive(p, 0));
	cr_expect_eq(stat_get(spans_queued), 4);
	pool_free(&p);
	cr_expect_eq(stat_get(spans_queued), 0);
	resource_put(&r);
}

Test(pool, a_receiver_waits_as_long_as_it_said)
{
	struct timespec from, to;
	struct pool *p = NULL;

	cr_assert_eq(pool_new(&p, 3, 8, 4096), 0);
	(void)clock_gettime(CLOCK_MONOTONIC, &from);
	cr_expect_null(pool_receive(p, 60));
	(void)clock_gettime(CLOCK_MONOTONIC, &to);
	cr_expect_geq((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000, 59);
	pool_free(&p);
}

Test(pool, batches_that_only_a_burst_needed_give_their_pages_back_and_stay_usable)
{
	struct resource *r = resource_named("r");
	struct batch *b[4];
	struct pool *p = NULL;
	size_t dropped;

	cr_assert_eq(pool_new(&p, 4, 2000, 1 << 20), 0);
	for (size_t i = 0; i < 4; i++) {
		b[i] = full_batch(p, r, 2000);
		b[i]->arena.base[500000] = 'x';
	}
	for (size_t i = 4; i-- > 0;)
		pool_put(p, b[i]);
	pool_trim(p);
	for (size_t i = 0; i < 4; i++)
		cr_expect_eq(b[i]->arena.base[500000], 'x', "needed since the last time");
	pool_put(p, full_batch(p, r, 1));
	pool_trim(p);
	cr_expect_eq(b[0]->arena.base[500000], 'x', "the one in use");
	for (size_t i = 1; i < 4; i++) {
		cr_expect_eq(b[i]->arena.base[500000], 0, "%zu", i);
		cr_expect_eq(b[i]->spans[1000].span_id[0], 0, "%zu", i);
	}
	for (size_t i = 0; i < 4; i++) {
		cr_expect_eq(pool_get(p, &dropped), b[i]);
		for (size_t n = 0; n < 2000; n++)
			cr_assert_eq(add_one(b[i], r, 0), 0);
	}
	pool_free(&p);
	resource_put(&r);
}

static void *wait_for_ever(void *pool)
{
	return pool_receive(pool, -1);
}

Test(pool, close_wakes_the_receiver_which_still_gets_what_is_queued, .timeout = 10)
{
	struct resource *r = resource_named("r");
	struct pool *p = NULL;
	struct batch *b;
	pthread_t thread;
	void *got = &thread;

	cr_assert_eq(pool_new(&p, 3, 8, 4096), 0);
	cr_assert_eq(pthread_create(&thread, NULL, wait_for_ever, p), 0);
	cr_expect_not(pool_closed(p));
	pool_close(p);
	(void)pthread_join(thread, &got);
	cr_expect_null(got);
	cr_expect(pool_closed(p));
	pool_send(p, b = full_batch(p, r, 1));
	cr_expect_eq(pool_receive(p, -1), b);
	cr_expect_null(pool_receive(p, -1));
	pool_free(&p);
	resource_put(&r);
}

#define ROUNDS 3000

static void *consume(void *arg)
{
	struct pool *p = arg;
	size_t *received = calloc(1, sizeof(*received));
	int64_t last = -1;
	struct batch *b;

	while ((b = pool_receive(p, -1))) {
		for (size_t i = 0; i < b->nspans; i++) {
			cr_assert_gt(b->spans[i].attrs[0].i, last, "in order, none twice");
			last = b->spans[i].attrs[0].i;
		}
		*received += b->nspans;
		pool_put(p, b);
	}
	return received;
}

Test(pool, between_two_threads_every_span_arrives_or_is_counted_as_dropped, .timeout = 60)
{
	struct resource *r = resource_named("r");
	size_t dropped = 0, some, sent = 0;
	struct pool *p = NULL;
	pthread_t thread;
	void *received;

	cr_assert_eq(pool_new(&p, 3, 8, 4096), 0);
	cr_assert_eq(pthread_create(&thread, NULL, consume, p), 0);
	for (size_t i = 0; i < ROUNDS; i++) {
		struct batch *b = pool_get(p, &some);

		cr_assert(b);
		dropped += some;
		for (size_t k = 0; k < 1 + i % 8; k++)
			cr_assert_eq(add_one(b, r, (int64_t)sent++), 0);
		pool_send(p, b);
	}
	pool_close(p);
	(void)pthread_join(thread, &received);
	cr_expect_eq(*(size_t *)received + dropped, sent);
	cr_expect_eq(r->refs, 1);
	free(received);
	pool_free(&p);
	resource_put(&r);
}
