#include "config_rig.h"

TestSuite(config_env, .init = no_environment);

Test(config_env, an_empty_variable_counts_as_not_set)
{
	auto_config struct config *cfg = NULL;

	(void)setenv("SPOOR_OTLP_ENDPOINT", "", 1);
	(void)setenv("SPOOR_BATCH_SPANS", "", 1);
	(void)setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://other:1", 1);
	cfg = load(NULL);
	cr_assert(cfg);
	cr_assert_str_eq(cfg->otlp_endpoint, "http://other:1");
	cr_assert_eq(cfg->batch_spans, 512);
}

Test(config_env, our_own_variables_win_over_opentelemetrys)
{
	auto_config struct config *cfg = NULL;

	(void)setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2000", 1);
	(void)setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none", 1);
	(void)setenv("SPOOR_OTLP_COMPRESSION", "gzip", 1);
	cfg = load(NULL);
	cr_assert(cfg);
	cr_assert_eq(cfg->otlp_timeout, 2000);
	cr_assert_str_eq(cfg->otlp_compression, "gzip");
}

Test(config_env, a_bad_value_of_opentelemetrys_is_a_warning_and_the_default_stays)
{
	auto_config struct config *cfg = NULL;

	(void)setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", 1);
	(void)setenv("OTEL_TRACES_SAMPLER", "jaeger_remote", 1);
	(void)setenv("OTEL_TRACES_SAMPLER_ARG", "2", 1);
	(void)setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", 1);
	cfg = SAID(load(NULL));
	cr_assert(cfg, "%s", said);
	cr_assert_eq(cfg->otlp_timeout, 10000);
	cr_assert_str_eq(cfg->sampler, "parentbased_always_on");
	cr_assert_str_empty(cfg->sampler_arg);
	cr_assert_str_eq(cfg->otlp_protocol, "http/protobuf");
	cr_assert(strstr(said, "OTEL_EXPORTER_OTLP_TIMEOUT: otlp.timeout: '10s' is not a whole "
			       "number of milliseconds"),
		  "%s", said);
	cr_assert(strstr(said, "level=warn") && !strstr(said, "level=error"));
	cr_assert(strstr(said, "jaeger_remote") && strstr(said, "'grpc'"));
}

Test(config_env, an_endpoint_that_is_nonsense_is_refused_also_from_opentelemetrys_variable)
{
	(void)setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://nonsense", 1);
	cr_assert_null(SAID(load(NULL)));
	cr_assert(strstr(said, "OTEL_EXPORTER_OTLP_ENDPOINT: otlp.endpoint: 'ftp://nonsense'"),
		  "%s", said);
}

Test(config_env, pairs_in_opentelemetrys_variables_are_percent_decoded)
{
	auto_config struct config *cfg = NULL;

	(void)setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20dTpw, x = y%2Cz", 1);
	(void)setenv("OTEL_RESOURCE_ATTRIBUTES", "team=a%zz,service.name=x", 1);
	cfg = SAID(load(NULL));
	cr_assert(cfg);
	cr_assert_eq(cfg->otlp_headers.n, 2);
	cr_assert_str_eq(cfg->otlp_headers.v[0], "authorization=Basic dTpw");
	cr_assert_eq(cfg->resource_attributes.n, 0, "one broken escape discards them all");
	cr_assert(strstr(said, "OTEL_RESOURCE_ATTRIBUTES: resource.attributes: a percent escape in "
			       "it is broken"),
		  "%s", said);
}

Test(config_env, opentelemetrys_exporters_and_kill_switch_are_understood)
{
	auto_config struct config *console = NULL, *none = NULL, *disabled = NULL;

	(void)setenv("OTEL_TRACES_EXPORTER", "console", 1);
	console = load(NULL);
	cr_assert(console && console->exporters.n == 1);
	cr_assert_str_eq(console->exporters.v[0], "stdout");
	(void)setenv("OTEL_TRACES_EXPORTER", "None", 1);
	none = load(NULL);
	cr_assert(none && none->exporters.n == 0);
	(void)unsetenv("OTEL_TRACES_EXPORTER");
	(void)setenv("OTEL_SDK_DISABLED", "TRUE", 1);
	disabled = load(NULL);
	cr_assert(disabled && disabled->exporters.n == 0);
}

Test(config_env, a_slip_in_one_of_our_variables_is_refused_and_foreign_ones_are_not)
{
	auto_config struct config *cfg = NULL;

	(void)setenv("SPOOR_OTLP_ENDPIONT", "x", 1);
	cr_assert_null(SAID(load(NULL)));
	cr_assert(
		strstr(said,
		       "SPOOR_OTLP_ENDPIONT: no such variable, did you mean SPOOR_OTLP_ENDPOINT?"),
		"%s", said);
	(void)unsetenv("SPOOR_OTLP_ENDPIONT");
	(void)setenv("SPOOR_SERVICE_HOST", "10.0.0.1", 1); /* of a Service named spoor */
	(void)setenv("SPOOR_PORT_9464_TCP_ADDR", "10.0.0.1", 1);
	(void)setenv("SPOOR_TEST_DIRECTORY", "x", 1);
	cfg = SAID(load(NULL));
	cr_assert(cfg);
	cr_assert_not(strstr(said, "SPOOR_SERVICE_HOST"));
	cr_assert(strstr(said, "SPOOR_TEST_DIRECTORY: spoor has no such variable; it is ignored"));
}

Test(config_env, variables_of_opentelemetrys_that_change_nothing_here_are_named)
{
	auto_config struct config *cfg = NULL;

	(void)setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key", 1);
	(void)setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1000", 1);
	(void)setenv("OTEL_BLRP_SCHEDULE_DELAY", "", 1);
	cfg = SAID(load(NULL));
	cr_assert(cfg);
	cr_assert(strstr(said, "spoor does not use OTEL_EXPORTER_OTLP_CLIENT_KEY\""), "%s", said);
}

Test(config_env, propagators_that_we_cannot_read_are_told_and_the_others_taken)
{
	auto_config struct config *some = NULL, *others = NULL;

	(void)setenv("OTEL_PROPAGATORS", "xray, tracecontext,baggage,b3multi ,b3", 1);
	some = SAID(load(NULL));
	cr_assert(some && some->propagators.n == 3);
	cr_assert_str_eq(some->propagators.v[1], "b3multi");
	cr_assert(strstr(said, "OTEL_PROPAGATORS: 'xray' is not read"), "%s", said);
	cr_assert_not(strstr(said, "baggage"));
	(void)setenv("OTEL_PROPAGATORS", "none", 1);
	others = SAID(load(NULL));
	cr_assert(others && others->propagators.n == 1);
	cr_assert_str_eq(others->propagators.v[0], "tracecontext");
	cr_assert(strstr(said, "'none' is not read, traceparent always is"), "%s", said);
}
