/* attach_rig.h - for tests as root: the agent's middle, without discovery and export, and a plan of
 * what is to be hooked in which the test has the say. */
#pragma once
#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"
#include "gobin/gobin.h"
#include "pipeline/batch.h"
#include "pipeline/resource.h"
#include "trace/attach.h"
#include "trace/clock.h"
#include "trace/ring.h"
#include "trace/selftest.h"
#include "trace/span.h"
#include "trace/target.h"
#include <criterion/criterion.h>

#define unused __attribute__((unused))

static struct config *cfg;
static struct attach *attach;
static struct targets *targets;
static struct pool *pool;
static struct ring *ring;
static struct plan *plan;
static unused size_t hooked; /* places, at the last follow() */

static unused size_t index_of(const struct lib *lib)
{
	size_t i = 0;

	while (lib_at(i) && lib_at(i) != lib)
		i++;
	cr_assert_lt(i, lib_count());
	return i;
}

static unused void load_config(const char *ring_size, const char *share)
{
	char size[64], held[64];
	char *argv[] = { (char *)"agent",
			 size,
			 held,
			 (char *)"--operations-max=100",
			 (char *)"--targets-max=40",
			 (char *)"--batch-delay=50ms",
			 (char *)"--ring-interval=20ms" };

	(void)snprintf(size, sizeof(size), "--ring-size=%s", ring_size);
	(void)snprintf(held, sizeof(held), "--operations-max-per-process=%s", share);
	cr_assert_eq(config_load(&cfg, ARRAY_SIZE(argv), argv, NULL), 0);
}

static unused void open_middle(const char *ring_size, const char *share)
{
	load_config(ring_size, share);
	cr_assert_eq(attach_open(&attach, cfg), 0, "root, BPF and uprobe_multi are needed");
	cr_assert_eq(targets_new(&targets, cfg->targets_max), 0);
	cr_assert_eq(pool_new(&pool, 8, 512, 256 << 10), 0);
	cr_assert_eq(ring_new(&ring, cfg, attach_events_fd(attach), attach_sleeping(attach),
			      targets, pool),
		     0);
}

static unused void tear_down(void)
{
	ring_stop(ring);
	ring_free(&ring);
	attach_close(&attach);
	targets_free(&targets);
	pool_free(&pool);
	config_free(&cfg);
}

/* The worker's sequence, for a process that runs this program. */
static unused struct attached *follow(int pid, uint16_t *slot)
{
	struct resource_attr attr = { .key = "service.name", .value = "toy" };
	struct resource *r = NULL;
	struct attached *attached = NULL;
	struct target *t = NULL;
	const char *why = NULL;
	uint32_t generation;
	size_t nprobes = 0;

	cr_assert_eq(resource_new(&r, &attr, 1), 0);
	cr_assert_eq(targets_reserve(targets, slot, &generation), 0);
	cr_assert_eq(target_new(&t, *slot, generation, pid, &r, NULL, NULL, 0, SIGNAL_TRACES), 0);
	targets_publish(targets, t);
	cr_assert_eq(attach_process(&attached, attach, plan, pid, "/proc/self/exe", *slot,
				    generation, 0x10000, 0, &nprobes, &why),
		     0, "%s", why);
	hooked = nprobes;
	return attached;
}

static unused int64_t value(const struct span *s, const char *key)
{
	const struct attr *a = span_attr(s, key);

	cr_assert_not_null(a, "%s", key);
	return a->i;
}

/* Spans that arrive until there are n or a while has passed; the first one is copied to *first. */
static unused size_t receive(size_t n, struct span *first)
{
	static struct attr attrs[SPAN_ATTRS_MAX];
	uint64_t until = clock_monotonic() + 5000000000u;
	size_t got = 0;

	while (got < n && clock_monotonic() < until) {
		struct batch *b = pool_receive(pool, 200);

		if (!b)
			continue;
		if (!got && first) {
			*first = b->spans[0];
			memcpy(attrs, first->attrs, first->nattrs * sizeof(*attrs));
			first->attrs = attrs;
		}
		got += b->nspans;
		pool_put(pool, b);
	}
	return got;
}
