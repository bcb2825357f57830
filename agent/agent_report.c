/* What the agent tells about itself: readiness, status, metrics, the summary at its end. */
#include "agent.h"
#include "base/heart.h"
#include "base/log.h"
#include "base/stats.h"
#include "commands.h"
#include "discover/discover.h"
#include "metrics/metrics.h"
#include "propagate/propagate.h"
#include "trace/lib.h"
#include "version.h"

#include <jansson.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <time.h>

#define RING_SILENCE 30.0 /* seconds after which the ring counts as not polled */

static void put_check(struct admin_check *c, const char *name, bool ok, const char *reason)
{
	c->ok = ok;
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	(void)snprintf(c->reason, sizeof(c->reason), "%s", reason);
}

static size_t report_ready(void *arg, struct admin_check *checks, size_t max)
{
	struct agent *a = arg;
	char reason[sizeof(checks->reason)] = "";
	bool polled = heart_watched(HEART_EVENTS) && heart_age(HEART_EVENTS) <= RING_SILENCE;
	bool stopping = atomic_load(&a->stopping), known;
	size_t n = 0;

	if (max < 3)
		return 0;
	put_check(&checks[n++], "running", !stopping, stopping ? "the agent is being stopped" : "");
	put_check(&checks[n++], "events", polled, polled ? "" : "the ring of events is not polled");
	known = discover_ready(a->discover, reason, sizeof(reason));
	put_check(&checks[n++], "pods", known, reason);
	stat_set(ready, !stopping && polled && known);
	return n;
}

static json_t *libraries_json(const struct agent *a)
{
	json_t *all = json_array();

	lib_foreach (l) {
		const char *why = attach_lib_disabled(a->attach, (size_t)(l - __start_libs));

		json_array_append_new(all, json_pack("{s:s, s:b, s:s}", "name", (*l)->name,
						     "enabled", !why, "reason", why ? why : ""));
	}
	return all;
}

/* reason="busy" -> busy */
static const char *reason_of(const char *labels, char *out, size_t size)
{
	const char *from = strchr(labels, '"');

	(void)snprintf(out, size, "%.*s", from ? (int)strcspn(from + 1, "\"") : 0,
		       from ? from + 1 : "");
	return out;
}

/* What is asked for, whether it works, and what has come of it: by the labels of the metric. */
static json_t *propagation_json(const struct agent *a)
{
	const struct propagate *p = attach_propagate(a->attach);
	const char *off = propagate_off(p), *unwritten = propagate_write_off(p);
	bool write = strcmp(a->cfg->propagation, "write") == 0;
	json_t *absent = json_object();

#define X(id, kind, family, labels, help)                                                          \
	if (strcmp(family, "propagation_absent_total") == 0)                                       \
		json_object_set_new(absent, reason_of(labels, (char[64]){ 0 }, 64),                \
				    json_integer((json_int_t)stat_get(id)));
	KERNEL_STATS(X)
#undef X
	return json_pack("{s:s, s:b, s:s, s:{s:b, s:s}, s:I, s:o}", "mode", a->cfg->propagation,
			 "works", !off, "reason", off && p ? off : "", "write", "works", !unwritten,
			 "reason", write && unwritten ? unwritten : "", "inserted",
			 (json_int_t)stat_get(propagation_inserted), "absent", absent);
}

static json_t *spans_json(void)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "produced", (json_int_t)stat_get(spans_produced),
			 "exported", (json_int_t)stat_get(spans_exported), "sampled_out",
			 (json_int_t)stat_get(spans_sampled_out), "queued",
			 (json_int_t)stat_get(spans_queued));
}

/* Whose series there are, and what waits to be sent. */
static json_t *metrics_json(const struct agent *a)
{
	json_t *to = json_array();

	if (metrics_pushed(a->cfg))
		json_array_append_new(to, json_string("otlp"));
	if (a->prometheus)
		json_array_append_new(to, json_string("prometheus"));
	return json_pack("{s:o, s:I, s:I, s:I, s:I}", "exporters", to, "operations",
			 (json_int_t)stat_get(metric_measured), "series",
			 a->metrics ? (json_int_t)metrics_series(a->metrics) : 0, "overflow",
			 (json_int_t)stat_get(metric_overflow), "queued_points",
			 (json_int_t)stat_get(points_queued));
}

static int report_status(void *arg, struct json_t *root)
{
	struct agent *a = arg;
	struct admin_check ready[8];
	size_t n = report_ready(a, ready, ARRAY_SIZE(ready));
	struct timespec now;
	json_t *why = json_array();
	bool all = true;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (size_t i = 0; i < n; i++) {
		all = all && ready[i].ok;
		json_array_append_new(why, json_pack("{s:s, s:b, s:s}", "name", ready[i].name, "ok",
						     ready[i].ok, "reason", ready[i].reason));
	}
	json_object_set_new(root, "version", json_string(SPOOR_VERSION));
	json_object_set_new(root, "revision", json_string(SPOOR_REVISION));
	json_object_set_new(root, "node", json_string(a->cfg->node_name));
	json_object_set_new(
		root, "uptime_seconds",
		json_integer((json_int_t)now.tv_sec - (json_int_t)(a->started_ns / 1000000000)));
	json_object_set_new(root, "ready", json_boolean(all));
	json_object_set_new(root, "readiness", why);
	json_object_set_new(root, "spans", spans_json());
	json_object_set_new(root, "metrics", metrics_json(a));
	json_object_set_new(root, "libraries", libraries_json(a));
	attach_collect_stats(a->attach);
	json_object_set_new(root, "propagation", propagation_json(a));
	if (check_json(&a->checks, root, "checks") != 0)
		return -ENOMEM;
	return discover_status(a->discover, root);
}

struct admin_source agent_source(struct agent *a)
{
	return (struct admin_source){ .ready = report_ready, .status = report_status, .arg = a };
}

static void put_infos(struct stats_page *page, const struct agent *a)
{
	const struct check *lockdown = check_find(&a->checks, "lockdown");
	const struct check *btf = check_find(&a->checks, "kernel BTF");
	char mode[32] = "unknown";
	struct utsname u = { 0 };

	(void)uname(&u);
	if (lockdown)
		(void)snprintf(mode, sizeof(mode), "%.*s", (int)strcspn(lockdown->found, " "),
			       lockdown->found);
	stats_sample(page, GAUGE, "spoor_build_info",
		     (const char *const[]){ "version", SPOOR_VERSION, "revision", SPOOR_REVISION,
					    "libbpf", version_libbpf(), "arch", version_arch(),
					    NULL },
		     "Build information; value is always 1", 1);
	stats_sample(page, GAUGE, "spoor_kernel_info",
		     (const char *const[]){
			     "release", u.release, "lockdown", mode, "attach_mode", "uprobe_multi",
			     "btf", btf && strncmp(btf->found, "there", 5) == 0 ? "true" : "false",
			     NULL },
		     "Kernel release and facts about it; value is always 1", 1);
}

static void put_feature(struct stats_page *page, const char *feature, const char *reason)
{
	stats_sample(
		page, GAUGE, "spoor_feature_enabled",
		(const char *const[]){ "feature", feature, "reason", reason, NULL },
		"Features that the configuration asks for: 1 works, 0 does not, with the reason",
		!*reason);
}

/* A library that the configuration turns off is not asked for. */
static bool asked_for(const struct config *cfg, const char *lib)
{
	for (size_t i = 0; i < cfg->libraries_disabled.n; i++)
		if (strcmp(cfg->libraries_disabled.v[i], lib) == 0)
			return false;
	return true;
}

static void collect(struct stats_page *page, void *arg)
{
	struct agent *a = arg;
	struct admin_check ready[8];

	(void)report_ready(a, ready, ARRAY_SIZE(ready)); /* sets the gauge */
	attach_collect_stats(a->attach);
	put_infos(page, a);
	for (size_t i = 0; i < a->checks.n; i++)
		if (a->checks.v[i].state == CHECK_DEGRADED || a->checks.v[i].state == CHECK_MISSING)
			put_feature(page, a->checks.v[i].name, a->checks.v[i].found);
	if (!propagate_off(attach_propagate(a->attach))) /* else it is among the checks */
		put_feature(page, "propagation", "");
	if (!propagate_write_off(attach_propagate(a->attach)))
		put_feature(page, "propagation_write", "");
	lib_foreach (l) {
		const char *why = attach_lib_disabled(a->attach, (size_t)(l - __start_libs));

		if (asked_for(a->cfg, (*l)->name))
			put_feature(page, (*l)->name, why ? why : "");
	}
	stats_process(page, NULL);
	if (a->metrics)
		metrics_stats(page, a->metrics);
}

void agent_stats(struct agent *a)
{
	stats_collector(collect, a);
}

/* Spans that were lost, and in `text` by which reasons. */
static uint64_t sum_dropped(char *text, size_t size)
{
#define X(id, kind, family, labels, help) { STAT_##id, family, labels },
	static const struct {
		enum stat_id id;
		const char *family, *labels;
	} rows[] = { STATS(X) };
#undef X
	uint64_t total = 0;
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t lost = atomic_load_explicit(&stats[rows[i].id], memory_order_relaxed);

		if (!lost || strcmp(rows[i].family, "spans_dropped_total") != 0)
			continue;
		total += lost;
		if (n < size)
			n += (size_t)snprintf(text + n, size - n, "%s%s %llu", n ? ", " : ": ",
					      rows[i].labels, (unsigned long long)lost);
	}
	return total;
}

void agent_summary(void)
{
	char dropped[512] = "";
	uint64_t total = sum_dropped(dropped, sizeof(dropped)), known;

	log_info("agent: done: %llu spans produced, %llu exported, %llu sampled out, %llu "
		 "dropped%s; processes traced: %llu",
		 (unsigned long long)stat_get(spans_produced),
		 (unsigned long long)stat_get(spans_exported),
		 (unsigned long long)stat_get(spans_sampled_out), (unsigned long long)total,
		 dropped, (unsigned long long)stat_get(attach_total));
	known = stat_get(spans_exported) + stat_get(spans_sampled_out) + stat_get(spans_queued) +
		total;
	if (known != stat_get(spans_produced))
		log_error("agent: the books do not close: %llu spans were produced, the fate of "
			  "%llu is known: this is a mistake in spoor",
			  (unsigned long long)stat_get(spans_produced), (unsigned long long)known);
}
