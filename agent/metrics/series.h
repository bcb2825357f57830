/* series.h - the series of one owner: found by their attributes, made when they are new. Under the
 * lock of metrics.c. */
#pragma once
#include "metrics/histogram.h"

struct config;
struct lib;
struct lib_metric;

/* An instrument of a library, as the configuration wants it. */
struct meter {
	const struct lib_metric *of;
	const char *scope;
	const char **keys;    /* attributes of its series, NULL-terminated */
	size_t nkeys, nown;   /* the last nown are texts of its own */
	const double *bounds; /* NULL: exponential */
	size_t nbounds;
};

#define METER_KEYS_MAX SPAN_ATTRS_MAX

/* All instruments of all libraries; those of one library stand together. */
struct meters {
	struct meter *v;
	size_t n;
	size_t *first; /* of each library, and one more: those that are derived (derived.h) */
	size_t limit;  /* most series of one owner and instrument */
	bool delta;    /* what came since the last collection is kept beside the sums */
};

/* 0; -EINVAL: has logged which option is wrong; -ENOMEM. */
int meters_new(struct meters **out, const struct config *cfg) must_check;
void meters_free(struct meters **m);

struct series {
	struct series *next; /* of the same meter, in the order of their making */
	struct series *same; /* in its bucket */
	uint64_t hash, start_ns;
	size_t size; /* bytes that it takes */
	struct histogram total;
	struct histogram since;     /* meters.delta: the last collection */
	uint64_t since_ns;          /* when that was */
	struct exemplar *exemplars; /* NULL: none yet; one a bucket, or EXEMPLARS in turn */
	size_t nexemplars;
	size_t nattrs;
	struct attr attrs[];
};

/* Exemplars of an exponential histogram. */
#define EXEMPLARS 20

struct table {
	struct series **buckets;
	size_t nbuckets, n;
	struct chain {
		struct series *first, **last, *overflow;
		size_t n;
	} chains[]; /* by meter */
};

/* 0 or -ENOMEM. */
int table_new(struct table **out, const struct meters *m) must_check;
void table_free(struct table **t);
/* The series for the attributes of that span. *fresh is the bytes of one that was made; with
 * full, or where the meter has reached its limit, it is the one of all others
 * (otel.metric.overflow), and *over is true. NULL: no memory. */
struct series *table_find(struct table *t, const struct meters *m, size_t meter,
			  const struct span *span, uint64_t now_ns, bool full, size_t *fresh,
			  bool *over);
/* The bucket is that of total. Allocates for the first one; without memory there is none. */
void series_exemplar(struct series *s, size_t bucket, const struct exemplar *e);
