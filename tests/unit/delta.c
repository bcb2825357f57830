#include "metrics/delta.h"

#include "pipeline/resource.h"

#include <criterion/criterion.h>

static const struct instrument
	counter = { .name = "toy.count", .unit = "1", .help = "Toys." },
	other = { .name = "toy.others", .unit = "1", .help = "Others." },
	real = { .name = "toy.time", .unit = "s", .help = "Time.", .real = true },
	level = { .name = "toy.level", .unit = "1", .help = "Level.", .kind = INSTRUMENT_UPDOWN },
	gauge = { .name = "toy.gauge", .unit = "1", .help = "Gauge.", .kind = INSTRUMENT_GAUGE },
	times = { .name = "toy.times",
		  .unit = "s",
		  .help = "Times.",
		  .kind = INSTRUMENT_HISTOGRAM,
		  .real = true };

static struct point told[16];
static uint64_t counts[3];
static size_t ntold;

static void on_begin(void *arg, struct resource *r, const char *scope)
{
	(void)arg;
	(void)r;
	(void)scope;
}

static void on_point(void *arg, const struct point *p)
{
	(void)arg;
	cr_assert_lt(ntold, ARRAY_SIZE(told));
	told[ntold++] = *p;
	if (p->of->kind == INSTRUMENT_HISTOGRAM)
		memcpy(counts, p->h.counts, sizeof(counts));
}

static const struct point_sink to = { .begin = on_begin, .point = on_point };

static struct delta *d;
static struct resource *web, *api;

static void make(uint64_t now_ns)
{
	struct resource_attr attr = { .key = "service.name", .value = "web" };

	cr_assert_eq(delta_new(&d, now_ns), 0);
	cr_assert_eq(resource_new(&web, &attr, 1), 0);
	attr.value = "api";
	cr_assert_eq(resource_new(&api, &attr, 1), 0);
}

static void end(void)
{
	delta_free(&d);
	resource_put(&web);
	resource_put(&api);
}

static void start(struct resource *r)
{
	ntold = 0;
	delta_begin(d, &to, NULL);
	delta_sink.begin(d, r, "toys");
}

static void give(const struct instrument *of, const char *kind, int64_t v, uint64_t start_ns,
		 uint64_t now_ns)
{
	struct attr attr = { .key = "kind", .type = ATTR_STR, .s = str_of(kind) };
	struct point p = { .of = of,
			   .attrs = &attr,
			   .nattrs = 1,
			   .cumulative = true,
			   .start_ns = start_ns,
			   .time_ns = now_ns };

	if (of->real)
		p.d = (double)v;
	else
		p.i = v;
	delta_sink.point(d, &p);
}

Test(delta, a_counter_is_told_from_the_collection_before)
{
	make(100);
	start(web);
	give(&counter, "a", 1000, 50, 200);
	give(&real, "a", 5, 150, 200);
	cr_assert_eq(delta_end(d, 200), 0u);
	cr_assert_eq(ntold, 1u, "what is older may have been told by somebody else");
	cr_assert(told[0].of == &real && told[0].d == 5 && told[0].start_ns == 150);
	cr_assert_not(told[0].cumulative);
	start(web);
	give(&counter, "a", 1007, 50, 300);
	give(&real, "a", 5, 150, 300);
	(void)delta_end(d, 300);
	cr_assert_eq(ntold, 2u);
	cr_assert(told[0].i == 7 && told[0].start_ns == 200 && told[0].time_ns == 300);
	cr_assert(told[1].d == 0);
	end();
}

Test(delta, series_are_told_apart_by_resource_instrument_and_attributes)
{
	make(0);
	for (uint64_t now = 1; now <= 2; now++) {
		start(web);
		give(&counter, "a", (int64_t)(now * 1), 0, now);
		give(&counter, "b", (int64_t)(now * 10), 0, now);
		give(&other, "a", (int64_t)(now * 100), 0, now);
		delta_sink.begin(d, api, "toys");
		give(&counter, "a", (int64_t)(now * 1000), 0, now);
		(void)delta_end(d, now);
		cr_assert_eq(ntold, 4u);
	}
	cr_assert(told[0].i == 1 && told[1].i == 10 && told[2].i == 100 && told[3].i == 1000);
	end();
}

Test(delta, levels_and_gauges_and_what_is_a_delta_already_pass_as_they_are)
{
	struct point p = { .of = &counter, .i = 3, .start_ns = 1, .time_ns = 2 };

	make(0);
	for (uint64_t now = 1; now <= 2; now++) {
		start(web);
		give(&level, "a", 5, 0, now);
		give(&gauge, "a", 6, 0, now);
		delta_sink.point(d, &p);
		(void)delta_end(d, now);
		cr_assert(ntold == 3 && told[0].i == 5 && told[1].i == 6 && told[2].i == 3);
		cr_assert(told[0].cumulative && told[2].start_ns == 1);
	}
	end();
}

static void give_times(uint64_t a, uint64_t b, uint64_t c, uint64_t now_ns)
{
	static const double bounds[] = { 1, 2 };
	uint64_t all[] = { a, b, c };
	struct point p = { .of = &times, .cumulative = true, .start_ns = 10, .time_ns = now_ns };

	p.h = (struct histogram_view){
		.count = a + b + c, .bounds = bounds, .nbounds = 2, .counts = all, .ncounts = 3
	};
	delta_sink.point(d, &p);
}

Test(delta, of_a_histogram_each_bucket_is)
{
	make(0);
	start(web);
	give_times(1, 2, 3, 20);
	(void)delta_end(d, 20);
	cr_assert(ntold == 1 && told[0].h.count == 6 && counts[2] == 3);
	start(web);
	give_times(1, 4, 8, 30);
	(void)delta_end(d, 30);
	cr_assert(ntold == 1 && told[0].h.count == 7 && told[0].start_ns == 20);
	cr_assert(counts[0] == 0 && counts[1] == 2 && counts[2] == 5);
	start(web);
	give_times(9, 1, 8, 40);
	(void)delta_end(d, 40);
	cr_assert_eq(ntold, 0u, "a bucket that became less is no delta");
	end();
}

Test(delta, what_begins_anew_is_told_whole_and_what_falls_is_not_told)
{
	make(0);
	start(web);
	give(&counter, "a", 100, 1, 10);
	give(&counter, "b", 100, 1, 10);
	(void)delta_end(d, 10);
	start(web);
	give(&counter, "a", 30, 15, 20); /* another process */
	give(&counter, "b", 30, 1, 20);
	(void)delta_end(d, 20);
	cr_assert(ntold == 1 && told[0].i == 30 && told[0].start_ns == 15);
	start(web);
	give(&counter, "b", 31, 1, 30);
	(void)delta_end(d, 30);
	cr_assert(ntold == 1 && told[0].i == 1);
	start(web);
	give(&counter, "a", 40, 15, 40); /* it was not seen for a while, and is older than that */
	(void)delta_end(d, 40);
	cr_assert_eq(ntold, 0u);
	end();
}
