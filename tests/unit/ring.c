#include "trace/ring.h"

#include "base/config.h"
#include "base/stats.h"
#include "pipeline/batch.h"
#include "pipeline/resource.h"
#include "trace/lib.h"
#include "trace/span.h"
#include "trace/target.h"
#include <criterion/criterion.h>
#include <malloc.h>
#include <time.h>

/* A library whose records say what decode() is to do. */
struct note {
	struct event head;
	int32_t result, wanted; /* bytes that decode() takes from the arena */
	uint8_t health, nattrs, pad[6];
	char text[8];
};

static int decode_note(const struct event *ev, const struct decode *with, struct span *span)
{
	const struct note *n = (const void *)ev;

	cr_assert_eq((uintptr_t)ev % 8, 0);
	cr_assert_geq((uintptr_t)ev, (uintptr_t)with->arena->base);
	cr_assert_leq((uintptr_t)ev + ev->size, (uintptr_t)with->arena->base + with->arena->used);
	if (n->wanted && !arena_get(with->arena, (size_t)n->wanted))
		return -ENOSPC;
	span->name = (struct str){ n->text, sizeof(n->text) };
	span->health = n->health;
	for (int i = 0; i < n->nattrs; i++)
		span_int(span, "n", i);
	return n->result;
}

static const struct lib notes = {
	.name = "notes",
	.scope = "spoor/notes",
	.event_size = sizeof(struct note),
	.decode = decode_note,
};
LIB_REGISTER(notes);

#define SPANS 4
#define ARENA 4096

static struct config *cfg;
static struct targets *table;
static struct pool *pool;
static struct ring *ring;
static struct target *target;

static struct target *add_target(uint32_t signals)
{
	struct resource_attr attr = { .key = "service.name", .value = "web" };
	struct resource *r = NULL;
	struct target *t = NULL;
	uint32_t generation;
	uint16_t slot;

	cr_assert_eq(resource_new(&r, &attr, 1), 0);
	cr_assert_eq(targets_reserve(table, &slot, &generation), 0);
	cr_assert_eq(target_new(&t, slot, generation, 1, &r, NULL, NULL, 0, signals), 0);
	targets_publish(table, t);
	return t;
}

static void set_up(void)
{
	char *argv[] = { "agent" };

	cr_assert_eq(config_load(&cfg, 1, argv, NULL), 0);
	cr_assert_eq(targets_new(&table, 100), 0);
	cr_assert_eq(pool_new(&pool, 4, SPANS, ARENA), 0);
	cr_assert_eq(ring_new(&ring, cfg, -1, NULL, table, pool), 0);
	target = add_target(SIGNAL_TRACES | SIGNAL_METRICS);
}

static void tear_down(void)
{
	ring_free(&ring);
	pool_free(&pool);
	targets_free(&table);
	config_free(&cfg);
}

TestSuite(ring, .init = set_up, .fini = tear_down);

static struct note note_of(const struct target *t)
{
	struct note n = { .head = { .size = sizeof(n),
				    .flags = EVENT_SAMPLED,
				    .trace_id = { 1 },
				    .span_id = { 2 },
				    .start_ns = 1000,
				    .end_ns = 2000 },
			  .text = "a note!" };
	uint8_t lib = 0;

	while (lib_at(lib) != &notes)
		lib++;
	n.head.cookie = (struct cookie){ .slot = t->slot, .lib = lib, .generation = t->generation };
	return n;
}

static void record(const struct note *n)
{
	ring_record(ring, n, n->head.size);
}

/* Every ended operation is somewhere. */
static void conserved(void)
{
	cr_assert_eq(stat_get(spans_produced),
		     stat_get(spans_exported) + stat_get(spans_queued) +
			     stat_get(spans_sampled_out) + stat_get(spans_dropped_decode) +
			     stat_get(spans_dropped_filtered) + stat_get(spans_dropped_sdk) +
			     stat_get(spans_dropped_stale) + stat_get(spans_dropped_traces_off) +
			     stat_get(spans_dropped_queue) + stat_get(spans_dropped_too_large));
}

/* What the export thread does. */
static void deliver(struct batch *b)
{
	stat_add(spans_exported, b->nspans);
	pool_put(pool, b);
}

static struct batch *sent(void)
{
	ring_stop(ring);
	return pool_receive(pool, 0);
}

Test(ring, the_head_of_a_record_becomes_the_span_and_its_times_unix_times)
{
	struct note n = note_of(target);
	struct timespec boot, wall;
	struct batch *b;

	(void)clock_gettime(CLOCK_BOOTTIME, &boot);
	(void)clock_gettime(CLOCK_REALTIME, &wall);
	n.head.flags |= EVENT_REMOTE;
	n.head.parent_id[7] = 9;
	n.head.start_ns = (uint64_t)boot.tv_sec * 1000000000u + (uint64_t)boot.tv_nsec;
	n.head.end_ns = n.head.start_ns + 5000;
	record(&n);
	b = sent();
	cr_assert_not_null(b);
	cr_assert_eq(b->nspans, 1);
	cr_assert_eq(b->spans[0].trace_id[0], 1);
	cr_assert_eq(b->spans[0].span_id[0], 2);
	cr_assert_eq(b->spans[0].parent_id[7], 9);
	cr_assert_eq(b->spans[0].flags, 0x301);
	cr_assert_eq(b->spans[0].end_ns - b->spans[0].start_ns, 5000);
	cr_assert_lt(b->spans[0].start_ns / 1e9 - (double)wall.tv_sec, 2.0);
	cr_assert_gt(b->spans[0].start_ns / 1e9 - (double)wall.tv_sec, -1.0);
	cr_assert_eq(memcmp(b->spans[0].name.p, "a note!", 7), 0);
	cr_assert_eq(b->resources[b->spans[0].resource], target->resource);
	cr_assert_eq(target->spans[n.head.cookie.lib], 1);
	cr_assert_eq(target->last_event_ns, n.head.end_ns);
	cr_assert_eq(stat_get(tp_header), 1);
	cr_assert_eq(stat_get(tp_new), 0);
	deliver(b);
}

Test(ring, a_span_lives_on_when_the_record_is_overwritten)
{
	struct note n = note_of(target);
	struct batch *b;

	record(&n);
	memset(&n, 'x', sizeof(n));
	b = sent();
	cr_assert_eq(memcmp(b->spans[0].name.p, "a note!", 7), 0);
	deliver(b);
}

Test(ring, an_end_before_the_start_is_moved_to_the_start)
{
	struct note n = note_of(target);
	struct batch *b;

	n.head.end_ns = n.head.start_ns - 500;
	record(&n);
	b = sent();
	cr_assert_eq(b->spans[0].end_ns, b->spans[0].start_ns);
	deliver(b);
}

Test(ring, every_record_that_is_no_span_is_counted_once_by_reason)
{
	struct target *quiet = add_target(SIGNAL_METRICS);
	struct note n;

	ring_record(ring, "short", 5);
	cr_assert_eq(stat_get(spans_dropped_decode), 1);
	n = note_of(target);
	n.head.size = sizeof(n) + 1; /* more than the record has */
	ring_record(ring, &n, sizeof(n));
	cr_assert_eq(stat_get(spans_dropped_decode), 2);
	n.head.size = sizeof(n.head) - 1;
	ring_record(ring, &n, sizeof(n));
	cr_assert_eq(stat_get(spans_dropped_decode), 3);
	n.head.size = sizeof(n.head); /* shorter than the library takes */
	record(&n);
	cr_assert_eq(stat_get(spans_dropped_decode), 4);
	n = note_of(target);
	n.head.cookie.lib = 255;
	record(&n);
	cr_assert_eq(stat_get(spans_dropped_decode), 5);
	n = note_of(target);
	n.result = -EBADMSG;
	record(&n);
	cr_assert_eq(stat_get(spans_dropped_decode), 6);
	n = note_of(target);
	n.head.cookie.generation++;
	record(&n);
	n.head.cookie.slot = 65535;
	record(&n);
	cr_assert_eq(stat_get(spans_dropped_stale), 2);
	n = note_of(target);
	n.head.flags = 0;
	n.head.size = sizeof(n.head); /* a short event */
	record(&n);
	cr_assert_eq(stat_get(spans_sampled_out), 1);
	n = note_of(quiet);
	record(&n);
	cr_assert_eq(stat_get(spans_dropped_traces_off), 1);
	n = note_of(target);
	n.health = 1;
	record(&n);
	cr_assert_eq(stat_get(spans_dropped_filtered), 1);
	n = note_of(target);
	n.head.flags |= EVENT_HEALTH;
	record(&n);
	cr_assert_eq(stat_get(spans_dropped_filtered), 2);
	cr_assert_eq(stat_get(spans_queued), 0);
	cr_assert_eq(stat_get(events), 12);
	conserved();
}

Test(ring, what_is_left_to_an_sdk_is_counted_and_not_sent)
{
	struct note n = note_of(target);

	n.head.sdk = SDK_PARENT;
	record(&n);
	n.head.sdk = SDK_PARENT | SDK_LEFT;
	record(&n);
	n.head.flags &= ~EVENT_SAMPLED;
	n.head.size = sizeof(n.head); /* a short event */
	record(&n);
	cr_assert_eq(stat_get(spans_dropped_sdk), 2);
	cr_assert_eq(stat_get(spans_sampled_out), 0);
	cr_assert_eq(target->left, 2);
	cr_assert_eq(target->below, 3);
	conserved();
}

Test(ring, contexts_are_counted_by_where_they_came_from)
{
	struct note n = note_of(target);

	n.head.flags |= EVENT_BAD_TP;
	record(&n);
	n = note_of(target);
	n.head.flags |= EVENT_REMOTE;
	record(&n);
	n = note_of(target);
	n.head.parent_id[0] = 1; /* a child of something here */
	n.head.flags |= EVENT_LOCAL;
	record(&n);
	n.head.flags |= EVENT_STARTED;
	record(&n);
	cr_assert_eq(stat_get(tp_invalid), 1);
	cr_assert_eq(stat_get(tp_header), 1);
	cr_assert_eq(stat_get(tp_new), 1);
	cr_assert_eq(stat_get(tp_local), 1);
	cr_assert_eq(stat_get(tp_started), 1);
}

Test(ring, a_parent_that_is_inferred_is_said_to_be)
{
	struct note n = note_of(target);
	const struct attr *attr;
	struct batch *b;

	n.head.flags |= EVENT_LOCAL;
	record(&n);
	n.head.flags |= EVENT_STARTED;
	record(&n);
	b = sent();
	cr_assert_null(span_attr(&b->spans[0], "spoor.parent"));
	attr = span_attr(&b->spans[1], "spoor.parent");
	cr_assert_not_null(attr);
	cr_assert(str_eq(attr->s, "goroutine"));
	cr_assert_eq(b->spans[1].flags, 0x101, "it is not remote");
	deliver(b);
}

Test(ring, a_full_batch_is_sent_at_once_and_a_new_one_begun)
{
	struct note n = note_of(target);
	struct batch *b;

	for (int i = 0; i < SPANS + 1; i++)
		record(&n);
	cr_assert_eq(pool_queued(pool), SPANS);
	b = pool_receive(pool, 0);
	cr_assert_eq(b->nspans, SPANS);
	deliver(b);
	b = sent();
	cr_assert_eq(b->nspans, 1);
	deliver(b);
	conserved();
}

Test(ring, a_batch_whose_memory_is_used_up_is_sent_and_the_record_goes_into_the_next)
{
	struct note n = note_of(target);
	struct batch *b;

	n.wanted = ARENA * 2 / 3;
	record(&n);
	record(&n);
	b = pool_receive(pool, 0);
	cr_assert_eq(b->nspans, 1);
	deliver(b);
	b = sent();
	cr_assert_eq(b->nspans, 1);
	deliver(b);
	conserved();
}

Test(ring, a_record_that_fits_into_no_batch_is_dropped_and_the_next_one_goes_on)
{
	struct note n = note_of(target), big = n;
	struct batch *b;

	big.wanted = ARENA;
	record(&n);
	record(&big);
	record(&big);
	record(&n);
	cr_assert_eq(stat_get(spans_dropped_too_large), 2);
	conserved();
	b = pool_receive(pool, 0);
	cr_assert_eq(b->nspans, 1);
	deliver(b);
	b = sent();
	cr_assert_eq(b->nspans, 1);
	deliver(b);
}

Test(ring, what_was_not_kept_takes_no_memory_of_the_batch)
{
	struct note n = note_of(target), no = n;
	struct batch *b;

	no.health = 1;
	no.wanted = 1000;
	for (int i = 0; i < 100; i++)
		record(&no);
	no.health = 0;
	no.result = -EBADMSG;
	for (int i = 0; i < 100; i++)
		record(&no);
	record(&n);
	b = sent();
	cr_assert_eq(b->nspans, 1);
	cr_assert_lt(b->arena.used, 300);
	deliver(b);
	conserved();
}

Test(ring, when_nobody_takes_batches_the_oldest_spans_are_dropped_and_counted)
{
	struct note n = note_of(target);

	for (int i = 0; i < 100; i++)
		record(&n);
	cr_assert_gt(stat_get(spans_dropped_queue), 80 - SPANS);
	conserved();
}

Test(ring, attributes_beyond_the_most_are_left_out)
{
	struct note n = note_of(target);
	struct batch *b;

	n.nattrs = 200;
	record(&n);
	b = sent();
	cr_assert_eq(b->spans[0].nattrs, SPAN_ATTRS_MAX);
	deliver(b);
}

Test(ring, a_retired_target_still_gets_the_records_that_were_on_their_way)
{
	struct note n = note_of(target);

	targets_retire(table, target->slot);
	targets_reap(table);
	record(&n);
	cr_assert_eq(stat_get(spans_queued), 1);
	targets_reap(table);
	record(&n);
	cr_assert_eq(stat_get(spans_dropped_stale), 1);
}

Test(ring, in_steady_state_nothing_is_allocated)
{
	struct note n = note_of(target);
	struct mallinfo2 before, after;

	record(&n);
	before = mallinfo2();
	for (int i = 0; i < 10000; i++) {
		struct batch *b;

		record(&n);
		b = pool_receive(pool, 0);
		if (b)
			deliver(b);
	}
	after = mallinfo2();
	cr_assert_eq(before.uordblks, after.uordblks);
}
