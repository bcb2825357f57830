/* export.h - where batches go. An exporter is one file with one const struct; EXPORT thread only. */
#pragma once
#include "base/base.h"
#include "pipeline/batch.h"

struct config;

enum export_verdict {
	EXPORT_DONE,  /* delivered, but for `rejected` */
	EXPORT_RETRY, /* not delivered, worth another attempt after `after_ms` (0: the caller's back-off) */
	EXPORT_DROP,  /* refused for good: `reason` says why */
};

struct export_result {
	enum export_verdict verdict;
	const char *reason; /* metric label: http_4xx, http_5xx, timeout, connect, tls, too_large, rejected */
	size_t rejected;    /* spans that the receiver refused in a partial success */
	uint64_t after_ms;
};

struct exporter {
	const char *name; /* "otlp", "stdout": value of the option `exporters` */
	/* Reads its options. 0 or -errno; has logged why. */
	int (*open)(void **state, const struct config *cfg);
	/* One attempt. Does not keep b. deadline_ns (CLOCK_MONOTONIC): give up then. */
	void (*send)(void *state, const struct batch *b, uint64_t deadline_ns, struct export_result *out);
	void (*close)(void **state);
};

#define EXPORTER_REGISTER(e)                                                                       \
	static const struct exporter *const e##_entry                                              \
		__attribute__((used, retain, section("exporters"))) = &(e)

extern const struct exporter *const __start_exporters[] __attribute__((weak));
extern const struct exporter *const __stop_exporters[] __attribute__((weak));

#define exporter_foreach(it)                                                                       \
	for (const struct exporter *const *it = __start_exporters; it < __stop_exporters; it++)

struct export;
struct pool;

/* Opens the configured exporters. 0 or -errno; has logged why. */
int export_new(struct export **out, const struct config *cfg, struct pool *pool) must_check;
/* Starts the thread that takes batches from the pool, sends, retries and hands them back. */
int export_start(struct export *e) must_check;
/* After pool_close(): flushes until the pool is empty or deadline_ns (CLOCK_MONOTONIC) has passed, then counts and drops the rest, joins. */
void export_stop(struct export *e, uint64_t deadline_ns);
void export_free(struct export **e);
