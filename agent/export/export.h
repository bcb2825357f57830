/* export.h - where batches go. An exporter is one file with one const struct; EXPORT thread only.
 */
#pragma once
#include "base/base.h"
#include "pipeline/batch.h"
#include <stdatomic.h>

struct config;

enum export_verdict {
	EXPORT_DONE,  /* delivered, but for `rejected` */
	EXPORT_RETRY, /* not delivered, worth another attempt after `after_ms` (0: the caller's
			 back-off) */
	EXPORT_SPLIT, /* not delivered: too large, worth another attempt in halves; a single span is
			 dropped */
	EXPORT_DROP,  /* refused for good */
};

/* Why spans were not delivered; label of otlp_failed_items_total. */
enum export_reason {
	EXPORT_HTTP_4XX,
	EXPORT_HTTP_5XX,
	EXPORT_TIMEOUT,
	EXPORT_CONNECT,
	EXPORT_TLS,
	EXPORT_TOO_LARGE,
	EXPORT_REJECTED,
	EXPORT_SHUTDOWN, /* never tried: the agent ended */
	EXPORT_REASON_COUNT
};

struct export_result {
	enum export_verdict verdict;
	enum export_reason reason; /* of everything but DONE */
	size_t rejected;           /* spans that the receiver refused in a partial success */
	uint64_t after_ms;         /* RETRY: not before; 0: the caller's back-off */
	char message[640];         /* one sentence for the log, "" when there is nothing to say */
};

/* Most batches in one job. */
#define EXPORT_BATCHES_MAX 8

/* Some spans of a batch, or of the few that waited, and how long they may take. */
struct export_job {
	const struct batch *batch; /* the first one; the others follow by next */
	size_t first, count;       /* spans, counted through all of them */
	unsigned attempt;          /* 0: the first one of these spans */
	/* CLOCK_MONOTONIC, 0: none. It may be set while send() runs, which gives up then. */
	const _Atomic uint64_t *deadline_ns;
};

/* Walks through the spans of a job. */
struct export_cursor {
	const struct batch *batch; /* of the span that export_next() returned */
	size_t nth;                /* of the batches */
	size_t span, left;
};

static inline struct export_cursor export_begin(const struct export_job *job)
{
	struct export_cursor c = { .batch = job->batch, .span = job->first, .left = job->count };

	while (c.left && c.span >= c.batch->nspans) {
		c.span -= c.batch->nspans;
		c.batch = c.batch->next;
		c.nth++;
	}
	return c;
}

/* NULL at the end. */
static inline const struct span *export_next(struct export_cursor *c)
{
	if (c->left == 0)
		return NULL;
	while (c->span == c->batch->nspans) {
		c->span = 0;
		c->batch = c->batch->next;
		c->nth++;
	}
	c->left--;
	return &c->batch->spans[c->span++];
}

struct exporter {
	const char *name; /* "otlp", "stdout": value of the option `exporters` */
	bool local; /* does not depend on the network: served first, so that it does not wait for
		       retries */
	/* Reads its options. 0 or -errno; has logged why. */
	int (*open)(void **state, const struct config *cfg);
	/* One attempt, all of *out filled. Keeps nothing. Looks at the deadline, and beats
	 * (heart.h), at least every second. */
	void (*send)(void *state, const struct export_job *job, struct export_result *out);
	/* A batch is done with: count spans, of which failed[reason] were not delivered. May be
	 * NULL. */
	void (*done)(void *state, size_t count, const size_t failed[EXPORT_REASON_COUNT]);
	void (*close)(void **state);
};

#define EXPORTER_REGISTER(e)                                                                       \
	static const struct exporter *const e##_entry                                              \
		__attribute__((used, retain, section("exporters"))) = &(e)

/* Weak: a program without exporters links, too. */
extern const struct exporter *const __start_exporters[] __attribute__((weak));
extern const struct exporter *const __stop_exporters[] __attribute__((weak));

/* How long to wait after so many failed attempts in a row, from 1. */
uint64_t export_back_off(uint64_t min_ns, uint64_t max_ns, unsigned waits);
/* True when the deadline (CLOCK_MONOTONIC, 0: none) has passed. */
bool export_expired(const _Atomic uint64_t *deadline_ns);

#define exporter_foreach(it)                                                                       \
	for (const struct exporter *const *it = __start_exporters; it < __stop_exporters; it++)

struct export;
struct pool;

/* Opens the configured exporters. 0 or -errno; has logged why. */
int export_new(struct export **out, const struct config *cfg, struct pool *pool) must_check;
/* Starts the thread that takes batches from the pool, sends, retries and hands them back. */
int export_start(struct export *e) must_check;
/* After pool_close(): flushes until the pool is empty or deadline_ns (CLOCK_MONOTONIC) has passed,
 * then counts and drops the rest, joins. */
void export_stop(struct export *e, uint64_t deadline_ns);
void export_free(struct export **e);
