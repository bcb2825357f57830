#include "discover/trial.h"

#include "trace/span.h"
#include <criterion/criterion.h>

#define SECOND 1000000000ull

static struct trial trial;
static uint64_t counts[TARGET_TRIALS], now;

static enum trial_verdict look(void)
{
	return trial_look(&trial, counts, now);
}

static void give_up(void)
{
	counts[TRIAL_IDLE] += 20000;
	cr_assert_eq(look(), TRIAL_ENDS);
}

Test(trial, hits_that_tell_nothing_new_end_it)
{
	counts[TRIAL_IDLE] = 999;
	cr_assert_eq(look(), TRIAL_STAYS);
	counts[TRIAL_IDLE] = 1000;
	cr_assert_eq(look(), TRIAL_ENDS);
	counts[TRIAL_IDLE] = 5000;
	now = 1000 * SECOND;
	cr_assert_eq(look(), TRIAL_STAYS);
}

Test(trial, no_hits_cost_nothing_and_end_nothing)
{
	counts[TRIAL_MISSED] = 1000000;
	now = 1000 * SECOND;
	cr_assert_eq(look(), TRIAL_STAYS);
}

Test(trial, one_hit_that_tells_something_pays_for_many)
{
	counts[TRIAL_IDLE] = 900;
	counts[TRIAL_GAINED] = 1;
	cr_assert_eq(look(), TRIAL_STAYS);
	counts[TRIAL_IDLE] += 19999;
	cr_assert_eq(look(), TRIAL_STAYS);
	counts[TRIAL_IDLE] += 1;
	cr_assert_eq(look(), TRIAL_ENDS);
}

Test(trial, it_begins_again_where_something_is_missed_after_longer_and_longer_waits)
{
	uint64_t wait = 10 * SECOND;

	give_up();
	for (int i = 0; i < 10; i++) {
		counts[TRIAL_MISSED]++;
		now += wait - 1;
		cr_assert_eq(look(), TRIAL_STAYS);
		now++;
		cr_assert_eq(look(), TRIAL_BEGINS);
		give_up();
		wait = 2 * wait < 600 * SECOND ? 2 * wait : 600 * SECOND;
	}
	now += 10000 * SECOND;
	cr_assert_eq(look(), TRIAL_STAYS, "nothing was missed");
}

Test(trial, what_failed_is_tried_again)
{
	give_up();
	trial_undone(&trial);
	give_up();
	now += 100 * SECOND;
	counts[TRIAL_MISSED]++;
	cr_assert_eq(look(), TRIAL_BEGINS);
	trial_undone(&trial);
	now += 100 * SECOND;
	counts[TRIAL_MISSED]++;
	cr_assert_eq(look(), TRIAL_BEGINS);
}
