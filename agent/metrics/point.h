/* point.h - what was measured, as every exporter of metrics sees it: one data point at a time, in
 * the words of the OTLP data model. Whatever measures (series of the libraries, the Go runtime,
 * /proc) is a source that emits points; whatever sends or shows them is a sink. Pure declarations;
 * strings, bounds and counts of a point are valid during the call only. */
#pragma once
#include "base/base.h"
#include "trace/span.h"

struct resource;

enum instrument_kind {
	INSTRUMENT_COUNTER,   /* monotonic Sum */
	INSTRUMENT_UPDOWN,    /* Sum that is not monotonic; always cumulative */
	INSTRUMENT_GAUGE,     /* last value; has no start */
	INSTRUMENT_HISTOGRAM, /* explicit bounds, or base-2 exponential, see struct point */
};

/* What is measured. Constant; sinks compare it by address. */
struct instrument {
	const char *name; /* "http.server.request.duration" */
	const char *unit; /* UCUM: "s", "By", "{goroutine}" */
	const char *help; /* one sentence, as the conventions' table has it */
	enum instrument_kind kind;
	bool real; /* its values are doubles; else int64 */
};

/* One measurement with the span that made it. */
struct exemplar {
	double value;
	uint64_t time_ns; /* Unix time */
	uint8_t trace_id[16], span_id[8];
};

/* State of a histogram. Explicit: nbounds bounds, strictly increasing, and nbounds + 1 counts,
 * counts[i] of values in (bounds[i-1], bounds[i]]. Exponential (bounds NULL): counts[i] of values
 * in (base^(offset+i), base^(offset+i+1)], base = 2^(2^-scale), and zeros. */
struct histogram_view {
	uint64_t count;
	double sum;
	bool has_sum; /* false where it is not known (Go runtime histograms) */
	const double *bounds;
	size_t nbounds;
	const uint64_t *counts;
	size_t ncounts;
	int32_t scale, offset;
	uint64_t zeros;
};

struct point {
	const struct instrument *of;
	const struct attr *attrs; /* sorted as the instrument's table has them */
	size_t nattrs;
	bool cumulative;            /* also where deltas were asked for: see delta.h */
	uint64_t start_ns, time_ns; /* Unix time; start is the creation of the series, or for
				       deltas the end of the one before; GAUGE: 0 */
	union {
		int64_t i;
		double d;
		struct histogram_view h;
	};
	const struct exemplar *exemplars;
	size_t nexemplars;
};

/* Takes points. Those of one instrument come one after the other, within one resource and scope. */
struct point_sink {
	/* What follows is of this resource and instrumentation scope. */
	void (*begin)(void *arg, struct resource *r, const char *scope);
	void (*point)(void *arg, const struct point *p);
};
