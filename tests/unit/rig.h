/* rig.h - pool, export thread and scripted receiver of one export test. */
#pragma once
#include "export/export.h"

#include "base/config.h"
#include "base/heart.h"
#include "base/stats.h"
#include "pipeline/resource.h"
#include "sink.h"

#include <stdarg.h>

#define MS 1000000ull

/* Pool, exporter and sink of one test. */
struct rig {
	struct config *cfg;
	struct pool *pool;
	struct export *export;
	struct resource *resource;
	struct sink sink;
	uint64_t next; /* span id */
};

/* options: "--batch-spans=8", ..., NULL. */
static inline void rig_open(struct rig *r, const struct sink_step *steps, size_t nsteps, ...)
{
	struct resource_attr attr = { .key = "service.name", .value = "test" };
	char endpoint[64];
	char *argv[32] = { "agent",
			   endpoint,
			   "--export-retry-min=20ms",
			   "--export-retry-max=90ms",
			   "--batch-spans=8",
			   "--batch-count=4" };
	int argc = 6, rest;
	va_list ap;

	*r = (struct rig){ .next = 1 };
	sink_open(&r->sink, steps, nsteps);
	(void)snprintf(endpoint, sizeof(endpoint), "--otlp-endpoint=http://127.0.0.1:%u",
		       r->sink.port);
	va_start(ap, nsteps);
	while ((argv[argc] = va_arg(ap, char *)))
		argc++;
	va_end(ap);
	cr_assert_eq(config_load(&r->cfg, argc, argv, &rest), 0);
	cr_assert_eq(
		pool_new(&r->pool, r->cfg->batch_count, r->cfg->batch_spans, r->cfg->batch_bytes),
		0);
	cr_assert_eq(resource_new(&r->resource, &attr, 1), 0);
	cr_assert_eq(export_new(&r->export, r->cfg, r->pool), 0);
}

static inline void rig_start(struct rig *r)
{
	sink_start(&r->sink);
	cr_assert_eq(export_start(r->export), 0);
}

#define STEPS(...)                                                                                 \
	(const struct sink_step[]){ __VA_ARGS__ },                                                 \
		ARRAY_SIZE(((const struct sink_step[]){ __VA_ARGS__ }))

/* Queues one batch of n spans with an attribute of that many bytes. */
static inline void produce_large(struct rig *r, size_t n, size_t bytes)
{
	size_t dropped;
	struct batch *b = pool_get(r->pool, &dropped);

	char *text = arena_get(&b->arena, bytes);

	cr_assert(text);
	memset(text, 'x', bytes);
	stat_add(spans_dropped_queue, dropped);
	for (size_t i = 0; i < n; i++) {
		struct attr attrs[1] = {
			{ .key = "url.path", .type = ATTR_STR, .s = { text, bytes } }
		};
		struct span s = { .start_ns = 1,
				  .end_ns = 2,
				  .name = { "GET", 3 },
				  .kind = SPAN_SERVER,
				  .nattrs = 1,
				  .attrs = attrs };
		uint64_t id = __builtin_bswap64(r->next++);

		memcpy(s.span_id, &id, sizeof(id));
		memcpy(s.trace_id, &id, sizeof(id));
		cr_assert_eq(batch_add(b, &s, r->resource), 0);
		stat_add(spans_produced, 1);
	}
	pool_send(r->pool, b);
}

/* Queues one batch of n spans. */
static inline void produce(struct rig *r, size_t n)
{
	produce_large(r, n, 8);
}

static inline uint64_t dropped_total(void)
{
	return stat_get(spans_dropped_queue) + stat_get(spans_dropped_rejected) +
	       stat_get(spans_dropped_refused) + stat_get(spans_dropped_too_old) +
	       stat_get(spans_dropped_too_large) + stat_get(spans_dropped_shutdown);
}

static inline void expect_conserved(void)
{
	cr_expect_eq(stat_get(spans_produced),
		     stat_get(spans_exported) + dropped_total() + stat_get(spans_queued));
}

/* Waits (at most 10 s) until no span is queued or being sent. */
static inline void settle(void)
{
	for (int i = 0; i < 1000 && stat_get(spans_queued); i++)
		(void)usleep(10000);
	cr_assert_eq(stat_get(spans_queued), 0);
	expect_conserved();
}

static inline void rig_close(struct rig *r, uint64_t ms)
{
	pool_close(r->pool);
	export_stop(r->export, sink_now() + ms * MS);
	expect_conserved();
	cr_expect_eq(stat_get(spans_queued), 0);
	export_free(&r->export);
	pool_free(&r->pool);
	cr_expect_eq(r->resource->refs, 1);
	resource_put(&r->resource);
	sink_close(&r->sink);
	config_free(&r->cfg);
}
