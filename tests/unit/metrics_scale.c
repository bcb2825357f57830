/* Very many series, pods and readers: nothing grows, nothing is lost, nobody waits. */
#include "base/stats.h"
#include "config_rig.h"
#include "metrics/metrics.h"
#include "pipeline/resource.h"
#include "trace/lib.h"

#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>

static const double seconds[] = { 0.1, 1 };
static const struct lib_metric measured[] = {
	{ .is = { .name = "toy.duration",
		  .unit = "s",
		  .help = "How long a toy takes.",
		  .kind = INSTRUMENT_HISTOGRAM,
		  .real = true },
	  .of = SPAN_SERVER,
	  .attrs = SYMBOLS("toy.route"),
	  .bounds = seconds,
	  .nbounds = ARRAY_SIZE(seconds) },
};
static const struct lib toys = {
	.name = "toys", .scope = "spoor/toys", .metrics = measured, .nmetrics = ARRAY_SIZE(measured)
};
LIB_REGISTER(toys);

static struct config *cfg;
static struct metrics *m;
static uint8_t lib;

static void make(const char *option)
{
	cfg = load(option, NULL);
	cr_assert(cfg);
	cr_assert_eq(metrics_new(&m, cfg), 0);
	while (lib_at(lib) != &toys)
		lib++;
	stats_collector(metrics_stats, m);
}

static void end(void)
{
	stats_no_collectors();
	metrics_free(&m);
	config_free(&cfg);
}

static struct owner *owner(size_t nth, const char *pod)
{
	char name[24];
	struct resource_attr attrs[] = { { .key = "service.name", .value = name },
					 { .key = "service.instance.id", .value = "i" } };
	struct resource *r = NULL;
	struct owner *o;

	(void)snprintf(name, sizeof(name), "web%zu", nth);
	cr_assert_eq(resource_new(&r, attrs, ARRAY_SIZE(attrs)), 0);
	o = metrics_owner(m, r, pod);
	resource_put(&r);
	cr_assert(o);
	return o;
}

static void serve(struct owner *o, size_t route)
{
	char text[32];
	struct attr attrs[1];
	struct span span = {
		.start_ns = 1, .end_ns = 2000001, .kind = SPAN_SERVER, .attrs = attrs
	};

	(void)snprintf(text, sizeof(text), "/routes/%zu", route);
	span_str(&span, "toy.route", str_of(text));
	metrics_enter(m);
	metrics_record(m, o, lib, &span, false);
	metrics_leave(m);
}

/* A number of the agent's own page. */
static double gauge(const char *name)
{
	auto_free char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	const char *at;
	char line[64];

	cr_assert_eq(stats_write(f, false), 0);
	(void)fclose(f);
	(void)snprintf(line, sizeof(line), "\n%s ", name);
	at = strstr(text, line);
	cr_assert(at, "%s", name);
	return strtod(at + strlen(line), NULL);
}

struct told {
	uint64_t points, operations, overflow;
};

static void no_begin(void *arg, struct resource *r, const char *scope)
{
	(void)arg;
	(void)r;
	(void)scope;
}

static void add(void *arg, const struct point *p)
{
	struct told *told = arg;

	told->points++;
	told->operations += p->h.count;
	if (p->nattrs == 1 && strcmp(p->attrs[0].key, "otel.metric.overflow") == 0)
		told->overflow += p->h.count;
}

static struct told collect(bool ended)
{
	static const struct point_sink sink = { .begin = no_begin, .point = add };
	struct collecting how = { .now_ns = 5000000, .ended = ended };
	struct told told = { 0 };

	metrics_collect(m, &how, &sink, &told);
	return told;
}

Test(metrics_scale, of_a_hundred_thousand_routes_each_request_is_counted_in_bounded_memory)
{
	struct owner *o;
	struct told told;

	make(NULL);
	o = owner(0, "");
	for (size_t i = 0; i < 100000; i++)
		serve(o, i);
	told = collect(false);
	cr_assert_eq(told.points, 2000u, "metrics.cardinality_limit");
	cr_assert_eq(told.operations, 100000u);
	cr_assert_eq(told.overflow, 100000u - 1999);
	cr_assert_lt(gauge("spoor_metric_series_bytes"), 2000 * 1024.0);
	owner_put(&o);
	end();
}

Test(metrics_scale, the_same_of_a_hundred_programs_and_the_bound_is_one_of_all)
{
	struct owner *o[100];
	struct told told;
	size_t before;

	make(NULL);
	before = mallinfo2().uordblks;
	for (size_t i = 0; i < ARRAY_SIZE(o); i++) {
		o[i] = owner(i, "");
		for (size_t route = 0; route < 1000; route++)
			serve(o[i], route);
	}
	told = collect(false);
	cr_assert_leq(told.points, 20000u + ARRAY_SIZE(o), "metrics.max_series");
	cr_assert_eq(told.operations, 100000u);
	cr_assert_gt(told.overflow, 0u);
	cr_assert_lt(gauge("spoor_metric_series_bytes"), 20100 * 1024.0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	cr_assert_lt(mallinfo2().uordblks - before, 20100 * 1024u, "the gauge is true");
#endif
	(void)before;
	for (size_t i = 0; i < ARRAY_SIZE(o); i++)
		owner_put(&o[i]);
	end();
}

static bool none_lives(const char *pod, void *arg)
{
	(void)pod;
	(void)arg;
	return false;
}

/* Pods, each of which is gone before the next one comes; what is told of them. */
static uint64_t pods_come_and_go(size_t from, size_t to)
{
	uint64_t operations = 0;

	for (size_t i = from; i < to; i++) {
		char uid[32];
		struct owner *o;

		(void)snprintf(uid, sizeof(uid), "uid-%zu", i);
		o = owner(i, uid);
		for (size_t route = 0; route < 200; route++)
			serve(o, route % 50);
		owner_put(&o);
		metrics_pods(m, none_lives, NULL);
		operations += collect(true).operations;
	}
	return operations;
}

Test(metrics_scale, five_hundred_pods_that_come_and_go_leave_nothing)
{
	size_t before;

	make(NULL);
	cr_assert_eq(pods_come_and_go(0, 20), 20 * 200u);
	before = mallinfo2().uordblks;
	cr_assert_eq(pods_come_and_go(20, 520), 500 * 200u, "each is told, a last time");
	cr_assert_eq(metrics_series(m), 0u);
	cr_assert_eq(gauge("spoor_metric_series_bytes"), 0);
	cr_assert_eq(gauge("spoor_metric_owners"), 0);
	cr_assert_eq(stat_get(metric_series_evicted), 520 * 50u);
	cr_assert_leq(mallinfo2().uordblks, before + 4096);
	end();
}

/* A reader that stands still in the middle of its page. */
static sem_t in_the_middle, goes_on;

static void stand(void *arg, const struct point *p)
{
	struct told *told = arg;

	add(told, p);
	if (told->points != 3)
		return;
	(void)sem_post(&in_the_middle);
	(void)sem_wait(&goes_on);
}

static void *slow_reader(void *arg)
{
	static const struct point_sink sink = { .begin = no_begin, .point = stand };
	struct collecting how = { .now_ns = 5000000 };

	metrics_collect(m, &how, &sink, arg);
	return NULL;
}

Test(metrics_scale, a_reader_that_stands_still_holds_up_neither_operations_nor_ends, .timeout = 20)
{
	struct owner *o, *other;
	struct told told = { 0 };
	pthread_t thread;

	make("--metrics-exporters=prometheus");
	o = owner(0, "");
	other = owner(1, "");
	for (size_t i = 0; i < 10; i++)
		serve(o, i);
	serve(other, 1);
	(void)sem_init(&in_the_middle, 0, 0);
	(void)sem_init(&goes_on, 0, 0);
	cr_assert_eq(pthread_create(&thread, NULL, slow_reader, &told), 0);
	(void)sem_wait(&in_the_middle);
	for (size_t i = 0; i < 1000; i++)
		serve(o, i % 20);
	owner_put(&other);
	cr_assert_eq(stat_get(metric_series_evicted), 0u, "the reader may be at it");
	(void)sem_post(&goes_on);
	(void)pthread_join(thread, NULL);
	cr_assert_eq(stat_get(metric_series_evicted), 1u, "the reader has forgotten it");
	cr_assert_eq(told.points, 20u, "also those that were made meanwhile");
	cr_assert_eq(collect(false).operations, 1010u);
	owner_put(&o);
	end();
}
