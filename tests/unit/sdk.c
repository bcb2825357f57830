#include "discover/sdk.h"

#include "base/config.h"
#include "trace/lib.h"
#include "trace/plan.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEEDS 2u

static const struct lib_sdk_off off[] = {
	{ "TOY_EXPORTER", "none", HEEDS },
	{ "TOY_SAMPLER", "off", 0 },
	{ 0 },
};
static const struct lib_sdk toy_sdk = { .name = "Toy", .off = off };
static const struct lib toy = { .name = "toy", .sdk = &toy_sdk };
static const struct lib plain = { .name = "plain" };

static char proc[64];

/* A process 7 whose environment is that. */
static void with_environment(const char *text, size_t n)
{
	char path[96];
	FILE *f;

	(void)snprintf(proc, sizeof(proc), BUILD_DIR "/sdk-XXXXXX");
	cr_assert(mkdtemp(proc));
	(void)snprintf(path, sizeof(path), "%s/7", proc);
	cr_assert_eq(mkdir(path, 0700), 0);
	(void)snprintf(path, sizeof(path), "%s/7/environ", proc);
	f = fopen(path, "w");
	cr_assert(f);
	cr_assert_eq(fwrite(text, 1, n, f), n);
	cr_assert_eq(fclose(f), 0);
}

static void remove_it(void)
{
	char path[96];

	(void)snprintf(path, sizeof(path), "%s/7/environ", proc);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/7", proc);
	(void)rmdir(path);
	(void)rmdir(proc);
}

static struct sdk_verdict judge_with(const char *mode, uint32_t parts, const char *environment,
				     size_t n)
{
	struct plan_lib libs[] = { { .lib = &plain, .parts = 1 },
				   { .lib = &toy, .parts = parts, .version = "v1.2.3" } };
	struct plan plan = { .libs = libs, .nlibs = 2 };
	char word[16];
	struct config cfg = { .sdk = word, .proc_root = proc };
	struct sdk_verdict v;

	(void)snprintf(word, sizeof(word), "%s", mode);
	with_environment(environment, n);
	sdk_judge(&v, &cfg, &plan, 7);
	remove_it();
	return v;
}

#define JUDGE(mode, parts, environment) judge_with(mode, parts, environment, sizeof(environment))

Test(sdk, a_program_without_one_is_traced_as_it_is)
{
	struct sdk_verdict v = JUDGE("never", 0, "A=b");

	cr_assert_not(v.found || v.refused || v.use || v.text[0]);
}

Test(sdk, by_default_its_spans_are_parents_and_its_operations_are_left_to_it)
{
	struct sdk_verdict v = JUDGE("auto", 1, "A=b");

	cr_assert(v.found && !v.refused);
	cr_assert_eq(v.use, SDK_PARENT | SDK_LEFT);
	cr_assert(strncmp(v.text, "Toy v1.2.3: operations of which", 31) == 0, "%s", v.text);
}

Test(sdk, always_means_that_nothing_is_left_and_never_that_nothing_is_traced)
{
	struct sdk_verdict always = JUDGE("always", 1, ""), never = JUDGE("never", 1, "");

	cr_assert(!always.refused && always.use == SDK_PARENT);
	cr_assert(never.refused && !never.use);
	cr_assert(strstr(never.text, "(sdk: never)"));
}

Test(sdk, one_that_its_process_has_turned_off_counts_as_none)
{
	struct sdk_verdict v = JUDGE("never", 1, "A=b\0TOY_SAMPLER=OFF\0C=d");

	cr_assert(v.found && !v.refused && !v.use);
	cr_assert(strstr(v.text, "turned off by TOY_SAMPLER=off"), "%s", v.text);
	cr_assert_eq(JUDGE("auto", 1, "TOY_SAMPLER=on").use, SDK_PARENT | SDK_LEFT);
}

Test(sdk, a_variable_counts_only_where_something_in_the_program_heeds_it)
{
	cr_assert_eq(JUDGE("auto", 1, "TOY_EXPORTER=none").use, SDK_PARENT | SDK_LEFT);
	cr_assert_eq(JUDGE("auto", 1 | HEEDS, "TOY_EXPORTER=none").use, 0);
}
