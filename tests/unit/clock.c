#include "trace/clock.h"

#include <criterion/criterion.h>
#include <time.h>

static int64_t now(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int64_t off_by(const struct clock *c)
{
	return (int64_t)clock_unix(c, (uint64_t)now(CLOCK_BOOTTIME)) - now(CLOCK_REALTIME);
}

static bool near(const struct clock *c)
{
	return off_by(c) > -5000000 && off_by(c) < 5000000;
}

Test(clock, a_time_of_the_probes_becomes_unix_time)
{
	struct clock c = { 0 };

	clock_refresh(&c);
	cr_assert(near(&c), "%ld ns", off_by(&c));
}

Test(clock, after_the_wall_clock_was_stepped_times_are_right_within_a_second)
{
	static const int64_t steps[] = { 3600000000000, -86400000000000, 1000000, -1000000 };

	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct clock c = { 0 };

		clock_refresh(&c);
		c.offset_ns += steps[i]; /* as if the wall clock had been there before */
		clock_refresh(&c);
		c.measured_ns -= 1000000000; /* a second later */
		clock_refresh(&c);
		cr_assert(off_by(&c) > -500000 && off_by(&c) < 500000, "step %ld: %ld ns", steps[i],
			  off_by(&c));
	}
}

Test(clock, while_nobody_sets_the_wall_clock_the_distance_stays_the_same_to_the_nanosecond)
{
	struct clock c = { 0 };
	int64_t first;

	clock_refresh(&c);
	first = c.offset_ns;
	for (int i = 0; i < 1000; i++) {
		c.measured_ns -= 1000000000;
		clock_refresh(&c);
	}
	cr_assert_eq(c.offset_ns, first);
}
