/* clock.h - from the clock of the probes (CLOCK_BOOTTIME) to Unix time. One owner, no lock. */
#pragma once
#include <stdint.h>

/* Both clocks are slewed together, so the distance changes only when somebody sets the wall clock.
 * It is kept as it is while new measurements agree with it, or a child could seem to begin before
 * its parent. */
struct clock {
	int64_t offset_ns;    /* Unix time - CLOCK_BOOTTIME */
	uint64_t measured_ns; /* CLOCK_MONOTONIC, 0: never */
};

/* Measures anew if the last time is a second or longer ago. */
void clock_refresh(struct clock *c);
uint64_t clock_monotonic(void);

static inline uint64_t clock_unix(const struct clock *c, uint64_t boot_ns)
{
	return boot_ns + (uint64_t)c->offset_ns;
}
