#include "discover/plans.h"

#include "base/stats.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static char dir[] = BUILD_DIR "/plans-XXXXXX";
static struct plans *plans;

static void set_up(void)
{
	cr_assert(mkdtemp(dir));
	cr_assert_eq(plans_new(&plans, 2, 0, true), 0);
}

static void tear_down(void)
{
	char path[128];

	plans_free(&plans);
	for (char name = 'a'; name <= 'c'; name++) {
		(void)snprintf(path, sizeof(path), "%s/%c", dir, name);
		(void)unlink(path);
	}
	(void)rmdir(dir);
}

/* A file of that name and content, open. */
static int file(char name, const char *text)
{
	char path[128];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%c", dir, name);
	f = fopen(path, "w");
	cr_assert(f);
	(void)fputs(text, f);
	(void)fclose(f);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* How many analyses there have been. */
static unsigned long analyses(void)
{
	char *text = NULL, *at;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	unsigned long n;

	cr_assert(f);
	cr_assert_eq(stats_write(f, false), 0);
	(void)fclose(f);
	at = strstr(text, "spoor_binary_analysis_duration_seconds_count ");
	cr_assert(at);
	n = strtoul(at + strlen("spoor_binary_analysis_duration_seconds_count "), NULL, 10);
	free(text);
	return n;
}

TestSuite(plans, .init = set_up, .fini = tear_down);

Test(plans, a_file_is_analysed_once_however_often_it_is_asked_for)
{
	auto_close int fd = file('a', "no ELF file");
	auto_close int again = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	unsigned long before = analyses();

	for (int i = 0; i < 20; i++) {
		cr_expect_eq(plans_get(plans, fd)->why, GOBIN_NOT_ELF);
		cr_expect_eq(plans_get(plans, again)->why, GOBIN_NOT_GO,
			     "this test is written in C");
	}
	cr_expect_eq(analyses() - before, 2);
	cr_expect_neq(fcntl(fd, F_GETFD), -1, "the caller's fd stays open");
}

Test(plans, a_file_that_has_changed_is_analysed_anew)
{
	auto_close int fd = file('a', "no ELF file");
	unsigned long before = analyses();
	struct timespec times[2] = { { 1, 0 }, { 1, 0 } };

	(void)plans_get(plans, fd);
	/* The same size, and the time of the last change put back: the file's own change time still
	 * tells. */
	(void)usleep(20000);
	cr_assert_eq(futimens(fd, times), 0);
	(void)plans_get(plans, fd);
	cr_expect_eq(analyses() - before, 2);
}

Test(plans, the_one_that_was_used_longest_ago_makes_room)
{
	auto_close int a = file('a', "a"), b = file('b', "b"), c = file('c', "c");
	unsigned long before = analyses();

	(void)plans_get(plans, a);
	(void)plans_get(plans, b);
	(void)plans_get(plans, a);
	(void)plans_get(plans, c); /* instead of b */
	(void)plans_get(plans, a);
	cr_expect_eq(analyses() - before, 3);
	(void)plans_get(plans, b);
	cr_expect_eq(analyses() - before, 4);
}

Test(plans, a_failure_that_may_pass_is_not_remembered)
{
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* cannot be read */
	unsigned long before = analyses();

	cr_expect_eq(plans_get(plans, fd)->why, GOBIN_OPEN);
	cr_expect_eq(plans_get(plans, fd)->why, GOBIN_OPEN);
	cr_expect_eq(analyses() - before, 2);
	cr_expect_eq(plans_get(plans, -1)->why, GOBIN_OPEN);
}
