/* The rows of the self-check that ask others: one real request to the kubelet, one to the
 * collector. */
#include "base/config.h"
#include "check.h"
#include "discover/kubelet.h"
#include "discover/pod.h"
#include "export/export.h"
#include "export/otlp_signal.h"
#include "export/otlp_url.h"

#include <poll.h>
#include <stdio.h>
#include <time.h>

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Runs the request to its end, or to the time-out. Number of pods, or -1. */
static long ask_kubelet(struct kubelet *k, const struct config *cfg)
{
	uint64_t until = now_ms() + cfg->kubelet_timeout + 1000;
	struct kubelet_state state = { 0 };
	struct pods *pods = NULL;
	long n;

	kubelet_refresh(k);
	while (now_ms() < until) {
		struct pollfd fd = { .fd = kubelet_fd(k), .events = POLLIN };

		if (kubelet_run(k, &pods) == 1) {
			n = (long)pods_count(pods);
			pods_free(&pods);
			return n;
		}
		kubelet_state(k, &state);
		if (state.why != KUBELET_OK || state.disabled)
			return -1;
		(void)poll(&fd, 1, 100);
	}
	return -1;
}

static void check_kubelet(struct checks *out, const struct config *cfg)
{
	bool wanted = kubelet_wanted(cfg);
	struct kubelet_state state = { 0 };
	struct kubelet *k = NULL;
	struct check *row;
	long pods = -1;
	int err = wanted ? kubelet_new(&k, cfg) : 0;

	if (k) {
		pods = ask_kubelet(k, cfg);
		kubelet_state(k, &state);
	}
	row = check_add(out, "kubelet",
			!wanted     ? CHECK_SKIPPED
			: pods >= 0 ? CHECK_OK
				    : CHECK_MISSING,
			"pods are not known: no annotation is seen, no span names its pod",
			"see what was found; RBAC: get on nodes/pods (before Kubernetes 1.33 "
			"nodes/proxy); TLS: kubelet.tls.mode");
	if (!wanted)
		(void)snprintf(row->found, sizeof(row->found), "not asked: kubelet.source is %s%s",
			       cfg->kubelet_source,
			       strcmp(cfg->kubelet_source, "auto") == 0
				       ? ", and this is not in Kubernetes"
				       : "");
	else if (pods >= 0)
		(void)snprintf(row->found, sizeof(row->found), "answers, %ld pods, TLS: %s", pods,
			       state.tls_mode ? state.tls_mode : "?");
	else
		(void)snprintf(row->found, sizeof(row->found), "%s",
			       *state.message ? state.message
			       : err          ? strerror(-err)
					      : "no answer in time");
	kubelet_free(&k);
}

static bool exports_to(const struct config *cfg, const char *name)
{
	for (size_t i = 0; i < cfg->exporters.n; i++)
		if (strcmp(cfg->exporters.v[i], name) == 0)
			return true;
	return false;
}

/* An empty request: every OTLP receiver answers it. */
static void ask_collector(struct export_result *result, const struct exporter *e,
			  const struct config *cfg)
{
	struct batch empty = { 0 };
	_Atomic uint64_t deadline =
		(now_ms() + otlp_options(cfg, OTLP_TRACES).timeout_ms) * 1000000;
	struct export_job job = { .batch = &empty, .deadline_ns = &deadline };
	void *state = NULL;

	if (e->open(&state, cfg) != 0) {
		result->verdict = EXPORT_DROP;
		(void)snprintf(result->message, sizeof(result->message),
			       "its options are refused, see the log");
		return;
	}
	e->send(state, &job, result);
	e->close(&state);
}

static void check_collector(struct checks *out, const struct config *cfg)
{
	struct export_result result = { .verdict = EXPORT_DROP };
	char url[2048] = "?";
	const char *bad;
	struct check *row;
	bool asked = false;

	exporter_foreach (e)
		if (strcmp((*e)->name, "otlp") == 0 && exports_to(cfg, "otlp")) {
			ask_collector(&result, *e, cfg);
			asked = true;
		}
	row = check_add(out, "collector",
			!asked                          ? CHECK_SKIPPED
			: result.verdict == EXPORT_DONE ? CHECK_OK
							: CHECK_DEGRADED,
			"spans wait in the queue, and the oldest are dropped when it is full",
			"start one there, or set otlp.endpoint (and otlp.headers) to yours");
	if (otlp_url(url, sizeof(url), cfg, OTLP_TRACES, &bad) != 0)
		(void)snprintf(url, sizeof(url), "%s", bad);
	if (!asked)
		(void)snprintf(row->found, sizeof(row->found), "not asked (exporters)");
	else
		(void)snprintf(row->found, sizeof(row->found), "%.120s%s%.190s",
			       strstr(result.message, url) ? "" : url,
			       strstr(result.message, url) ? "" : ": ",
			       *result.message ? result.message : "accepts spans");
}

void check_network(struct checks *out, const struct config *cfg)
{
	check_kubelet(out, cfg);
	check_collector(out, cfg);
}
