/* criterion.h - the part of criterion that our tests use, for builds in which criterion itself
 * cannot run: it maps memory at addresses that ThreadSanitizer keeps for itself. A test is a child
 * process here, too. Includes main(). */
#pragma once
#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct plain_options {
	void (*init)(void), (*fini)(void);
	double timeout; /* s */
	bool disabled;
};

struct plain_test {
	const char *suite, *name; /* name NULL: what all tests of a suite have */
	void (*run)(void);
	struct plain_options options;
	struct plain_test *next;
};

#define PLAIN_SKIPPED 77

static struct plain_test *plain_tests;
static bool plain_failed;

#define PLAIN_ENTRY(id, suite_, name_, run_, ...)                                                  \
	static struct plain_test id = { suite_, name_, run_, { __VA_ARGS__ }, NULL };              \
	__attribute__((constructor)) static void id##_add(void)                                    \
	{                                                                                          \
		id.next = plain_tests;                                                             \
		plain_tests = &id;                                                                 \
	}

#define Test(suite, name, ...)                                                                     \
	static void suite##_##name##_run(void);                                                    \
	PLAIN_ENTRY(suite##_##name##_test, #suite, #name, suite##_##name##_run, __VA_ARGS__)       \
	static void suite##_##name##_run(void)
#define TestSuite(suite, ...) PLAIN_ENTRY(suite##_suite, #suite, NULL, NULL, __VA_ARGS__)

__attribute__((format(printf, 5, 6))) static inline void
plain_fail(bool fatal, const char *file, int line, const char *what, const char *fmt, ...)
{
	va_list ap;

	(void)fprintf(stderr, "%s:%d: %s:", file, line, what);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	plain_failed = true;
	if (fatal)
		_exit(1);
}

#define PLAIN(fatal, cond, what, ...)                                                              \
	((cond) ? (void)0 : plain_fail(fatal, __FILE__, __LINE__, what, " " __VA_ARGS__))
#define PLAIN_OP(fatal, a, op, b, ...) PLAIN(fatal, (a)op(b), #a " " #op " " #b, __VA_ARGS__)
#define PLAIN_STR(fatal, a, op, b, ...)                                                            \
	PLAIN(fatal, strcmp(a, b) op 0, "'" #a "' " #op " '" #b "'", __VA_ARGS__)

#define cr_assert(c, ...)               PLAIN(true, c, #c, __VA_ARGS__)
#define cr_assert_not(c, ...)           PLAIN(true, !(c), "not " #c, __VA_ARGS__)
#define cr_assert_eq(a, b, ...)         PLAIN_OP(true, a, ==, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...)        PLAIN_OP(true, a, !=, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...)         PLAIN_OP(true, a, <, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...)        PLAIN_OP(true, a, <=, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...)         PLAIN_OP(true, a, >, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...)        PLAIN_OP(true, a, >=, b, __VA_ARGS__)
#define cr_assert_null(a, ...)          PLAIN(true, (a) == NULL, #a " is NULL", __VA_ARGS__)
#define cr_assert_not_null(a, ...)      PLAIN(true, (a) != NULL, #a " is not NULL", __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)     PLAIN_STR(true, a, ==, b, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...)    PLAIN_STR(true, a, !=, b, __VA_ARGS__)
#define cr_assert_str_empty(a, ...)     PLAIN(true, *(a) == '\0', #a " is empty", __VA_ARGS__)
#define cr_assert_str_not_empty(a, ...) PLAIN(true, *(a) != '\0', #a " is not empty", __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...)  PLAIN(true, memcmp(a, b, n) == 0, #a " == " #b, __VA_ARGS__)
#define cr_assert_float_eq(a, b, e, ...)                                                           \
	PLAIN(true, fabs((double)(a) - (double)(b)) <= (e), #a " == " #b, __VA_ARGS__)
#define cr_expect(c, ...)               PLAIN(false, c, #c, __VA_ARGS__)
#define cr_expect_not(c, ...)           PLAIN(false, !(c), "not " #c, __VA_ARGS__)
#define cr_expect_eq(a, b, ...)         PLAIN_OP(false, a, ==, b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...)        PLAIN_OP(false, a, !=, b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...)         PLAIN_OP(false, a, <, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...)        PLAIN_OP(false, a, <=, b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...)         PLAIN_OP(false, a, >, b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...)        PLAIN_OP(false, a, >=, b, __VA_ARGS__)
#define cr_expect_null(a, ...)          PLAIN(false, (a) == NULL, #a " is NULL", __VA_ARGS__)
#define cr_expect_not_null(a, ...)      PLAIN(false, (a) != NULL, #a " is not NULL", __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...)     PLAIN_STR(false, a, ==, b, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...)    PLAIN_STR(false, a, !=, b, __VA_ARGS__)
#define cr_expect_str_empty(a, ...)     PLAIN(false, *(a) == '\0', #a " is empty", __VA_ARGS__)
#define cr_expect_str_not_empty(a, ...) PLAIN(false, *(a) != '\0', #a " is not empty", __VA_ARGS__)
#define cr_expect_arr_eq(a, b, n, ...)  PLAIN(false, memcmp(a, b, n) == 0, #a " == " #b, __VA_ARGS__)
#define cr_expect_float_eq(a, b, e, ...)                                                           \
	PLAIN(false, fabs((double)(a) - (double)(b)) <= (e), #a " == " #b, __VA_ARGS__)
#define cr_skip(...)                                                                               \
	((void)fprintf(stderr, "skipped: " __VA_ARGS__), (void)fputc('\n', stderr),                \
	 _exit(PLAIN_SKIPPED))
#define cr_skip_test(...) cr_skip(__VA_ARGS__)

static inline void plain_run(const struct plain_test *test)
{
	const struct plain_test *suite = plain_tests;

	while (suite && (suite->name || strcmp(suite->suite, test->suite) != 0))
		suite = suite->next;
	(void)alarm((unsigned)ceil(test->options.timeout));
	if (suite && suite->options.init)
		suite->options.init();
	if (test->options.init)
		test->options.init();
	test->run();
	if (test->options.fini)
		test->options.fini();
	if (suite && suite->options.fini)
		suite->options.fini();
	exit(plain_failed);
}

/* Criterion's --filter=PATTERN over suite/name; its other options are ignored. */
int main(int argc, char **argv)
{
	unsigned tested = 0, failed = 0, skipped = 0;
	const char *filter = "*";
	char name[256];

	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "--filter=", 9) == 0)
			filter = argv[i] + 9;
	for (const struct plain_test *t = plain_tests; t; t = t->next) {
		int status = 0;
		pid_t pid;

		(void)snprintf(name, sizeof(name), "%s/%s", t->suite, t->name ? t->name : "");
		if (!t->name || t->options.disabled || fnmatch(filter, name, 0) != 0)
			continue;
		(void)fflush(NULL);
		pid = fork();
		if (pid == 0)
			plain_run(t);
		tested++;
		if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
			(void)printf("[FAIL] %s: signal %d\n", name, WTERMSIG(status));
			failed++;
		} else if (WEXITSTATUS(status) == PLAIN_SKIPPED) {
			(void)printf("[SKIP] %s\n", name);
			skipped++;
		} else if (WEXITSTATUS(status)) {
			(void)printf("[FAIL] %s\n", name);
			failed++;
		}
	}
	(void)printf("Tested: %u | Passing: %u | Failing: %u | Skipped: %u\n", tested,
		     tested - failed - skipped, failed, skipped);
	return failed != 0;
}
