#include "base/admin.h"

#include "base/config.h"
#include "base/heart.h"
#include "base/log.h"
#include "base/pages.h"
#include "base/stats.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdio.h>

#define HEART_LIMIT 30.0 /* seconds without a beat after which a thread counts as dead */
#define CHECKS_MAX  16

struct admin {
	struct pages *pages;
	const struct admin_source *source;
};

static void get_metrics(struct page_request *r)
{
	bool openmetrics = strstr(page_header(r, "Accept"), "application/openmetrics-text") != NULL;

	r->type = openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			      : "text/plain; version=0.0.4; charset=utf-8";
	if (stats_write(r->f, openmetrics) != 0)
		r->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
}

static void get_healthz(struct page_request *r)
{
	for (int h = 0; h < HEART_COUNT; h++) {
		double age = heart_age((enum heart)h);
		bool late = age > HEART_LIMIT;

		if (late)
			r->status = MHD_HTTP_SERVICE_UNAVAILABLE;
		if (heart_watched((enum heart)h))
			(void)fprintf(r->f, "[%c] thread %s: last heartbeat %.1f s ago%s\n",
				      late ? '-' : '+', heart_names[h], age,
				      late ? ", it hangs" : "");
		else
			(void)fprintf(r->f, "[+] thread %s: does not run\n", heart_names[h]);
	}
}

static void get_readyz(struct page_request *r)
{
	const struct admin *a = r->arg;
	struct admin_check checks[CHECKS_MAX];
	size_t n = a->source->ready(a->source->arg, checks, CHECKS_MAX);

	for (size_t i = 0; i < n; i++) {
		if (!checks[i].ok)
			r->status = MHD_HTTP_SERVICE_UNAVAILABLE;
		(void)fprintf(r->f, "[%c] %s%s%s\n", checks[i].ok ? '+' : '-', checks[i].name,
			      *checks[i].reason ? ": " : "", checks[i].reason);
	}
}

static void get_status(struct page_request *r)
{
	const struct admin *a = r->arg;
	json_t *root;
	int err;

	if (!page_is_local(r)) {
		r->status = MHD_HTTP_FORBIDDEN;
		(void)fprintf(r->f,
			      "/status names pods and processes and is for this machine's loopback "
			      "address only.\n"
			      "In Kubernetes:  kubectl port-forward POD %u  and then  curl "
			      "localhost:%u/status\n",
			      r->port, r->port);
		return;
	}
	root = json_object();
	err = root ? a->source->status(a->source->arg, root) : -ENOMEM;
	r->type = "application/json";
	if (err || json_dumpf(root, r->f, JSON_INDENT(2)) != 0)
		r->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
	(void)fputc('\n', r->f);
	json_decref(root);
}

static const struct page list[] = {
	{ "/", NULL, "this list" },
	{ "/metrics", get_metrics, "the agent's own metrics, for Prometheus" },
	{ "/healthz", get_healthz, "whether all threads live, for the liveness probe" },
	{ "/readyz", get_readyz,
	  "whether pods are known and events are read, for the readiness probe" },
	{ "/status", get_status,
	  "pods, processes and libraries, each with its state and the reason, as JSON; loopback "
	  "only" },
};

static const struct pages_of pages = { .name = "admin", .v = list, .n = ARRAY_SIZE(list) };

int admin_start(struct admin **out, const struct config *cfg, const struct admin_source *source)
{
	auto_free struct admin *a = calloc(1, sizeof(*a));
	int err;

	if (!*cfg->admin_listen)
		return 0;
	if (!a)
		return fail(-ENOMEM, "admin: out of memory");
	a->source = source;
	err = pages_start(&a->pages, &pages, cfg->admin_listen, cfg->admin_port, a);
	if (err)
		return err;
	log_info("admin: listening on %s port %u: /metrics /healthz /readyz, /status for loopback "
		 "peers",
		 cfg->admin_listen, pages_port(a->pages));
	*out = take(a);
	return 0;
}

uint16_t admin_port(const struct admin *a)
{
	return pages_port(a->pages);
}

void admin_stop(struct admin **a)
{
	if (!*a)
		return;
	pages_stop(&(*a)->pages);
	free(*a);
	*a = NULL;
}
