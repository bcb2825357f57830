#include "base/heart.h"

#include <stdatomic.h>
#include <time.h>

const char *const heart_names[HEART_COUNT] = {
	[HEART_CONTROL] = "control", [HEART_WORKER] = "worker",   [HEART_EVENTS] = "events",
	[HEART_EXPORT] = "export",   [HEART_METRICS] = "metrics",
};

/* CLOCK_MONOTONIC of the last beat, 0: not watched. That clock stands still while the machine
 * sleeps, so nobody is late after a suspend. */
static atomic_ullong last[HEART_COUNT];

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void heart_beat(enum heart h)
{
	atomic_store_explicit(&last[h], now_ns(), memory_order_relaxed);
}

bool heart_watched(enum heart h)
{
	return atomic_load_explicit(&last[h], memory_order_relaxed) != 0;
}

double heart_age(enum heart h)
{
	uint64_t then = atomic_load_explicit(&last[h], memory_order_relaxed);
	uint64_t now = now_ns();

	return then && now > then ? (double)(now - then) / 1e9 : 0;
}

void heart_stop(enum heart h)
{
	atomic_store_explicit(&last[h], 0, memory_order_relaxed);
}
