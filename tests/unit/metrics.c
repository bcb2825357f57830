#include "metrics/metrics.h"

#include "allocations.h"
#include "base/stats.h"
#include "config_rig.h"
#include "metrics/prometheus.h"
#include "pipeline/resource.h"
#include "trace/lib.h"

#include <pthread.h>

static const double seconds[] = { 0.1, 1 };
static const struct lib_metric measured[] = {
	{ .is = { .name = "toy.duration",
		  .unit = "s",
		  .help = "How long a toy takes.",
		  .kind = INSTRUMENT_HISTOGRAM,
		  .real = true },
	  .of = SPAN_SERVER,
	  .attrs = SYMBOLS("toy.kind", "toy.code"),
	  .bounds = seconds,
	  .nbounds = ARRAY_SIZE(seconds) },
	{ .is = { .name = "toy.size",
		  .unit = "By",
		  .help = "Its size.",
		  .kind = INSTRUMENT_COUNTER },
	  .of = SPAN_SERVER,
	  .value = "toy.size",
	  .attrs = SYMBOLS("toy.kind"),
	  .bounds = seconds,
	  .nbounds = ARRAY_SIZE(seconds) },
};
static const struct lib toys = {
	.name = "toys", .scope = "spoor/toys", .metrics = measured, .nmetrics = ARRAY_SIZE(measured)
};
LIB_REGISTER(toys);

#define S 1000000000ull

static struct config *cfg;
static struct metrics *m;
static uint8_t lib;

static void make(const char *first, const char *second)
{
	cfg = load(first, second, NULL);
	cr_assert(cfg);
	cr_assert_eq(metrics_new(&m, cfg), 0);
	while (lib_at(lib) != &toys)
		lib++;
}

static void end(void)
{
	metrics_free(&m);
	config_free(&cfg);
}

static struct resource *named(const char *name)
{
	struct resource_attr attrs[] = { { .key = "service.name", .value = name },
					 { .key = "service.namespace", .value = "shop" },
					 { .key = "service.instance.id", .value = "i\"1" } };
	struct resource *r = NULL;

	cr_assert_eq(resource_new(&r, attrs, ARRAY_SIZE(attrs)), 0);
	return r;
}

static struct owner *owner(const char *name, const char *pod)
{
	struct resource *r = named(name);
	struct owner *o = metrics_owner(m, r, pod);

	resource_put(&r);
	cr_assert(o);
	return o;
}

/* One operation of that kind and code that took so many ms. */
static void operate(struct owner *o, const char *kind, int64_t code, uint64_t ms, bool sampled)
{
	struct attr attrs[4];
	struct span span = { .start_ns = 100 * S,
			     .end_ns = 100 * S + ms * 1000000,
			     .kind = SPAN_SERVER,
			     .attrs = attrs,
			     .trace_id = { 1 },
			     .span_id = { (uint8_t)code } };

	span_str(&span, "other", str_of("x"));
	span_str(&span, "toy.kind", str_of(kind));
	span_int(&span, "toy.code", code);
	metrics_enter(m);
	metrics_record(m, o, lib, &span, sampled);
	metrics_leave(m);
}

#define SEEN_MAX 64
struct seen {
	char what[160]; /* resource's service, scope, instrument, attributes */
	uint64_t count, start_ns, time_ns;
	double sum;
	uint64_t counts[3];
	size_t nexemplars;
	struct exemplar exemplar;
};
static struct seen seen[SEEN_MAX];
static size_t nseen;
static const char *scope;
static char service[32];

static void on_begin(void *arg, struct resource *r, const char *s)
{
	(void)arg;
	scope = s;
	(void)snprintf(service, sizeof(service), "%s", r->service);
}

static void on_point(void *arg, const struct point *p)
{
	struct seen *s = &seen[nseen++];
	size_t n;

	(void)arg;
	cr_assert_leq(nseen, SEEN_MAX);
	memset(s, 0, sizeof(*s));
	n = (size_t)snprintf(s->what, sizeof(s->what), "%s %s %s", service, scope, p->of->name);
	for (size_t i = 0; i < p->nattrs; i++) {
		const struct attr *a = &p->attrs[i];

		if (a->type == ATTR_STR)
			n += (size_t)snprintf(s->what + n, sizeof(s->what) - n, " %s=%.*s", a->key,
					      (int)a->s.n, a->s.p);
		else
			n += (size_t)snprintf(s->what + n, sizeof(s->what) - n, " %s=%d", a->key,
					      (int)a->i);
	}
	s->start_ns = p->start_ns;
	s->time_ns = p->time_ns;
	if (p->of->kind != INSTRUMENT_HISTOGRAM)
		return;
	s->count = p->h.count;
	s->sum = p->h.sum;
	memcpy(s->counts, p->h.counts, (p->h.ncounts < 3 ? p->h.ncounts : 3) * sizeof(uint64_t));
	s->nexemplars = p->nexemplars;
	if (p->nexemplars)
		s->exemplar = p->exemplars[0];
}

static void collect(uint64_t now_s, bool delta, bool ended)
{
	static const struct point_sink sink = { .begin = on_begin, .point = on_point };
	struct collecting how = { .now_ns = now_s * S, .delta = delta, .ended = ended };

	nseen = 0;
	metrics_collect(m, &how, &sink, NULL);
}

Test(metrics, operations_of_the_same_attributes_are_one_series)
{
	struct owner *o;

	make(NULL, NULL);
	o = owner("web", "");
	operate(o, "a", 1, 50, false);
	operate(o, "a", 1, 100, false);
	operate(o, "a", 1, 2000, false);
	operate(o, "a", 2, 500, false);
	operate(o, "b", 1, 500, false);
	collect(200, false, false);
	cr_assert_eq(nseen, 3u);
	cr_assert_str_eq(seen[0].what, "web spoor/toys toy.duration toy.kind=a toy.code=1");
	cr_assert_eq(seen[0].count, 3u);
	cr_assert_float_eq(seen[0].sum, 2.15, 1e-9);
	cr_assert(seen[0].counts[0] == 2 && seen[0].counts[1] == 0 && seen[0].counts[2] == 1);
	cr_assert_eq(seen[0].time_ns, 200 * S);
	cr_assert_lt(seen[0].start_ns, 101 * S);
	cr_assert_str_eq(seen[1].what, "web spoor/toys toy.duration toy.kind=a toy.code=2");
	cr_assert_eq(seen[0].nexemplars, 0u, "none of them is a span");
	operate(o, "a", 1, 50, true);
	collect(300, false, false);
	cr_assert_eq(seen[0].count, 4u, "sums go on");
	cr_assert_eq(seen[0].nexemplars, 1u);
	cr_assert_eq(seen[0].exemplar.span_id[0], 1);
	cr_assert_float_eq(seen[0].exemplar.value, 0.05, 1e-12);
	owner_put(&o);
	end();
}

Test(metrics, what_a_span_does_not_have_is_not_measured)
{
	struct attr attrs[2];
	struct span span = { .end_ns = 1, .kind = SPAN_SERVER, .attrs = attrs };
	struct owner *o;

	make(NULL, NULL);
	o = owner("web", "");
	span_int(&span, "toy.size", 7);
	metrics_enter(m);
	metrics_record(m, o, lib, &span, false);
	span.nattrs = 0;
	span.kind = SPAN_CLIENT;
	metrics_record(m, o, lib, &span, false);
	metrics_leave(m);
	collect(1, false, false);
	cr_assert_eq(nseen, 2u);
	cr_assert_str_eq(seen[0].what, "web spoor/toys toy.duration");
	cr_assert_str_eq(seen[1].what, "web spoor/toys toy.size");
	owner_put(&o);
	end();
}

Test(metrics, processes_of_one_instance_share_its_series_and_pods_do_not)
{
	struct owner *a, *b, *c;

	make(NULL, NULL);
	a = owner("web", "uid-1");
	b = owner("web", "uid-1");
	c = owner("web", "uid-2");
	cr_assert_eq(a, b);
	cr_assert_neq(a, c);
	operate(a, "a", 1, 1, false);
	operate(b, "a", 1, 1, false);
	operate(c, "a", 1, 1, false);
	collect(1, false, false);
	cr_assert_eq(nseen, 2u);
	cr_assert(seen[0].count == 2 && seen[1].count == 1);
	owner_put(&a);
	owner_put(&b);
	owner_put(&c);
	end();
}

Test(metrics, nothing_is_allocated_for_an_operation_of_a_series_that_is_there)
{
	struct owner *o;

	if (!CAN_COUNT) /* the sanitizers have allocators of their own */
		return;
	make("--metrics-temporality=delta", NULL);
	o = owner("web", "");
	counting = 1;
	operate(o, "a", 1, 1, true);
	cr_assert_gt(allocations, 0u, "a new one is");
	allocations = 0;
	for (uint64_t i = 0; i < 1000; i++)
		operate(o, "a", 1, i, true);
	counting = 0;
	cr_assert_eq(allocations, 0u);
	owner_put(&o);
	end();
}

static bool lives(const char *pod, void *arg)
{
	return strcmp(pod, arg) == 0;
}

Test(metrics, series_end_with_their_pod_are_told_once_more_and_forgotten)
{
	struct owner *a, *b, *plain;

	make(NULL, NULL);
	a = owner("a", "uid-a");
	b = owner("b", "uid-b");
	plain = owner("plain", "");
	operate(a, "a", 1, 1, false);
	operate(b, "b", 1, 1, false);
	operate(plain, "p", 1, 1, false);
	owner_put(&a);
	owner_put(&b);
	owner_put(&plain);
	collect(1, false, false);
	cr_assert_eq(nseen, 2u, "a process that was in no pod is its own end");
	metrics_pods(m, lives, (char *)"uid-a");
	collect(2, false, false);
	cr_assert_eq(nseen, 1u, "who scrapes sees what lives");
	collect(3, false, true);
	cr_assert_eq(nseen, 3u, "the last export");
	collect(4, false, true);
	cr_assert_eq(nseen, 1u);
	cr_assert_str_eq(seen[0].what, "a spoor/toys toy.duration toy.kind=a toy.code=1");
	cr_assert_eq(stat_get(metric_series_evicted), 2u);
	/* The pod runs another process: its series go on. */
	a = owner("a", "uid-a");
	operate(a, "a", 1, 1, false);
	collect(5, false, true);
	cr_assert_eq(seen[0].count, 2u);
	owner_put(&a);
	end();
}

Test(metrics, without_a_reader_of_ends_nothing_waits_for_it)
{
	struct owner *o;

	make("--metrics-exporters=prometheus", NULL);
	o = owner("a", "");
	operate(o, "a", 1, 1, false);
	owner_put(&o);
	cr_assert_eq(stat_get(metric_series_evicted), 1u);
	end();
}

Test(metrics, what_is_over_the_limit_goes_to_the_series_of_all_others)
{
	struct owner *o;
	uint64_t total = 0;

	make("--metrics-cardinality-limit=5", NULL);
	o = owner("web", "");
	for (int64_t i = 0; i < 100; i++)
		operate(o, "a", i, 1, false);
	operate(o, "a", 0, 1, false);
	collect(1, false, false);
	cr_assert_eq(nseen, 5u);
	for (size_t i = 0; i < nseen; i++)
		total += seen[i].count;
	cr_assert_eq(total, 101u);
	cr_assert_eq(seen[0].count, 2u, "those that are there go on");
	cr_assert_str_eq(seen[4].what, "web spoor/toys toy.duration otel.metric.overflow=1");
	cr_assert_eq(seen[4].count, 96u);
	cr_assert_eq(stat_get(metric_overflow), 96u);
	owner_put(&o);
	end();
}

Test(metrics, the_limit_of_all_series_counts_every_owner)
{
	struct owner *o[20];

	make("--metrics-max-series=16", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(o); i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "web%zu", i);
		o[i] = owner(name, "");
		operate(o[i], "a", 1, 1, false);
		operate(o[i], "b", 1, 1, false);
	}
	collect(1, false, false);
	cr_assert_eq(nseen, 16u + 12, "and each owner has its series of all others");
	for (size_t i = 0; i < ARRAY_SIZE(o); i++)
		owner_put(&o[i]);
	end();
}

Test(metrics, a_delta_is_what_came_since_the_last_one)
{
	struct owner *o;

	make("--metrics-temporality=delta", NULL);
	o = owner("web", "");
	operate(o, "a", 1, 50, true);
	collect(200, true, true);
	cr_assert_eq(nseen, 1u);
	cr_assert(seen[0].count == 1 && seen[0].nexemplars == 1);
	collect(210, true, true);
	cr_assert_eq(nseen, 0u, "nothing came");
	operate(o, "a", 1, 2000, false);
	operate(o, "a", 1, 2000, false);
	collect(220, true, true);
	cr_assert_eq(seen[0].count, 2u);
	cr_assert_float_eq(seen[0].sum, 4, 1e-9);
	cr_assert(seen[0].counts[0] == 0 && seen[0].counts[2] == 2);
	cr_assert(seen[0].start_ns == 210 * S && seen[0].time_ns == 220 * S);
	cr_assert_eq(seen[0].nexemplars, 0u, "the first one's was told");
	collect(230, false, false);
	cr_assert_eq(seen[0].count, 3u, "who scrapes sees sums");
	owner_put(&o);
	end();
}

Test(metrics, attributes_can_be_added_and_dropped)
{
	struct owner *o;

	make("--metrics-add-attributes=toy.duration=other  missing",
	     "--metrics-drop-attributes=toy.duration=toy.code");
	o = owner("web", "");
	operate(o, "a", 1, 50, false);
	operate(o, "a", 2, 50, false);
	collect(1, false, false);
	cr_assert_eq(nseen, 1u);
	cr_assert_str_eq(seen[0].what, "web spoor/toys toy.duration toy.kind=a other=x");
	owner_put(&o);
	end();
}

Test(metrics, an_instrument_that_is_none_is_refused)
{
	cfg = load("--metrics-add-attributes=toy.durations=other", NULL);
	cr_assert(cfg);
	cr_assert_eq(metrics_new(&m, cfg), -EINVAL);
	cr_assert_null(m);
	config_free(&cfg);
}

static char *page(bool openmetrics)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	cr_assert_eq(prometheus_write(f, m, cfg, openmetrics), 0);
	(void)fclose(f);
	return text;
}

Test(metrics, the_page_for_prometheus_escapes_and_groups)
{
	struct owner *a, *b;
	auto_free char *text = NULL, *open = NULL;

	make("--metrics-exporters=prometheus", NULL);
	a = owner("web", "");
	b = owner("api", "");
	operate(a, "a\"\\\n", 1, 50, true);
	operate(b, "b", 1, 50, false);
	text = page(false);
	cr_assert(strstr(text,
			 "\n# TYPE toy_duration_seconds histogram\n"
			 "toy_duration_seconds_bucket{job=\"shop/web\",instance=\"i\\\"1\",otel_"
			 "scope_name=\"spoor/toys\",toy_kind=\"a\\\"\\\\\\n\","
			 "toy_code=\"1\",le=\"0.1"),
		  "%s", text);
	cr_assert(strstr(text, "toy_duration_seconds_sum{"));
	cr_assert_null(strstr(text, "trace_id"));
	cr_assert_null(strstr(strstr(text, "# TYPE toy_duration_seconds") + 1,
			      "# TYPE toy_duration_seconds"),
		       "the samples of a metric stand together");
	cr_assert(strstr(text, "target_info{job=\"shop/api\""));
	open = page(true);
	cr_assert(strstr(open, "le=\"1.0\"} 1\n"), "%s", open);
	cr_assert(strstr(open, " # {trace_id=\"01000000000000000000000000000000\",span_id="
			       "\"0100000000000000\"} 0.05"),
		  "%s", open);
	cr_assert_str_eq(open + strlen(open) - 6, "# EOF\n");
	owner_put(&a);
	owner_put(&b);
	end();
}

static void no_point(void *arg, const struct point *p)
{
	(void)arg;
	(void)p;
}

static void *recorder(void *arg)
{
	for (int64_t i = 0; i < 20000; i++)
		operate(arg, "a", i % 50, 1, i % 2);
	return NULL;
}

static void *comer(void *arg)
{
	(void)arg;
	for (int i = 0; i < 2000; i++) {
		struct owner *o = owner("other", "");

		operate(o, "b", 1, 1, false);
		owner_put(&o);
	}
	return NULL;
}

Test(metrics, readers_recorders_and_ends_at_the_same_time)
{
	struct owner *o;
	pthread_t threads[2];
	static const struct point_sink none = { .begin = on_begin, .point = no_point };
	uint64_t total = 0;

	make(NULL, NULL);
	o = owner("web", "");
	cr_assert_eq(pthread_create(&threads[0], NULL, recorder, o), 0);
	cr_assert_eq(pthread_create(&threads[1], NULL, comer, NULL), 0);
	for (uint64_t i = 0; i < 200; i++) {
		auto_free char *text = page(i % 2);

		cr_assert(text);
	}
	(void)pthread_join(threads[0], NULL);
	(void)pthread_join(threads[1], NULL);
	metrics_collect(m, &(struct collecting){ .now_ns = 1, .ended = true }, &none, NULL);
	collect(2, false, true);
	for (size_t i = 0; i < nseen; i++)
		total += seen[i].count;
	cr_assert_eq(total, 20000u);
	owner_put(&o);
	end();
}
