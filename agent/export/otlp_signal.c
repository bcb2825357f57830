#include "export/otlp_signal.h"

#include "base/config.h"

struct otlp_options otlp_options(const struct config *cfg, enum otlp_signal signal)
{
	bool metrics = signal == OTLP_METRICS;
	const char *compression =
		metrics ? cfg->otlp_metrics_compression : cfg->otlp_traces_compression;
	const struct list *headers =
		metrics ? &cfg->otlp_metrics_headers : &cfg->otlp_traces_headers;
	const char *ca_file = metrics ? cfg->otlp_metrics_ca_file : cfg->otlp_traces_ca_file;
	uint64_t timeout = metrics ? cfg->otlp_metrics_timeout : cfg->otlp_traces_timeout;
	struct otlp_options o = { .headers = headers,
				  .headers_option = metrics ? "otlp.metrics_headers"
							    : "otlp.traces_headers" };

	if (strcmp(compression, "same") == 0)
		compression = cfg->otlp_compression;
	if (!headers->n) {
		o.headers = &cfg->otlp_headers;
		o.headers_option = "otlp.headers";
	}
	o.gzip = strcmp(compression, "gzip") == 0;
	o.timeout_ms = timeout ? timeout : cfg->otlp_timeout;
	o.ca_file = *ca_file ? ca_file : cfg->otlp_ca_file;
	return o;
}
