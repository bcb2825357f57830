/* post.h - posts the requests of one signal to an OTLP/HTTP receiver, and says what came of each
 * (OpenTelemetry Protocol Specification, "OTLP/HTTP"). One thread each. */
#pragma once
#include "base/heart.h"
#include "base/stats.h"
#include "export/export.h"

enum otlp_signal { OTLP_TRACES, OTLP_METRICS };

/* A signal, and where its requests are counted. */
struct post_kind {
	enum otlp_signal signal;
	enum heart heart;   /* of the thread that posts */
	const char *items;  /* "spans" */
	const char *answer; /* the message that a receiver answers with */
	_Atomic uint64_t *answered_2xx, *answered_4xx, *answered_5xx, *not_answered, *sent_bytes,
		*last_success;
};

struct post;

/* 0 or -errno; has logged which option is wrong. */
int post_new(struct post **out, const struct config *cfg, const struct post_kind *kind) must_check;
void post_free(struct post **p);
/* One attempt with `count` items, all of *out filled. Gives up at *deadline_ns (CLOCK_MONOTONIC, 0:
 * none), which may be set meanwhile. */
void post_send(struct post *p, const uint8_t *body, size_t size, size_t count,
	       const _Atomic uint64_t *deadline_ns, struct export_result *out);
