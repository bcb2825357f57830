#include "trace/target.h"

#include "pipeline/resource.h"
#include "trace/literals.h"
#include <criterion/criterion.h>
#include <pthread.h>

static struct targets *table;

static void set_up(void)
{
	cr_assert_eq(targets_new(&table, 3), 0);
}

static void tear_down(void)
{
	targets_free(&table);
}

TestSuite(target, .init = set_up, .fini = tear_down);

static struct resource *a_resource(void)
{
	struct resource_attr attr = { .key = "service.name", .value = "web" };
	struct resource *r = NULL;

	cr_assert_eq(resource_new(&r, &attr, 1), 0);
	return r;
}

static struct target *add(struct targets *t)
{
	struct resource *r = a_resource();
	struct target *target = NULL;
	uint32_t generation;
	uint16_t slot;

	cr_assert_eq(targets_reserve(t, &slot, &generation), 0);
	cr_assert_eq(target_new(&target, slot, generation, 1, &r, NULL, NULL, 0, SIGNAL_TRACES), 0);
	targets_publish(t, target);
	return target;
}

static struct cookie cookie_of(const struct target *t)
{
	return (struct cookie){ .slot = t->slot, .generation = t->generation };
}

static void count_live(const struct target *t, void *arg)
{
	cr_assert_neq(t->generation, 0);
	++*(int *)arg;
}

static int live(void)
{
	int n = 0;

	targets_foreach(table, count_live, &n);
	return n;
}

Test(target, a_published_target_is_found_by_its_cookie_only)
{
	struct target *t = add(table);
	struct cookie c = cookie_of(t);

	cr_assert_eq(targets_find(table, c), t);
	c.generation++;
	cr_assert_null(targets_find(table, c));
	c = cookie_of(t);
	c.slot++;
	cr_assert_null(targets_find(table, c));
	c.slot = 65535;
	cr_assert_null(targets_find(table, c));
	cr_assert_null(targets_find(table, (struct cookie){ 0 }));
}

Test(target, it_owns_what_it_is_given_and_copies_the_probe_paths)
{
	char live_path[] = "/livez";
	struct str paths[] = { str_of(live_path), { "", 0 }, str_of("/ready") };
	struct resource *r = a_resource();
	struct target *t = NULL;

	cr_assert_eq(target_new(&t, 1, 2, 3, &r, NULL, paths, ARRAY_SIZE(paths), SIGNAL_METRICS),
		     0);
	cr_assert_null(r);
	live_path[1] = 'X';
	cr_assert_eq(t->nprobe_paths, 3);
	cr_assert(str_eq(t->probe_paths[0], "/livez"));
	cr_assert(str_eq(t->probe_paths[1], ""));
	cr_assert(str_eq(t->probe_paths[2], "/ready"));
	cr_assert_eq(t->signals, SIGNAL_METRICS);
	target_free(&t);
	cr_assert_null(t);
	target_free(&t);
}

Test(target, a_retired_one_is_found_until_the_ring_was_read_twice)
{
	struct target *t = add(table);
	struct cookie c = cookie_of(t);

	targets_retire(table, t->slot);
	cr_assert_eq(live(), 0);
	cr_assert(targets_retiring(table));
	cr_assert_eq(targets_find(table, c), t);
	targets_reap(table);
	cr_assert_eq(targets_find(table, c), t, "a record that was on its way is still attributed");
	targets_reap(table);
	cr_assert_null(targets_find(table, c));
	cr_assert_not(targets_retiring(table));
}

Test(target, a_slot_is_reused_with_a_new_generation_and_after_all_others)
{
	struct target *first = add(table);
	struct cookie old = cookie_of(first);
	uint16_t slots[3];

	targets_retire(table, first->slot);
	targets_reap(table);
	targets_reap(table);
	for (int i = 0; i < 3; i++) {
		uint32_t generation;

		cr_assert_eq(targets_reserve(table, &slots[i], &generation), 0);
		cr_assert_neq(generation, 0);
		if (slots[i] == old.slot)
			cr_assert_neq(generation, old.generation);
	}
	cr_assert_eq(slots[2], old.slot);
	cr_assert_null(targets_find(table, old));
}

Test(target, a_full_table_says_so_until_one_is_reaped_or_cancelled)
{
	struct target *t = add(table);
	uint32_t generation;
	uint16_t slot, other;

	(void)add(table);
	cr_assert_eq(targets_reserve(table, &slot, &generation), 0);
	cr_assert_eq(targets_reserve(table, &other, &generation), -ENOSPC);
	targets_cancel(table, slot);
	targets_cancel(table, slot);
	cr_assert_eq(targets_reserve(table, &other, &generation), 0);
	cr_assert_eq(other, slot);
	targets_retire(table, t->slot);
	targets_retire(table, t->slot);
	targets_reap(table);
	cr_assert_eq(targets_reserve(table, &other, &generation), -ENOSPC);
	targets_reap(table);
	cr_assert_eq(targets_reserve(table, &other, &generation), 0);
	cr_assert_eq(targets_reserve(table, &other, &generation), -ENOSPC);
}

Test(target, a_table_of_no_or_too_many_slots_is_refused)
{
	struct targets *t = NULL;

	cr_assert_eq(targets_new(&t, 0), -EINVAL);
	cr_assert_eq(targets_new(&t, 65537), -EINVAL);
	cr_assert_eq(targets_new(&t, 65536), 0);
	targets_free(&t);
	targets_free(&t);
}

/* Three threads as in the agent; TSan watches. */
static atomic_bool ending;
static atomic_ullong last_cookie;

static void *events(void *arg)
{
	uint64_t *found = arg;

	while (!atomic_load(&ending)) {
		uint64_t bits = atomic_load(&last_cookie);
		struct target *t;
		struct cookie c;

		memcpy(&c, &bits, sizeof(c));
		t = targets_find(table, c);
		if (t) {
			cr_assert_eq(t->generation, c.generation);
			cr_assert_eq(t->pid, 1);
			(void)atomic_fetch_add(&t->spans[0], 1);
			++*found;
		}
		targets_reap(table);
	}
	return NULL;
}

static void *status(void *arg)
{
	while (!atomic_load(&ending)) {
		int n = 0;

		targets_foreach(table, count_live, &n);
		cr_assert_leq(n, 3);
	}
	return arg;
}

Test(target, worker_events_and_status_page_use_the_table_at_once)
{
	pthread_t threads[2];
	uint64_t found = 0;

	cr_assert_eq(pthread_create(&threads[0], NULL, events, &found), 0);
	cr_assert_eq(pthread_create(&threads[1], NULL, status, NULL), 0);
	for (int i = 0; i < 2000; i++) {
		struct resource *r = a_resource();
		struct target *t = NULL;
		struct cookie c = { 0 };
		uint64_t bits;

		while (targets_reserve(table, &c.slot, &c.generation) == -ENOSPC)
			(void)sched_yield();
		cr_assert_eq(
			target_new(&t, c.slot, c.generation, 1, &r, NULL, NULL, 0, SIGNAL_TRACES),
			0);
		targets_publish(table, t);
		memcpy(&bits, &c, sizeof(bits));
		atomic_store(&last_cookie, bits);
		(void)sched_yield();
		targets_retire(table, c.slot);
	}
	atomic_store(&ending, true);
	(void)pthread_join(threads[0], NULL);
	(void)pthread_join(threads[1], NULL);
	cr_assert_gt(found, 0);
}

static struct target *named(const struct target *t, const char *service)
{
	struct resource_attr attr = { .key = "service.name", .value = service };
	struct resource *r = NULL;
	struct target *target = NULL;

	cr_assert_eq(resource_new(&r, &attr, 1), 0);
	cr_assert_eq(
		target_new(&target, t->slot, t->generation, 1, &r, NULL, NULL, 0, SIGNAL_TRACES),
		0);
	return target;
}

Test(target, what_is_told_of_one_changes_between_two_drains_and_its_counters_go_on)
{
	struct target *t = add(table), *other = add(table), *again;
	struct cookie c = cookie_of(t);
	uint64_t trials[TARGET_TRIALS];

	atomic_store(&t->spans[2], 7);
	atomic_store(&t->left, 3);
	atomic_store(&t->below, 4);
	atomic_store(&t->trials[1], 5);
	atomic_store(&t->last_event_ns, 99);
	again = named(t, "web");
	cr_assert_eq(targets_rename(table, &again), -EALREADY, "it is web already");
	target_free(&again);
	cr_assert_not(targets_retiring(table));
	again = named(t, "shop");
	cr_assert_eq(targets_rename(table, &again), 0);
	cr_assert_null(again);
	again = named(t, "shop");
	cr_assert_eq(targets_rename(table, &again), -EALREADY, "it will be");
	target_free(&again);
	again = named(t, "store");
	cr_assert_eq(targets_rename(table, &again), 0);
	cr_assert(targets_retiring(table), "events is to look");
	cr_assert_str_eq(targets_find(table, c)->resource->service, "web");
	targets_reap(table);
	cr_assert_not(targets_retiring(table));
	t = targets_find(table, c);
	cr_assert_str_eq(t->resource->service, "store");
	cr_assert_eq(atomic_load(&t->spans[2]), 7);
	cr_assert_eq(atomic_load(&t->left), 3);
	cr_assert_eq(atomic_load(&t->below), 4);
	cr_assert(targets_trials(table, t->slot, trials));
	cr_assert_eq(trials[1], 5);
	cr_assert_eq(atomic_load(&t->last_event_ns), 99);
	cr_assert_eq(targets_find(table, cookie_of(other)), other);
	cr_assert_eq(live(), 2);
}

Test(target, one_that_was_retired_meanwhile_is_not_told_of_anew)
{
	struct target *t = add(table), *again = named(t, "shop"), *late = named(t, "late");
	struct cookie c = cookie_of(t);

	cr_assert_eq(targets_rename(table, &again), 0);
	targets_retire(table, c.slot);
	cr_assert_eq(targets_rename(table, &late), -ENOENT);
	target_free(&late);
	targets_reap(table);
	cr_assert_str_eq(targets_find(table, c)->resource->service, "shop");
	targets_reap(table);
	cr_assert_null(targets_find(table, c));
	cr_assert_not(targets_retiring(table));
	again = add(table); /* one that is left in the table is freed with it */
	late = named(again, "shop");
	cr_assert_eq(targets_rename(table, &late), 0);
}
