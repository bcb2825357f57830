#include "metrics/derived.h"

#include "base/config.h"
#include "metrics/graph.h"
#include "pipeline/resource.h"
#include "trace/lib.h"

/* prometheus.ExponentialBuckets(0.002, 2, 14) and (0.1, 2, 8). */
static const double of_spans[] = { 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128,
				   0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384 },
		    of_requests[] = { 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8 };
/* A counter has one bucket. */
static const double one[1];

static const char *const span_keys[] = { "service", "span_name", "span_kind", "status_code", NULL },
			 *const edge_keys[] = { "client", "server", "connection_type", NULL };

#define COUNTS(is_named, says, keys)                                                               \
	{                                                                                          \
		.is = { .name = (is_named),                                                        \
			.unit = "",                                                                \
			.help = (says),                                                            \
			.kind = INSTRUMENT_COUNTER },                                              \
		.attrs = (keys), .bounds = one                                                     \
	}
#define TIMES(is_named, says, keys, within)                                                        \
	{                                                                                          \
		.is = { .name = (is_named),                                                        \
			.unit = "",                                                                \
			.help = (says),                                                            \
			.kind = INSTRUMENT_HISTOGRAM,                                              \
			.real = true },                                                            \
		.attrs = (keys), .bounds = (within), .nbounds = ARRAY_SIZE(within)                 \
	}

static const struct lib_metric all[DERIVED_COUNT] = {
	[DERIVED_CALLS] = COUNTS("traces_spanmetrics_calls_total", "Spans.", span_keys),
	[DERIVED_LATENCY] = TIMES("traces_spanmetrics_latency", "Duration of spans, in seconds.",
				  span_keys, of_spans),
	[DERIVED_REQUESTS] = COUNTS("traces_service_graph_request_total",
				    "Requests between two services.", edge_keys),
	[DERIVED_FAILED] = COUNTS("traces_service_graph_request_failed_total",
				  "Requests between two services that failed.", edge_keys),
	[DERIVED_SERVER] = TIMES("traces_service_graph_request_server_seconds",
				 "Duration of requests between two services, as the server saw it.",
				 edge_keys, of_requests),
	[DERIVED_CLIENT] = TIMES("traces_service_graph_request_client_seconds",
				 "Duration of requests between two services, as the client saw it.",
				 edge_keys, of_requests),
};

struct derived {
	struct metrics *in;
	size_t meters[DERIVED_COUNT];
	bool spans;
	struct graph *graph; /* NULL: not wanted */
};

bool derived_extends(enum derived_id id)
{
	return id == DERIVED_CALLS || id == DERIVED_LATENCY;
}

const struct lib_metric *derived_metric(const struct config *cfg, enum derived_id id)
{
	bool wanted = derived_extends(id) ? cfg->metrics_span_metrics : cfg->metrics_service_graph;

	return wanted ? &all[id] : NULL;
}

static void put(struct span *s, struct attr *attrs, const char *const *keys,
		const struct str *values)
{
	s->attrs = attrs;
	s->nattrs = 0;
	for (size_t i = 0; keys[i]; i++)
		span_str(s, keys[i], values[i]);
}

static void count_edge(void *arg, const struct edge *e)
{
	const struct derived *d = arg;
	struct str values[] = { e->client, e->server, str_of(e->type) };
	struct attr attrs[SPAN_ATTRS_MAX];
	struct span s = *e->as;

	put(&s, attrs, edge_keys, values);
	metrics_measure(d->in, e->owner, d->meters[DERIVED_REQUESTS], &s, e->sampled, 1);
	if (e->failed)
		metrics_measure(d->in, e->owner, d->meters[DERIVED_FAILED], &s, e->sampled, 1);
	if (e->server_s >= 0)
		metrics_measure(d->in, e->owner, d->meters[DERIVED_SERVER], &s, e->sampled,
				e->server_s);
	if (e->client_s >= 0)
		metrics_measure(d->in, e->owner, d->meters[DERIVED_CLIENT], &s, e->sampled,
				e->client_s);
}

static void count_span(const struct derived *d, struct owner *o, const struct resource *of,
		       const struct span *span, bool sampled)
{
	static const char *const kinds[] = { "SPAN_KIND_UNSPECIFIED", "SPAN_KIND_INTERNAL",
					     "SPAN_KIND_SERVER",      "SPAN_KIND_CLIENT",
					     "SPAN_KIND_PRODUCER",    "SPAN_KIND_CONSUMER" };
	const char *status = span->status == SPAN_ERROR ? "STATUS_CODE_ERROR" : "STATUS_CODE_UNSET";
	struct str values[] = { str_of(of->service ? of->service : ""), span->name,
				str_of(kinds[span->kind < ARRAY_SIZE(kinds) ? span->kind : 0]),
				str_of(status) };
	struct attr attrs[SPAN_ATTRS_MAX + ARRAY_SIZE(values)];
	struct span s = *span;

	put(&s, attrs, span_keys, values);
	for (size_t i = 0; i < span->nattrs; i++) /* for those that were added to the metric */
		attrs[s.nattrs++] = span->attrs[i];
	metrics_measure(d->in, o, d->meters[DERIVED_CALLS], &s, sampled, 1);
	metrics_measure(d->in, o, d->meters[DERIVED_LATENCY], &s, sampled,
			(double)(span->end_ns - span->start_ns) / 1e9);
}

int derived_new(struct derived **out, const struct config *cfg, size_t first, struct metrics *m)
{
	__attribute__((cleanup(derived_free))) struct derived *d = NULL;

	if (!cfg->metrics_span_metrics && !cfg->metrics_service_graph)
		return 0;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->in = m;
	d->spans = cfg->metrics_span_metrics;
	for (enum derived_id id = 0; id < DERIVED_COUNT; id++)
		if (derived_metric(cfg, id))
			d->meters[id] = first++;
	if (cfg->metrics_service_graph && graph_new(&d->graph, GRAPH_EDGES, count_edge, d) < 0)
		return -ENOMEM;
	*out = take(d);
	return 0;
}

void derived_free(struct derived **p)
{
	struct derived *d = take(*p);

	if (!d)
		return;
	graph_free(&d->graph);
	free(d);
}

void derived_record(struct derived *d, struct owner *o, struct resource *of,
		    const struct span *span, bool sampled)
{
	if (d && d->spans)
		count_span(d, o, of, span, sampled);
	if (d && d->graph)
		graph_add(d->graph, o, of, span, sampled);
}

void derived_tick(struct derived *d, uint64_t now_ns)
{
	if (d && d->graph)
		graph_tick(d->graph, now_ns);
}

void derived_settle(struct derived *d, const struct owner *o)
{
	if (d && d->graph)
		graph_settle(d->graph, o);
}

void derived_peers(struct derived *d, struct peers **peers)
{
	if (d && d->graph)
		graph_peers(d->graph, peers);
	peers_free(peers);
}

size_t derived_bytes(const struct derived *d)
{
	return d && d->graph ? graph_bytes(d->graph) : 0;
}
