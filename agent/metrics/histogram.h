/* histogram.h - one histogram that is being filled: with explicit bounds, or base-2 exponential
 * (OpenTelemetry metrics data model, "ExponentialHistogram"). Allocates nothing. Any one thread. */
#pragma once
#include "metrics/point.h"

/* Most buckets of an exponential one; its scale is as fine as they allow. */
#define HISTOGRAM_BUCKETS   160
#define HISTOGRAM_SCALE_MAX 20
#define HISTOGRAM_SCALE_MIN (-10)

struct histogram {
	uint64_t count, zeros;
	double sum;
	const double *bounds; /* NULL: exponential */
	size_t nbounds;
	uint64_t *counts; /* histogram_room() of them, the caller's */
	size_t ncounts;   /* exponential: in use, from offset on */
	int32_t scale, offset;
};

/* Numbers that counts must have room for. */
size_t histogram_room(const double *bounds, size_t nbounds);
/* Empties it, or makes it. */
void histogram_clear(struct histogram *h, const double *bounds, size_t nbounds, uint64_t *counts);
/* Adds a value; negative ones count as 0. Returns the place of its bucket in counts (0 for the
 * zeros of an exponential one). */
size_t histogram_add(struct histogram *h, double value);
struct histogram_view histogram_view(const struct histogram *h);
/* The exponential bucket of a value > 0: (base^i, base^(i+1)] with base = 2^(2^-scale). */
int32_t histogram_index(double value, int32_t scale);
