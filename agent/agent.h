/* agent.h - the running agent, shared by agent.c (main's thread: making, stopping) and
 * agent_report.c (admin's thread: /status, /readyz, /metrics). Written before the admin thread
 * starts, but for `stopping`. */
#pragma once
#include "base/admin.h"
#include "base/config.h"
#include "check.h"
#include "trace/attach.h"

#include <stdatomic.h>

struct discover;
struct metrics;
struct process_source;
struct runtime_source;
struct prometheus;
struct push;
struct export;
struct pool;
struct ring;
struct targets;

struct agent {
	const struct config *cfg;
	struct checks checks;
	struct attach *attach;
	struct targets *targets;
	struct pool *pool;
	struct export *export;
	struct ring *ring;
	struct discover *discover;
	struct metrics *metrics;          /* NULL: nothing is measured */
	struct process_source *processes; /* NULL: not asked for */
	struct runtime_source *runtimes;  /* the same */
	struct push *push;
	struct prometheus *prometheus;
	struct admin *admin;
	bool export_runs, push_runs, ring_runs, discover_runs;
	atomic_bool stopping;
	uint64_t started_ns; /* CLOCK_MONOTONIC */
};

/* What /readyz and /status ask. */
struct admin_source agent_source(struct agent *a);
/* Registers what /metrics shows beside the table of stats.h. */
void agent_stats(struct agent *a);
/* Logs what became of the spans. */
void agent_summary(void);
