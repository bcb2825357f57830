/* tracer.h - the worker's backend: reads a process's executable, says who it is, reserves its slot,
 * attaches. WORKER thread only. */
#pragma once
#include "base/base.h"

struct attach;
struct config;
struct targets;
struct tracer;
struct worker_backend;

int tracer_new(struct tracer **out, const struct config *cfg, struct attach *a,
	       struct targets *t) must_check;
void tracer_free(struct tracer **t);
/* Both of its functions, for worker_new(). */
struct worker_backend tracer_backend(struct tracer *t);
