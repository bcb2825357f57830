#include "metrics/histogram.h"

#include <math.h>

size_t histogram_room(const double *bounds, size_t nbounds)
{
	return bounds ? nbounds + 1 : HISTOGRAM_BUCKETS;
}

void histogram_clear(struct histogram *h, const double *bounds, size_t nbounds, uint64_t *counts)
{
	*h = (struct histogram){ .bounds = bounds,
				 .nbounds = nbounds,
				 .counts = counts,
				 .ncounts = bounds ? nbounds + 1 : 0,
				 .scale = HISTOGRAM_SCALE_MAX };
	memset(counts, 0, histogram_room(bounds, nbounds) * sizeof(*counts));
}

/* frexp() and powers of two are exact; no other bound of a bucket is a double, so that what log2()
 * is off by cannot put one on the wrong side. */
int32_t histogram_index(double value, int32_t scale)
{
	int exponent;
	double fraction = frexp(value, &exponent); /* [0.5, 1) */
	bool power = fraction == 0.5;

	exponent--; /* value = 2 * fraction * 2^exponent */
	if (scale <= 0)
		return (exponent - power) >> -scale;
	if (power)
		return (int32_t)((uint32_t)exponent << scale) - 1;
	return (int32_t)((uint32_t)exponent << scale) +
	       (int32_t)floor(ldexp(log2(2 * fraction), scale));
}

/* Makes buckets half as fine, `by` times. */
static void coarsen(struct histogram *h, int by)
{
	uint64_t merged[HISTOGRAM_BUCKETS] = { 0 };
	int32_t offset = h->offset >> by;

	for (size_t i = 0; i < h->ncounts; i++)
		merged[((h->offset + (int32_t)i) >> by) - offset] += h->counts[i];
	if (h->ncounts)
		h->ncounts = (size_t)(((h->offset + (int32_t)h->ncounts - 1) >> by) - offset) + 1;
	h->offset = offset;
	h->scale -= by;
	memcpy(h->counts, merged, sizeof(merged));
}

/* Steps of coarsen() after which lo to hi are no more than HISTOGRAM_BUCKETS. */
static int steps(int32_t lo, int32_t hi, int32_t scale)
{
	int by = 0;

	for (; (int64_t)hi - lo >= HISTOGRAM_BUCKETS && scale - by > HISTOGRAM_SCALE_MIN; by++) {
		lo >>= 1;
		hi >>= 1;
	}
	return by;
}

/* Makes room for a bucket that lies before the first one, or behind the last one. */
static size_t place(struct histogram *h, int32_t at)
{
	if (h->ncounts == 0) {
		h->offset = at;
		h->ncounts = 1;
	} else if (at < h->offset) {
		size_t by = (size_t)(h->offset - at);

		memmove(h->counts + by, h->counts, h->ncounts * sizeof(*h->counts));
		memset(h->counts, 0, by * sizeof(*h->counts));
		h->ncounts += by;
		h->offset = at;
	} else if ((size_t)(at - h->offset) >= h->ncounts) {
		h->ncounts = (size_t)(at - h->offset) + 1;
	}
	return (size_t)(at - h->offset);
}

static size_t add_exponential(struct histogram *h, double value)
{
	int32_t at = histogram_index(value, h->scale), lo = at, hi = at;
	size_t i;
	int by;

	if (h->ncounts) {
		lo = at < h->offset ? at : h->offset;
		hi = h->offset + (int32_t)h->ncounts - 1;
		hi = at > hi ? at : hi;
	}
	by = steps(lo, hi, h->scale);
	if (by)
		coarsen(h, by);
	i = place(h, at >> by);
	h->counts[i]++;
	return i;
}

static size_t add_explicit(struct histogram *h, double value)
{
	size_t i = 0;

	while (i < h->nbounds && value > h->bounds[i])
		i++;
	h->counts[i]++;
	return i;
}

size_t histogram_add(struct histogram *h, double value)
{
	if (!(value > 0))
		value = 0;
	h->count++;
	h->sum += value;
	if (h->bounds)
		return add_explicit(h, value);
	if (value < 0x1p-1022) { /* a denormal is no time, and no size */
		h->zeros++;
		return 0;
	}
	return add_exponential(h, value);
}

struct histogram_view histogram_view(const struct histogram *h)
{
	return (struct histogram_view){ .count = h->count,
					.sum = h->sum,
					.has_sum = true,
					.bounds = h->bounds,
					.nbounds = h->nbounds,
					.counts = h->counts,
					.ncounts = h->ncounts,
					.scale = h->scale,
					.offset = h->offset,
					.zeros = h->zeros };
}
