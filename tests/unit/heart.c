#include "base/heart.h"

#include <criterion/criterion.h>
#include <unistd.h>

Test(heart, a_thread_that_never_began_is_not_late)
{
	cr_assert_eq(heart_age(HEART_WORKER), 0);
	cr_assert_not(heart_watched(HEART_WORKER));
}

Test(heart, the_age_grows_from_the_last_beat_and_a_new_beat_resets_it)
{
	double before;

	heart_beat(HEART_EVENTS);
	(void)usleep(20000);
	before = heart_age(HEART_EVENTS);
	cr_assert_geq(before, 0.02);
	cr_assert_leq(before, 5);
	heart_beat(HEART_EVENTS);
	cr_assert_lt(heart_age(HEART_EVENTS), before);
	cr_assert_eq(heart_age(HEART_CONTROL), 0, "another thread's heart is its own");
}

Test(heart, a_thread_that_ended_on_purpose_is_not_late)
{
	heart_beat(HEART_EXPORT);
	cr_assert(heart_watched(HEART_EXPORT));
	heart_stop(HEART_EXPORT);
	(void)usleep(1000);
	cr_assert_eq(heart_age(HEART_EXPORT), 0);
	cr_assert_not(heart_watched(HEART_EXPORT));
}

Test(heart, every_thread_has_a_name)
{
	for (int h = 0; h < HEART_COUNT; h++)
		cr_assert(heart_names[h] && *heart_names[h]);
}
