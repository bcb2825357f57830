/* process.h - what /proc says of each traced process: a source of points (metrics.h). Any thread.
 */
#pragma once
#include "metrics/metrics.h"

struct process_source;
struct targets;

int process_source_new(struct process_source **out, const struct config *cfg,
		       struct targets *t) must_check;
void process_source_free(struct process_source **s);
/* For metrics_source(); state is the struct process_source. */
void process_collect(void *state, const struct collecting *how, const struct point_sink *sink,
		     void *arg);

/* What is read of one process. */
struct process_numbers {
	double user_s, system_s;
	int64_t threads, virtual_bytes, resident_bytes, voluntary, involuntary;
	int64_t fds; /* -1: not to be had */
};
/* 0; -ESRCH: it is not (any more) the process that began at start_time; -EBADMSG; -errno. */
int process_numbers(struct process_numbers *out, const char *proc_root, int pid,
		    uint64_t start_time) must_check;
