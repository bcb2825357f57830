/* prometheus.h - the applications' metrics for Prometheus to scrape, on a port of their own: the
 * text format 0.0.4, and OpenMetrics 1.0.0 for those that ask for it. Names and labels are those of
 * "OTLP Metric points to Prometheus" (OpenTelemetry, "Prometheus and OpenMetrics Compatibility").
 */
#pragma once
#include "base/base.h"

#include <stdio.h>

struct config;
struct metrics;
struct prometheus;

/* Listens and answers. 0 or -errno; has logged why. */
int prometheus_start(struct prometheus **out, const struct config *cfg,
		     struct metrics *m) must_check;
void prometheus_stop(struct prometheus **p);
/* Writes the page. 0 or -ENOMEM. */
int prometheus_write(FILE *f, struct metrics *m, const struct config *cfg,
		     bool openmetrics) must_check;
