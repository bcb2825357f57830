/* otlp_signal.h - what the options of OTLP say for one signal: its own where they are set, else
 * those of both ("OpenTelemetry Protocol Exporter", Configuration Options). Pure; any thread. */
#pragma once
#include "base/base.h"
#include "export/post.h"

struct config;
struct list;

struct otlp_options {
	bool gzip;
	uint64_t timeout_ms;
	const struct list *headers; /* key=value; config's */
	const char *headers_option; /* which option gave them */
	const char *ca_file;        /* config's; "": the system's */
};

struct otlp_options otlp_options(const struct config *cfg, enum otlp_signal signal);
