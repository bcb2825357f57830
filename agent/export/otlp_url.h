/* otlp_url.h - the URL that OTLP over HTTP posts a signal to. Pure; any thread. */
#pragma once
#include "base/base.h"
#include "export/post.h"

struct config;

/* Writes the URL that the options otlp.<signal>_endpoint, otlp.endpoint or node.ip give
 * ("OpenTelemetry Protocol Exporter", Endpoint URLs for OTLP/HTTP). Without a scheme it is http,
 * and then without a port 4318. 0; -EINVAL: *bad is the value that is no endpoint. */
int otlp_url(char *out, size_t n, const struct config *cfg, enum otlp_signal signal,
	     const char **bad) must_check;
