/* span.h - what an event means: one finished operation in the words of the semantic conventions.
 * Filled by a library's decode() on the events thread; strings lie in the batch's arena. */
#pragma once
#include "base/base.h"

/* Values of the OTLP enum Span.SpanKind (opentelemetry/proto/trace/v1/trace.proto). */
enum span_kind { SPAN_INTERNAL = 1, SPAN_SERVER, SPAN_CLIENT, SPAN_PRODUCER, SPAN_CONSUMER };

/* Values of the OTLP enum Status.StatusCode. Instrumentation never sets OK. */
enum span_status { SPAN_UNSET = 0, SPAN_ERROR = 2 };

/* What a trial probe (struct go_probe) is worth for an operation. */
enum span_trial {
	TRIAL_NONE,   /* it had no hit, and none would have helped */
	TRIAL_IDLE,   /* its hit told what was known without it */
	TRIAL_GAINED, /* the span says something that only its hit told */
	TRIAL_MISSED, /* it had no hit, and one might have helped; the last one, see target.h */
};

enum attr_type { ATTR_STR, ATTR_INT, ATTR_BOOL };

struct attr {
	const char *key; /* a string constant */
	enum attr_type type;
	union {
		struct str s; /* valid UTF-8 */
		int64_t i;    /* ATTR_INT, ATTR_BOOL */
	};
};

#define SPAN_ATTRS_MAX 32

struct span {
	uint64_t start_ns, end_ns; /* from decode(): CLOCK_BOOTTIME; in a batch: Unix time */
	uint8_t trace_id[16], span_id[8], parent_id[8]; /* parent_id zero: a root */
	uint32_t flags; /* OTLP Span.flags: W3C flags, 0x100 has-is-remote, 0x200 is-remote */
	struct str tracestate;
	struct str name;
	enum span_kind kind;
	enum span_status status;
	bool cut;     /* decode() has shortened a string */
	bool health;  /* decode() found that it asks after the program's health, or scrapes it: by
			 default neither sent nor measured, but counted */
	bool exports; /* decode() found that it is an SDK's way to its collector: neither sent nor
			 measured, but counted */
	enum span_trial trial; /* set by decode() */
	uint16_t resource;     /* index in the batch, set by batch_add() */
	uint8_t lib;           /* index of the library, names the scope */
	uint8_t nattrs;
	struct attr *attrs; /* decode() is given room for SPAN_ATTRS_MAX */
};

/* Adds an attribute; absent strings ({NULL, 0}) and what exceeds SPAN_ATTRS_MAX are left out (the
 * latter counted by the caller through nattrs). */
static inline void span_str(struct span *s, const char *key, struct str value)
{
	if (value.p && s->nattrs < SPAN_ATTRS_MAX)
		s->attrs[s->nattrs++] = (struct attr){ .key = key, .type = ATTR_STR, .s = value };
}

static inline void span_int(struct span *s, const char *key, int64_t value)
{
	if (s->nattrs < SPAN_ATTRS_MAX)
		s->attrs[s->nattrs++] = (struct attr){ .key = key, .type = ATTR_INT, .i = value };
}

/* The attribute of that key, or NULL. */
static inline const struct attr *span_attr(const struct span *s, const char *key)
{
	for (int i = 0; i < s->nattrs; i++)
		if (strcmp(s->attrs[i].key, key) == 0)
			return &s->attrs[i];
	return NULL;
}
