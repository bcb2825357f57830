/* derived.h - metrics that are made of all spans, whatever their library: span metrics and the
 * service graph, as Tempo's metrics generator names and cuts them, for dashboards that expect
 * those. Under the lock of metrics.c.
 *
 * Sources (grafana/tempo): modules/generator/processor/spanmetrics/spanmetrics.go and config.go,
 * .../servicegraphs/servicegraphs.go and config.go. Both processors write histograms without any
 * unit's suffix, so that these instruments have no unit. */
#pragma once
#include "metrics/metrics.h"

struct derived;
struct lib_metric;
struct peers;

enum derived_id {
	DERIVED_CALLS,
	DERIVED_LATENCY,
	DERIVED_REQUESTS,
	DERIVED_FAILED,
	DERIVED_SERVER,
	DERIVED_CLIENT,
	DERIVED_COUNT
};

#define DERIVED_SCOPE "spoor/derived"

/* NULL: the configuration does not want it. */
const struct lib_metric *derived_metric(const struct config *cfg, enum derived_id id);
/* Whether attributes of spans may be added to it. */
bool derived_extends(enum derived_id id);

/* first: the meter of the first one that is wanted; the others follow it. *out NULL: none is. 0 or
 * -ENOMEM. */
int derived_new(struct derived **out, const struct config *cfg, size_t first,
		struct metrics *m) must_check;
void derived_free(struct derived **d);
/* All of these: d may be NULL. */
void derived_record(struct derived *d, struct owner *o, struct resource *of,
		    const struct span *span, bool sampled);
/* The time, CLOCK_MONOTONIC. */
void derived_tick(struct derived *d, uint64_t now_ns);
/* That owner ends; NULL: everything does. */
void derived_settle(struct derived *d, const struct owner *o);
/* Takes *peers over. */
void derived_peers(struct derived *d, struct peers **peers);
size_t derived_bytes(const struct derived *d);

/* Of metrics.c: one measurement for the series of these attributes. */
void metrics_measure(struct metrics *m, struct owner *o, size_t meter, const struct span *span,
		     bool sampled, double value);
