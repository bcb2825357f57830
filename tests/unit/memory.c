/* Every allocation of the base parts fails once, one after the other: each call is refused cleanly
 * and writes nothing. */
#include "base/admin.h"
#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>

/* Counts down; the allocation that reaches 0 fails. Negative: none does. Volatile: the compiler
 * believes that malloc() touches it not. */
static volatile long countdown = -1;
static volatile bool failed;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_FAIL true
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);

static bool fails(void)
{
	if (countdown < 0 || countdown-- > 0)
		return false;
	failed = true;
	errno = ENOMEM; /* glibc insists on it */
	return true;
}

void *malloc(size_t n)
{
	return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
	return fails() ? NULL : __libc_realloc(p, n);
}
#else
#define CAN_FAIL false
#endif

static const char yaml[] =
	"otlp:\n  endpoint: http://c:4318\n  headers: {a: b, c: d}\nexporters: [otlp, stdout]\n"
	"resource:\n  attributes: {x: y}\ndiscovery: {namespaces: [a, b]}\nbatch: {spans: 7}\n";

/* Calls once with each allocation failing, until none is left that can. Number of calls. */
static long each_failure(int (*call)(void *arg), void *arg)
{
	for (long n = 0;; n++) {
		int r;

		failed = false;
		countdown = n;
		r = call(arg);
		countdown = -1;
		if (!failed) {
			cr_assert_eq(r, 0, "without a failure it succeeds");
			return n;
		}
		cr_assert_lt(n, 100000);
	}
}

static int load(void *path)
{
	char *argv[] = { (char *)"agent", (char *)"--config", path, (char *)"--log-level=error",
			 NULL };
	struct config *cfg = NULL;
	int r = config_load(&cfg, 4, argv, NULL);

	cr_assert_eq(r == 0, cfg != NULL, "out is written on success only");
	if (cfg)
		cr_assert_eq(cfg->batch_spans, 7);
	config_free(&cfg);
	return r;
}

static int write_page(void *f)
{
	return stats_write(f, false);
}

static size_t ready(void *arg, struct admin_check *checks, size_t max)
{
	(void)arg;
	(void)checks;
	(void)max;
	return 0;
}

static int start_admin(void *cfg)
{
	static const struct admin_source source = { .ready = ready };
	struct admin *a = NULL;
	int r = admin_start(&a, cfg, &source);

	cr_assert_eq(r == 0, a != NULL);
	admin_stop(&a);
	return r;
}

static void quiet(void)
{
	int null = open("/dev/null", O_WRONLY);

	(void)clearenv();
	(void)dup2(null, STDERR_FILENO);
	(void)close(null);
}

TestSuite(memory, .init = quiet);

Test(memory, a_configuration_is_read_or_refused_whichever_allocation_fails)
{
	char path[] = BUILD_DIR "/memory-XXXXXX";
	int fd;

	if (!CAN_FAIL)
		cr_skip_test("the sanitizer has its own allocator");
	fd = mkstemp(path);
	cr_assert(fd >= 0 && write(fd, yaml, strlen(yaml)) > 0);
	(void)close(fd);
	cr_assert_gt(each_failure(load, path), 100);
	(void)unlink(path);
}

Test(memory, a_page_of_metrics_is_written_or_refused_whichever_allocation_fails)
{
	FILE *f = fopen("/dev/null", "w");

	if (!CAN_FAIL)
		cr_skip_test("the sanitizer has its own allocator");
	stats_collector(stats_process, NULL);
	cr_assert_gt(each_failure(write_page, f), 50);
	(void)fclose(f);
}

Test(memory, the_admin_endpoint_starts_or_is_refused_whichever_allocation_fails)
{
	char *argv[] = { (char *)"agent", (char *)"--admin-listen=127.0.0.1",
			 (char *)"--admin-port=0", NULL };
	auto_config struct config *cfg = NULL;

	if (!CAN_FAIL)
		cr_skip_test("the sanitizer has its own allocator");
	cr_assert_eq(config_load(&cfg, 3, argv, NULL), 0);
	cr_assert_gt(each_failure(start_admin, cfg), 1);
}
