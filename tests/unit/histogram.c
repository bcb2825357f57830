#include "metrics/histogram.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>

static uint64_t counts[HISTOGRAM_BUCKETS];
static struct histogram h;

static const double bounds[] = { 0, 1, 2.5 };

Test(histogram, a_value_on_a_bound_belongs_to_the_bucket_that_ends_there)
{
	histogram_clear(&h, bounds, ARRAY_SIZE(bounds), counts);
	cr_assert_eq(histogram_add(&h, 0), 0);
	cr_assert_eq(histogram_add(&h, 1), 1);
	cr_assert_eq(histogram_add(&h, nextafter(1, 2)), 2);
	cr_assert_eq(histogram_add(&h, 2.5), 2);
	cr_assert_eq(histogram_add(&h, 1e300), 3);
	cr_assert_eq(histogram_add(&h, -1), 0, "a negative one counts as 0");
	cr_assert_eq(histogram_add(&h, NAN), 0);
	cr_assert_eq(h.count, 7u);
	cr_assert_eq(h.ncounts, 4u);
	cr_assert_eq(counts[0] + counts[1] + counts[2] + counts[3], 7u);
}

/* (base^i, base^(i+1)] for every power of two and its neighbours, at every scale. */
Test(histogram, exact_powers_of_two_end_their_bucket)
{
	for (int32_t scale = HISTOGRAM_SCALE_MIN; scale <= HISTOGRAM_SCALE_MAX; scale++) {
		for (int e = -1020; e <= 1023; e += 7) {
			double v = ldexp(1, e);
			int32_t at = histogram_index(v, scale);
			/* The bucket ends at 2^((at + 1) / 2^scale) and begins before v. */
			double end = ldexp((double)at + 1, -scale), begin = ldexp(at, -scale);

			cr_assert(begin < e && e <= end, "2^%d at scale %d is in %d", e, scale, at);
			if (scale >= 0)
				cr_assert_eq(end, e);
			cr_assert_geq(histogram_index(nextafter(v, INFINITY), scale), at);
			cr_assert_leq(histogram_index(nextafter(v, 0), scale), at);
			if (scale >= 0)
				cr_assert_eq(histogram_index(nextafter(v, INFINITY), scale),
					     at + 1);
		}
	}
}

Test(histogram, buckets_are_where_their_base_says)
{
	for (int32_t scale = 0; scale <= 10; scale++) {
		for (double v = 0.0001; v < 1000; v *= 1.0137) {
			int32_t at = histogram_index(v, scale);
			double base = exp2(ldexp(1, -scale));

			cr_assert_gt(v, pow(base, at) * (1 - 1e-9));
			cr_assert_leq(v, pow(base, at + 1) * (1 + 1e-9));
		}
	}
}

static uint64_t sum(void)
{
	uint64_t n = h.zeros;

	for (size_t i = 0; i < h.ncounts; i++)
		n += counts[i];
	return n;
}

Test(histogram, it_gets_coarser_to_hold_what_comes_and_loses_nothing)
{
	uint64_t n = 0;

	histogram_clear(&h, NULL, 0, counts);
	for (double v = 1; v < 1.00001; v += 1e-7, n++)
		(void)histogram_add(&h, v);
	cr_assert_geq(h.scale, 17, "values that lie close together are told apart: %d", h.scale);
	for (double v = 1e-9; v < 1e9; v *= 1.1, n++)
		(void)histogram_add(&h, v);
	(void)histogram_add(&h, 0);
	cr_assert_eq(h.zeros, 1u);
	cr_assert_eq(h.count, n + 1);
	cr_assert_eq(sum(), n + 1);
	cr_assert_leq(h.ncounts, HISTOGRAM_BUCKETS);
	cr_assert_geq(h.scale, 1, "60 octaves in 160 buckets: %d", h.scale);
	/* The first and the last value are in the first and the last bucket. */
	cr_assert_eq(histogram_index(1e-9, h.scale), h.offset);
	cr_assert(counts[0] && counts[h.ncounts - 1]);
}

Test(histogram, the_extremes_of_doubles_fit)
{
	histogram_clear(&h, NULL, 0, counts);
	(void)histogram_add(&h, DBL_MAX);
	(void)histogram_add(&h, DBL_MIN);
	(void)histogram_add(&h, DBL_MIN / 2);
	cr_assert_eq(h.zeros, 1u, "what is denormal is as good as nothing");
	cr_assert_eq(sum(), 3u);
	cr_assert_leq(h.ncounts, HISTOGRAM_BUCKETS);
}

/* In whatever order values come, the same buckets come out. */
Test(histogram, the_order_does_not_matter)
{
	uint64_t first[HISTOGRAM_BUCKETS];
	struct histogram up;

	histogram_clear(&h, NULL, 0, counts);
	for (int i = 1; i <= 5000; i++)
		(void)histogram_add(&h, i * i * 0.001);
	memcpy(first, counts, sizeof(first));
	up = h;
	histogram_clear(&h, NULL, 0, counts);
	for (int i = 5000; i >= 1; i--)
		(void)histogram_add(&h, i * i * 0.001);
	cr_assert_eq(h.scale, up.scale);
	cr_assert_eq(h.offset, up.offset);
	cr_assert_eq(h.ncounts, up.ncounts);
	cr_assert_arr_eq(counts, first, sizeof(first));
}
