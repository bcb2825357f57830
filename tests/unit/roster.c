#include "discover/roster.h"

#include "base/stats.h"
#include "discover/worker.h"

#include <criterion/criterion.h>
#include <fcntl.h>

static struct roster *r;

static void set_up(void)
{
	cr_assert_eq(roster_new(&r), 0);
}

static void tear_down(void)
{
	roster_free(&r);
}

static struct entry *add(int pid)
{
	struct process proc = { .pid = pid, .start_time = 1 };

	return roster_add(r, &proc);
}

static bool count(struct entry *e, void *arg)
{
	(void)e;
	++*(size_t *)arg;
	return true;
}

static bool remove_even(struct entry *e, void *arg)
{
	(void)arg;
	if (e->proc.pid % 2 == 0)
		roster_remove(r, e, false);
	return true;
}

TestSuite(roster, .init = set_up, .fini = tear_down);

Test(roster, an_entry_is_found_by_pid_and_by_serial_until_it_is_removed)
{
	struct entry *a = add(7), *b = add(7 + ROSTER_BUCKETS); /* the same bucket */
	uint64_t serial = a->serial;

	cr_expect_eq(roster_find(r, 7), a);
	cr_expect_eq(roster_find(r, 7 + ROSTER_BUCKETS), b);
	cr_expect_eq(roster_find_serial(r, serial), a);
	roster_remove(r, a, false);
	cr_expect_null(roster_find(r, 7));
	cr_expect_null(roster_find_serial(r, serial));
	cr_expect_eq(roster_find(r, 7 + ROSTER_BUCKETS), b);
	cr_expect_neq(add(7)->serial, serial, "a serial is never used twice");
}

Test(roster, states_are_counted)
{
	struct entry *a = add(1), *b = add(2);

	roster_set(r, a, ROSTER_TRACED, "because %d", 1);
	roster_set(r, b, ROSTER_NOT_GO, "no");
	cr_expect_str_eq(a->reason, "because 1");
	roster_publish(r);
	cr_expect_eq(stat_get(discovered_traced), 1);
	cr_expect_eq(stat_get(instrumented_processes), 1);
	cr_expect_eq(stat_get(discovered_not_go), 1);
	cr_expect_eq(stat_get(discovered_pending), 0);
	roster_remove(r, a, true);
	roster_publish(r);
	cr_expect_eq(stat_get(discovered_traced), 0);
}

Test(roster, entries_may_be_removed_while_they_are_gone_through)
{
	size_t n = 0;

	for (int pid = 1; pid <= 100; pid++)
		cr_assert(add(pid));
	roster_foreach(r, remove_even, NULL);
	roster_foreach(r, count, &n);
	cr_expect_eq(n, 50);
}

Test(roster, the_last_few_that_were_traced_are_remembered_newest_first)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct entry *e;
	int pid = 100;

	for (int i = 1; i <= 100; i++) {
		e = add(i);
		if (i == 100)
			e->pidfd = fd;
		roster_set(r, e, ROSTER_ENDED, "the process has ended");
		roster_remove(r, e, true);
	}
	cr_expect_eq(fcntl(fd, F_GETFD), -1, "its pidfd is closed");
	cr_expect_eq(r->nended, ROSTER_ENDED_MAX);
	for (e = r->ended; e; e = e->next)
		cr_expect_eq(e->proc.pid, pid--);
	cr_expect_eq(pid, 100 - ROSTER_ENDED_MAX);
}
