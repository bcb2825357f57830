#include "metrics/process.h"

#include "discover/proc.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

static struct process_switches switches;

static struct process_numbers numbers(void)
{
	struct process_numbers n = { 0 };
	uint64_t start = 0;

	cr_assert_eq(proc_start_time("/proc", getpid(), &start), 0);
	cr_assert_eq(process_numbers(&n, "/proc", getpid(), start, &switches), 0);
	return n;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

Test(process_numbers, are_what_the_process_knows_of_itself)
{
	struct process_numbers before = numbers(), after;
	struct rusage use;
	size_t size = 64u << 20;
	char *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fds[10];

	cr_assert_neq(pages, MAP_FAILED);
	memset(pages, 1, size);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	for (volatile unsigned long i = 0; i < 200000000; i++)
		;
	(void)usleep(1000);
	after = numbers();
	(void)getrusage(RUSAGE_SELF, &use);
	cr_assert_eq(after.fds - before.fds, (int64_t)ARRAY_SIZE(fds));
	cr_assert_geq(after.resident_bytes - before.resident_bytes, (int64_t)size * 9 / 10);
	cr_assert_geq(after.virtual_bytes - before.virtual_bytes, (int64_t)size);
	cr_assert_float_eq(after.user_s, seconds(use.ru_utime), 0.05);
	cr_assert_float_eq(after.system_s, seconds(use.ru_stime), 0.05);
	cr_assert_gt(after.voluntary, before.voluntary);
	cr_assert_leq(after.voluntary, use.ru_nvcsw);
	cr_assert_geq(after.threads, 1);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		(void)close(fds[i]);
	(void)munmap(pages, size);
}

static pthread_mutex_t hold = PTHREAD_MUTEX_INITIALIZER;

static void *sleeper(void *arg)
{
	for (int i = 0; i < 60; i++)
		(void)usleep(1000);
	(void)pthread_mutex_lock(&hold);
	(void)pthread_mutex_unlock(&hold);
	(void)arg;
	return NULL;
}

static void *waiter(void *lock)
{
	(void)pthread_mutex_lock(lock);
	(void)pthread_mutex_unlock(lock);
	return NULL;
}

Test(process_numbers, switches_are_those_of_all_threads)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct process_numbers before = numbers(), after;
	pthread_t busy, idle;

	(void)pthread_mutex_lock(&lock);
	(void)pthread_mutex_lock(&hold);
	cr_assert_eq(pthread_create(&busy, NULL, sleeper, NULL), 0);
	cr_assert_eq(pthread_create(&idle, NULL, waiter, &lock), 0);
	(void)usleep(400000);
	after = numbers();
	cr_assert_geq(after.threads - before.threads, 1);
	cr_assert_geq(after.voluntary - before.voluntary, 50,
		      "the other thread has slept 50 times");
	before = after;
	(void)pthread_mutex_unlock(&lock);
	(void)pthread_mutex_unlock(&hold);
	(void)pthread_join(busy, NULL);
	(void)pthread_join(idle, NULL);
	after = numbers();
	cr_assert_geq(after.voluntary, before.voluntary, "also when threads have ended");
}

Test(process_numbers, another_process_of_that_pid_is_told)
{
	struct process_numbers n;

	cr_assert_eq(process_numbers(&n, "/proc", getpid(), 1, &switches), -ESRCH);
	cr_assert_eq(process_numbers(&n, "/proc", 0x3fffffff, 1, &switches), -ESRCH);
}
