#include "base/slow.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

struct thing {
	pthread_mutex_t *gate; /* NULL: does not wait */
	int did;
};

static atomic_int dropped;

static void do_thing(void *arg)
{
	struct thing *t = arg;

	if (t->gate) {
		(void)pthread_mutex_lock(t->gate);
		(void)pthread_mutex_unlock(t->gate);
	}
	t->did = 1;
}

static void drop_thing(void *arg)
{
	free(arg);
	atomic_fetch_add(&dropped, 1);
}

static struct thing *thing(pthread_mutex_t *gate)
{
	struct thing *t = calloc(1, sizeof(*t));

	cr_assert(t);
	t->gate = gate;
	return t;
}

static double seconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void all_come_back(void)
{
	for (double until = seconds() + 5; slow_out() && seconds() < until;)
		(void)usleep(1000);
	cr_assert_eq(slow_out(), 0);
}

Test(slow, a_call_that_returns_in_time_is_a_call)
{
	struct thing *t = thing(NULL);

	cr_assert_eq(slow_call(do_thing, drop_thing, t, 1, 10000), 0);
	cr_assert_eq(t->did, 1);
	cr_assert_eq(slow_out(), 0);
	free(t);
	cr_assert_eq(atomic_load(&dropped), 0);
}

Test(slow, one_that_does_not_return_is_left_behind_and_what_it_had_goes_when_it_does)
{
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	struct thing *other = thing(NULL);
	double began = seconds();

	(void)pthread_mutex_lock(&gate);
	cr_assert_eq(slow_call(do_thing, drop_thing, thing(&gate), 1, 100), -ETIMEDOUT);
	cr_assert_geq(seconds() - began, 0.1);
	cr_assert_lt(seconds() - began, 5);
	cr_assert_eq(slow_out(), 1);
	began = seconds();
	cr_assert_eq(slow_call(do_thing, drop_thing, other, 1, 10000), -EBUSY);
	cr_assert_lt(seconds() - began, 1, "there is nothing to wait for");
	cr_assert_eq(other->did, 0);
	cr_assert_eq(slow_call(do_thing, drop_thing, other, 2, 10000), 0, "another device");
	(void)pthread_mutex_unlock(&gate);
	all_come_back();
	for (double until = seconds() + 5; !atomic_load(&dropped) && seconds() < until;)
		(void)usleep(1000);
	cr_assert_eq(atomic_load(&dropped), 1);
	cr_assert_eq(slow_call(do_thing, drop_thing, other, 1, 10000), 0, "it answers again");
	free(other);
}

Test(slow, no_more_than_so_many_are_left_behind)
{
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	int late = 0, refused = 0;

	(void)pthread_mutex_lock(&gate);
	for (uint64_t key = 0; key < 40; key++) {
		struct thing *t = thing(&gate);

		if (slow_call(do_thing, drop_thing, t, key, 1) == -ETIMEDOUT) {
			late++;
		} else {
			refused++;
			free(t);
		}
	}
	cr_assert_eq(late, 16);
	cr_assert_eq(refused, 24);
	(void)pthread_mutex_unlock(&gate);
	all_come_back();
}

Test(slow, a_file_that_is_held_by_its_path_only_is_known_and_can_be_read)
{
	auto_close int fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	auto_close int again = slow_reopen(fd);
	struct stat st, known;
	char magic[4];

	cr_assert_eq(slow_stat(fd, &known), 0);
	cr_assert_eq(stat("/proc/self/exe", &st), 0);
	cr_assert_eq(known.st_dev, st.st_dev);
	cr_assert_eq(known.st_ino, st.st_ino);
	cr_assert_eq(known.st_size, st.st_size);
	cr_assert_eq(known.st_mtim.tv_nsec, st.st_mtim.tv_nsec);
	cr_assert_eq(read(fd, magic, 4), -1, "O_PATH");
	cr_assert_eq(read(again, magic, 4), 4);
	cr_assert_eq(magic[1], 'E');
	cr_assert_eq(slow_stat(-1, &known), -EBADF);
	cr_assert_eq(slow_reopen(-1), -ENOENT);
}
