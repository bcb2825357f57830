#include "trace/sampler.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct sampler parse(const char *name, const char *arg)
{
	struct sampler s = { .sample_below = 42, .sample_inbound = 42 };

	cr_assert_eq(sampler_parse(&s, name, arg), 0, "%s %s", name, arg);
	return s;
}

Test(sampler, always_on_takes_every_root_whatever_its_parent_says)
{
	struct sampler s = parse("always_on", "");

	cr_assert_eq(s.sample_below, UINT64_MAX);
	cr_assert_eq(s.sample_inbound, SAMPLE_ROOT);
}

Test(sampler, always_off_takes_none)
{
	cr_assert_eq(parse("always_off", "").sample_below, 0);
	cr_assert_eq(parse("parentbased_always_off", "").sample_below, 0);
}

Test(sampler, the_parentbased_ones_follow_the_inbound_flag)
{
	cr_assert_eq(parse("parentbased_always_on", "").sample_inbound, SAMPLE_LIKE_PARENT);
	cr_assert_eq(parse("parentbased_always_off", "").sample_inbound, SAMPLE_LIKE_PARENT);
	cr_assert_eq(parse("parentbased_traceidratio", "0.5").sample_inbound, SAMPLE_LIKE_PARENT);
	cr_assert_eq(parse("traceidratio", "0.5").sample_inbound, SAMPLE_ROOT);
}

Test(sampler, a_ratio_divides_the_trace_ids_as_the_go_sdk_does)
{
	/* opentelemetry-go: bound = ratio * 2^63, sampled when (last 8 bytes >> 1) < bound. */
	static const double ratios[] = { 0, 1e-9, 0.001, 0.1, 0.25, 0.5, 0.75, 0.999999 };

	for (size_t i = 0; i < ARRAY_SIZE(ratios); i++) {
		uint64_t bound = (uint64_t)(ratios[i] * 9223372036854775808.0);
		char arg[32];
		struct sampler s;

		(void)snprintf(arg, sizeof(arg), "%.17g", ratios[i]);
		s = parse("traceidratio", arg);
		for (int64_t d = -3; d <= 3; d++) {
			uint64_t id = (bound << 1) + (uint64_t)d;

			cr_assert_eq(id < s.sample_below, id >> 1 < bound, "ratio %s, id %lx", arg,
				     id);
		}
	}
}

Test(sampler, a_ratio_of_one_and_a_missing_one_take_everything)
{
	cr_assert_eq(parse("traceidratio", "1").sample_below, UINT64_MAX);
	cr_assert_eq(parse("traceidratio", "1.0").sample_below, UINT64_MAX);
	cr_assert_eq(parse("traceidratio", "").sample_below, UINT64_MAX);
	cr_assert_eq(parse("traceidratio", NULL).sample_below, UINT64_MAX);
}

Test(sampler, what_is_no_ratio_is_refused_and_out_stays_untouched)
{
	static const char *const bad[] = { "-0.1", "1.1",  "nan", "inf", "half",
					   "0.5x", " 0.5", "1e3", "0,5" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct sampler s = { .sample_below = 42 };

		cr_assert_eq(sampler_parse(&s, "traceidratio", bad[i]), -EINVAL, "'%s'", bad[i]);
		cr_assert_eq(s.sample_below, 42);
	}
}

Test(sampler, an_unknown_name_is_refused)
{
	struct sampler s;

	cr_assert_eq(sampler_parse(&s, "jaeger_remote", ""), -ENOENT);
	cr_assert_eq(sampler_parse(&s, "parentbased_", ""), -ENOENT);
	cr_assert_eq(sampler_parse(&s, "", ""), -ENOENT);
}
