/* source.h - what Go's runtime in each traced process says: a source of points (metrics.h). Any
 * thread. */
#pragma once
#include "metrics/metrics.h"

struct runtime_source;
struct targets;

int runtime_source_new(struct runtime_source **out, const struct config *cfg,
		       struct targets *t) must_check;
void runtime_source_free(struct runtime_source **s);
/* For metrics_source(); state is the struct runtime_source. */
void runtime_collect(void *state, const struct collecting *how, const struct point_sink *sink,
		     void *arg);
