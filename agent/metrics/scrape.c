/* The endpoint of prometheus.h: the page is written by prometheus.c. */
#include "base/config.h"
#include "base/log.h"
#include "base/pages.h"
#include "metrics/prometheus.h"

struct prometheus {
	const struct config *cfg;
	struct metrics *metrics;
	struct pages *pages;
};

static void get_metrics(struct page_request *r)
{
	const struct prometheus *p = r->arg;
	bool openmetrics = strstr(page_header(r, "Accept"), "application/openmetrics-text") != NULL;

	r->type = openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			      : "text/plain; version=0.0.4; charset=utf-8";
	if (prometheus_write(r->f, p->metrics, p->cfg, openmetrics) != 0)
		r->status = 500;
}

static const struct page list[] = {
	{ "/", NULL, "this list" },
	{ "/metrics", get_metrics, "metrics of the traced programs, for Prometheus" },
};
static const struct pages_of pages = { .name = "prometheus", .v = list, .n = ARRAY_SIZE(list) };

int prometheus_start(struct prometheus **out, const struct config *cfg, struct metrics *m)
{
	auto_free struct prometheus *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return fail(-ENOMEM, "prometheus: out of memory");
	p->cfg = cfg;
	p->metrics = m;
	err = pages_start(&p->pages, &pages, cfg->prometheus_listen, cfg->prometheus_port, p);
	if (err)
		return err;
	log_info("prometheus: listening on %s port %u: /metrics of the traced programs",
		 cfg->prometheus_listen, pages_port(p->pages));
	*out = take(p);
	return 0;
}

void prometheus_stop(struct prometheus **p)
{
	if (!*p)
		return;
	pages_stop(&(*p)->pages);
	free(take(*p));
}
