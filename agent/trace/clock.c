#include "trace/clock.h"

#include <time.h>

#define NS_PER_S 1000000000
/* Measurements that differ less are the same: it takes a few hundred ns to read two clocks, and the
 * best of a few counts. */
#define NOISE_NS 20000
#define TRIES    5

static int64_t now(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

uint64_t clock_monotonic(void)
{
	return (uint64_t)now(CLOCK_MONOTONIC);
}

void clock_refresh(struct clock *c)
{
	int64_t best = INT64_MAX, offset = 0, change;
	uint64_t at = clock_monotonic();

	if (c->measured_ns && at - c->measured_ns < NS_PER_S)
		return;
	for (int i = 0; i < TRIES; i++) {
		int64_t before = now(CLOCK_BOOTTIME), wall = now(CLOCK_REALTIME),
			after = now(CLOCK_BOOTTIME);

		if (after - before >= best)
			continue;
		best = after - before;
		offset = wall - (before + best / 2);
	}
	change = offset - c->offset_ns;
	if (!c->measured_ns || change > NOISE_NS + best || change < -NOISE_NS - best)
		c->offset_ns = offset;
	c->measured_ns = at;
}
