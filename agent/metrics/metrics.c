#include "metrics/metrics.h"

#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"
#include "metrics/derived.h"
#include "metrics/peers.h"
#include "metrics/series.h"
#include "pipeline/resource.h"
#include "trace/clock.h"
#include "trace/lib.h"

#include <pthread.h>
#include <stdio.h>

#define SOURCES_MAX 8
#define UID_SIZE    64

/* One service instance. */
struct owner {
	struct owner *next;
	struct metrics *in;
	struct resource *resource;
	struct table *table;
	size_t processes; /* that refer to it */
	size_t bytes;
	bool ended; /* one last time it is collected, and then freed */
	char pod[UID_SIZE];
};

struct metrics {
	pthread_mutex_t lock;    /* all that is below */
	pthread_mutex_t readers; /* those that walk along the owners; taken before lock, freed
				    before it: who finds it taken leaves its work to the holder */
	struct meters *meters;
	struct derived *derived; /* or NULL */
	struct owner *owners, **last;
	size_t series, series_max, bytes, nowners;
	bool exemplars, unsampled_too;
	struct {
		void (*collect)(void *state, const struct collecting *how,
				const struct point_sink *sink, void *arg);
		void *state;
	} sources[SOURCES_MAX];
	size_t nsources;
	bool forgets; /* nobody collects what has ended: it is freed at once */
};

bool metrics_pushed(const struct config *cfg)
{
	return config_has(&cfg->metrics_exporters, "otlp") ||
	       (config_has(&cfg->metrics_exporters, "auto") && config_has(&cfg->exporters, "otlp"));
}

bool metrics_wanted(const struct config *cfg)
{
	return metrics_pushed(cfg) || config_has(&cfg->metrics_exporters, "prometheus");
}

int metrics_new(struct metrics **out, const struct config *cfg)
{
	__attribute__((cleanup(metrics_free))) struct metrics *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return fail(-ENOMEM, "metrics: out of memory");
	(void)pthread_mutex_init(&m->lock, NULL);
	(void)pthread_mutex_init(&m->readers, NULL);
	m->last = &m->owners;
	m->series_max = cfg->metrics_max_series;
	m->exemplars = strcmp(cfg->metrics_exemplars, "always_off") != 0;
	m->unsampled_too = strcmp(cfg->metrics_exemplars, "always_on") == 0;
	m->forgets = !metrics_pushed(cfg);
	err = meters_new(&m->meters, cfg);
	if (err == -ENOMEM)
		log_error("metrics: out of memory");
	if (!err && derived_new(&m->derived, cfg, m->meters->first[lib_count()], m) < 0)
		err = fail(-ENOMEM, "metrics: out of memory for metrics.service_graph");
	if (!err)
		*out = take(m);
	return err;
}

/* Under both locks. */
static void free_owner(struct metrics *m, struct owner **at)
{
	struct owner *o = *at;

	*at = o->next;
	if (m->last == &o->next)
		m->last = at;
	m->series -= o->table->n;
	m->bytes -= o->bytes;
	m->nowners--;
	stat_add(metric_series_evicted, o->table->n);
	table_free(&o->table);
	resource_put(&o->resource);
	free(o);
}

void metrics_free(struct metrics **p)
{
	struct metrics *m = take(*p);

	if (!m)
		return;
	derived_free(&m->derived);
	while (m->owners)
		free_owner(m, &m->owners);
	meters_free(&m->meters);
	(void)pthread_mutex_destroy(&m->lock);
	(void)pthread_mutex_destroy(&m->readers);
	free(m);
}

/* Under the lock. */
static struct owner *find_owner(const struct metrics *m, const struct resource *r, const char *pod)
{
	for (struct owner *o = m->owners; o; o = o->next)
		if (!o->ended && o->resource->size == r->size && strcmp(o->pod, pod) == 0 &&
		    memcmp(o->resource->bytes, r->bytes, r->size) == 0)
			return o;
	return NULL;
}

static struct owner *make_owner(struct metrics *m, struct resource *r, const char *pod)
{
	struct owner *o = calloc(1, sizeof(*o));

	if (!o || table_new(&o->table, m->meters) < 0) {
		free(o);
		return NULL;
	}
	o->in = m;
	o->resource = resource_ref(r);
	(void)snprintf(o->pod, sizeof(o->pod), "%s", pod);
	*m->last = o;
	m->last = &o->next;
	m->nowners++;
	return o;
}

struct owner *metrics_owner(struct metrics *m, struct resource *r, const char *pod)
{
	struct owner *o;

	if (!m || !r || strlen(pod) >= UID_SIZE)
		return NULL;
	(void)pthread_mutex_lock(&m->lock);
	o = find_owner(m, r, pod);
	if (!o)
		o = make_owner(m, r, pod);
	if (o)
		o->processes++;
	(void)pthread_mutex_unlock(&m->lock);
	return o;
}

/* Under both locks. */
static void free_ended(struct metrics *m)
{
	for (struct owner **at = &m->owners; *at;) {
		if ((*at)->ended)
			free_owner(m, at);
		else
			at = &(*at)->next;
	}
}

/* Where nobody collects what has ended. A reader that walks along the owners does it at its end:
 * EVENTS, whose process this was, waits for no scrape. */
static void forget_ended(struct metrics *m)
{
	if (pthread_mutex_trylock(&m->readers) != 0)
		return;
	(void)pthread_mutex_lock(&m->lock);
	free_ended(m);
	(void)pthread_mutex_unlock(&m->readers);
	(void)pthread_mutex_unlock(&m->lock);
}

/* Under the lock. */
static void end_owner(struct owner *o)
{
	derived_settle(o->in->derived, o);
	o->ended = true;
}

void owner_put(struct owner **p)
{
	struct owner *o = take(*p);
	struct metrics *m;
	bool forget;

	if (!o)
		return;
	m = o->in;
	(void)pthread_mutex_lock(&m->lock);
	if (--o->processes == 0 && !*o->pod)
		end_owner(o);
	forget = o->ended && m->forgets;
	(void)pthread_mutex_unlock(&m->lock);
	if (forget)
		forget_ended(m);
}

void metrics_pods(struct metrics *m, bool (*lives)(const char *pod, void *arg), void *arg)
{
	bool any = false;

	if (!m)
		return;
	(void)pthread_mutex_lock(&m->lock);
	for (struct owner *o = m->owners; o; o = o->next) {
		if (o->processes == 0 && !o->ended && !lives(o->pod, arg))
			end_owner(o);
		any = any || o->ended;
	}
	(void)pthread_mutex_unlock(&m->lock);
	if (any && m->forgets)
		forget_ended(m);
}

void metrics_enter(struct metrics *m)
{
	if (!m)
		return;
	(void)pthread_mutex_lock(&m->lock);
	if (m->derived)
		derived_tick(m->derived, clock_monotonic());
}

void metrics_leave(struct metrics *m)
{
	if (m)
		(void)pthread_mutex_unlock(&m->lock);
}

void metrics_settle(struct metrics *m)
{
	if (!m)
		return;
	(void)pthread_mutex_lock(&m->lock);
	derived_settle(m->derived, NULL);
	(void)pthread_mutex_unlock(&m->lock);
}

void metrics_peers(struct metrics *m, struct peers **peers)
{
	if (m) {
		(void)pthread_mutex_lock(&m->lock);
		derived_peers(m->derived, peers);
		(void)pthread_mutex_unlock(&m->lock);
	}
	peers_free(peers);
}

/* False: the span does not have what the instrument measures. */
static bool value_of(const struct lib_metric *of, const struct span *span, double *out)
{
	const struct attr *a;

	if (!of->value) {
		*out = (double)(span->end_ns - span->start_ns) / 1e9;
		return true;
	}
	a = span_attr(span, of->value);
	if (!a || a->type != ATTR_INT)
		return false;
	*out = (double)a->i;
	return true;
}

void metrics_measure(struct metrics *m, struct owner *o, size_t meter, const struct span *span,
		     bool sampled, double value)
{
	size_t fresh, bucket;
	struct series *s;
	bool over;

	s = table_find(o->table, m->meters, meter, span, span->end_ns, m->series >= m->series_max,
		       &fresh, &over);
	if (!s) {
		stat_add(metric_lost, 1);
		return;
	}
	if (fresh) {
		m->series++;
		m->bytes += fresh;
		o->bytes += fresh;
		s->start_ns = s->since_ns = span->start_ns; /* it was not measured before that */
	}
	if (over)
		stat_add(metric_overflow, 1);
	bucket = histogram_add(&s->total, value);
	if (m->meters->delta)
		(void)histogram_add(&s->since, value);
	if (m->exemplars && (sampled || m->unsampled_too)) {
		struct exemplar e = { .value = value, .time_ns = span->end_ns };

		memcpy(e.trace_id, span->trace_id, sizeof(e.trace_id));
		memcpy(e.span_id, span->span_id, sizeof(e.span_id));
		series_exemplar(s, bucket, &e);
	}
}

void metrics_record(struct metrics *m, struct owner *o, uint8_t lib, const struct span *span,
		    bool sampled)
{
	const struct meters *all = m->meters;
	double value;

	stat_add(metric_measured, 1);
	derived_record(m->derived, o, o->resource, span, sampled);
	if (lib >= lib_count())
		return;
	for (size_t i = all->first[lib]; i < all->first[lib + 1]; i++)
		if (all->v[i].of->of == span->kind && value_of(all->v[i].of, span, &value))
			metrics_measure(m, o, i, span, sampled, value);
}

/* The exemplars of this collection, next to each other. */
static size_t gather(const struct series *s, uint64_t from_ns, struct exemplar *out, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nexemplars && n < max; i++)
		if (s->exemplars[i].time_ns > from_ns)
			out[n++] = s->exemplars[i];
	return n;
}

/* What is told of a series: a copy, as the sink writes it when the lock is free again. */
struct snapshot {
	struct point p;
	struct exemplar exemplars[HISTOGRAM_BUCKETS];
	uint64_t counts[HISTOGRAM_BUCKETS];
};

/* Under the lock. False: nothing came since the last time. */
static bool take_snapshot(struct snapshot *out, const struct meter *meter, struct series *s,
			  const struct collecting *how)
{
	const struct histogram *h = how->delta ? &s->since : &s->total;
	struct point *p = &out->p;

	if (how->delta && h->count == 0) {
		s->since_ns = how->now_ns;
		return false;
	}
	*p = (struct point){ .of = &meter->of->is,
			     .attrs = s->attrs, /* they do not change */
			     .nattrs = s->nattrs,
			     .start_ns = how->delta ? s->since_ns : s->start_ns,
			     .time_ns = how->now_ns,
			     .exemplars = out->exemplars };
	p->nexemplars =
		gather(s, how->delta ? s->since_ns : 0, out->exemplars, ARRAY_SIZE(out->exemplars));
	if (meter->of->is.kind == INSTRUMENT_HISTOGRAM) {
		p->h = histogram_view(h);
		if (p->h.ncounts > ARRAY_SIZE(out->counts))
			return false; /* meters_new() refuses such bounds */
		memcpy(out->counts, p->h.counts, p->h.ncounts * sizeof(*out->counts));
		p->h.counts = out->counts;
	} else if (meter->of->is.real) {
		p->d = h->sum;
	} else {
		p->i = (int64_t)h->sum;
	}
	if (how->delta) {
		s->since_ns = how->now_ns;
		histogram_clear(&s->since, s->since.bounds, s->since.nbounds, s->since.counts);
	}
	return true;
}

/* Under the lock, which is free while the sink works. So series may be made meanwhile, which stand
 * at the end of their chain; none is freed, as that takes the lock of readers. */
static void collect_owner(struct metrics *m, const struct owner *o, const struct collecting *how,
			  const struct point_sink *sink, void *arg)
{
	const char *scope = NULL;
	struct snapshot copy;

	for (size_t i = 0; i < m->meters->n; i++) {
		const struct meter *meter = &m->meters->v[i];

		for (struct series *s = o->table->chains[i].first; s; s = s->next) {
			if (!take_snapshot(&copy, meter, s, how))
				continue;
			(void)pthread_mutex_unlock(&m->lock);
			if (meter->scope != scope)
				sink->begin(arg, o->resource, meter->scope);
			scope = meter->scope;
			sink->point(arg, &copy.p);
			(void)pthread_mutex_lock(&m->lock);
		}
	}
}

void metrics_collect(struct metrics *m, const struct collecting *how, const struct point_sink *sink,
		     void *arg)
{
	struct owner **at = &m->owners;

	(void)pthread_mutex_lock(&m->readers); /* nobody but a reader frees an owner */
	(void)pthread_mutex_lock(&m->lock);
	while (*at) {
		/* One that ends while it is told may have counted more: that is told next time. */
		bool ended = (*at)->ended;

		if (!ended || how->ended)
			collect_owner(m, *at, how, sink, arg);
		if (ended && how->ended)
			free_owner(m, at);
		else
			at = &(*at)->next;
	}
	if (m->forgets) /* also who ended meanwhile, and whose thread did not wait for us */
		free_ended(m);
	(void)pthread_mutex_unlock(&m->readers);
	(void)pthread_mutex_unlock(&m->lock);
	for (size_t i = 0; i < m->nsources; i++)
		m->sources[i].collect(m->sources[i].state, how, sink, arg);
}

void metrics_source(struct metrics *m,
		    void (*collect)(void *state, const struct collecting *how,
				    const struct point_sink *sink, void *arg),
		    void *state)
{
	if (m && m->nsources < SOURCES_MAX) {
		m->sources[m->nsources].collect = collect;
		m->sources[m->nsources++].state = state;
	}
}

size_t metrics_series(struct metrics *m)
{
	size_t n;

	(void)pthread_mutex_lock(&m->lock);
	n = m->series;
	(void)pthread_mutex_unlock(&m->lock);
	return n;
}

void metrics_stats(struct stats_page *page, void *arg)
{
	struct metrics *m = arg;

	(void)pthread_mutex_lock(&m->lock);
	for (size_t i = 0; i < m->meters->n; i++) {
		size_t n = 0;

		for (const struct owner *o = m->owners; o; o = o->next)
			n += o->table->chains[i].n;
		stats_sample(page, GAUGE, "spoor_metric_series",
			     (const char *const[]){ "metric", m->meters->v[i].of->is.name, NULL },
			     "Series of the traced programs that are remembered, by metric",
			     (double)n);
	}
	stats_sample(page, GAUGE, "spoor_metric_series_bytes", NULL,
		     "Memory that these series take", (double)m->bytes);
	stats_sample(page, GAUGE, "spoor_graph_bytes", NULL,
		     "Memory that requests which wait for their other span take at most",
		     (double)derived_bytes(m->derived));
	stats_sample(page, GAUGE, "spoor_metric_owners", NULL,
		     "Service instances that have, or may have, series", (double)m->nowners);
	(void)pthread_mutex_unlock(&m->lock);
}
