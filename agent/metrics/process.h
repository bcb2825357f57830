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

/* Context switches of a process whose threads come and go; the caller frees v. */
struct process_switches {
	struct process_thread {
		int tid;
		bool seen;
		int64_t voluntary, involuntary;
	} * v;
	size_t n;
	int64_t voluntary, involuntary; /* of threads that have ended */
};

/* A thread that is there, with its counts. 0 or -ENOMEM. */
int process_switched(struct process_switches *s, int tid, int64_t voluntary,
		     int64_t involuntary) must_check;
/* The sums, after all threads that are there were told: those that were not have ended. */
void process_switches(struct process_switches *s, int64_t *voluntary, int64_t *involuntary);

/* What is read of one process. */
struct process_numbers {
	double user_s, system_s;
	int64_t threads, virtual_bytes, resident_bytes, voluntary, involuntary;
	int64_t fds; /* -1: not to be had */
};
/* 0; -ESRCH: it is not (any more) the process that began at start_time; -EBADMSG; -errno. */
int process_numbers(struct process_numbers *out, const char *proc_root, int pid,
		    uint64_t start_time, struct process_switches *switches_of) must_check;
