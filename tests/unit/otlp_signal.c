#include "export/otlp_signal.h"

#include "config_rig.h"

/* As `spoor agent` reads it from its environment. */
static struct config *of_environment(const char *const *pairs)
{
	struct config *cfg;

	for (; *pairs; pairs += 2)
		cr_assert_eq(setenv(pairs[0], pairs[1], 1), 0);
	cfg = load(NULL);
	cr_assert(cfg);
	return cfg;
}

Test(otlp_signal, what_is_set_for_both_is_for_both)
{
	auto_config struct config *cfg = of_environment((const char *const[]){
		"OTEL_EXPORTER_OTLP_TIMEOUT", "1000", "OTEL_EXPORTER_OTLP_COMPRESSION", "none",
		"OTEL_EXPORTER_OTLP_HEADERS", "a=1", "OTEL_EXPORTER_OTLP_CERTIFICATE", "/both.pem",
		NULL });

	for (int signal = OTLP_TRACES; signal <= OTLP_METRICS; signal++) {
		struct otlp_options o = otlp_options(cfg, (enum otlp_signal)signal);

		cr_assert_eq(o.timeout_ms, 1000);
		cr_assert(!o.gzip);
		cr_assert_eq(o.headers->n, 1);
		cr_assert_str_eq(o.headers->v[0], "a=1");
		cr_assert_str_eq(o.headers_option, "otlp.headers");
		cr_assert_str_eq(o.ca_file, "/both.pem");
	}
}

Test(otlp_signal, what_is_set_for_one_is_for_that_one_alone)
{
	auto_config struct config *cfg = of_environment((const char *const[]){
		"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2000", "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
		"3000", "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "none",
		"OTEL_EXPORTER_OTLP_HEADERS", "both=1", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
		"secret=of-traces,other=2", "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE",
		"/metrics.pem", NULL });
	struct otlp_options traces = otlp_options(cfg, OTLP_TRACES),
			    metrics = otlp_options(cfg, OTLP_METRICS);

	cr_assert_eq(traces.timeout_ms, 2000);
	cr_assert_eq(metrics.timeout_ms, 3000);
	cr_assert(!traces.gzip && metrics.gzip);
	cr_assert_eq(traces.headers->n, 2);
	cr_assert_str_eq(traces.headers->v[0], "secret=of-traces");
	cr_assert_str_eq(traces.headers_option, "otlp.traces_headers");
	cr_assert_eq(metrics.headers->n, 1);
	cr_assert_str_eq(metrics.headers->v[0], "both=1");
	cr_assert_str_eq(traces.ca_file, "");
	cr_assert_str_eq(metrics.ca_file, "/metrics.pem");
}
