#include "base/config.h"

#include "base/settings.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <jansson.h>
#include <stdio.h>

#define ARGS_MAX 16

/* Loads with these flags; NULL when refused. */
static struct config *load(const char *first, ...)
{
	char *argv[ARGS_MAX] = { (char *)"agent" };
	struct config *cfg = NULL;
	int argc = 1;
	va_list ap;

	va_start(ap, first);
	for (const char *arg = first; arg && argc < ARGS_MAX; arg = va_arg(ap, const char *))
		argv[argc++] = (char *)arg;
	va_end(ap);
	return config_load(&cfg, argc, argv, NULL) == 0 ? cfg : NULL;
}

/* What is said on stderr while the call runs, and its result. */
static char said[16384];
#define SAID(call)                                                                                 \
	({                                                                                         \
		int fds_[2], saved_ = dup(STDERR_FILENO);                                          \
		cr_assert_eq(pipe(fds_), 0);                                                       \
		(void)dup2(fds_[1], STDERR_FILENO);                                                \
		__auto_type result_ = (call);                                                      \
		(void)dup2(saved_, STDERR_FILENO);                                                 \
		(void)close(saved_);                                                               \
		(void)close(fds_[1]);                                                              \
		ssize_t n_ = read(fds_[0], said, sizeof(said) - 1);                                \
		said[n_ > 0 ? n_ : 0] = '\0';                                                      \
		(void)close(fds_[0]);                                                              \
		result_;                                                                           \
	})

static char *file_of(const char *text)
{
	static char path[64];
	int fd;

	(void)snprintf(path, sizeof(path), "/tmp/spoor-config-XXXXXX");
	fd = mkstemp(path);
	cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	(void)close(fd);
	return path;
}

static struct config *load_yaml(const char *text)
{
	char *path = file_of(text);
	struct config *cfg = SAID(load("--config", path, NULL));

	(void)unlink(path);
	return cfg;
}

static void no_environment(void)
{
	(void)clearenv();
}

TestSuite(config, .init = no_environment);

Test(config, without_anything_every_option_has_its_default)
{
	auto_config struct config *cfg = load(NULL);

	cr_assert(cfg);
	cr_assert_str_eq(cfg->log_level, "info");
	cr_assert_eq(cfg->admin_port, 9464);
	cr_assert_eq(cfg->kubelet_refresh, 30000);
	cr_assert_eq(cfg->kubelet_max_response, 32u << 20);
	cr_assert_eq(cfg->url_query, true);
	cr_assert_eq(cfg->exporters.n, 1);
	cr_assert_str_eq(cfg->exporters.v[0], "otlp");
	cr_assert_null(cfg->exporters.v[1], "a list ends with NULL");
	cr_assert_eq(cfg->resource_attributes.n, 0);
	cr_assert_eq(cfg->exclude_executables.n, 6);
}

Test(config, a_flag_wins_over_the_environment_which_wins_over_the_file)
{
	char *path = file_of("batch:\n  spans: 10\n  delay: 2s\n  count: 9\n");
	auto_config struct config *cfg = NULL;

	(void)setenv("SPOOR_BATCH_SPANS", "20", 1);
	(void)setenv("SPOOR_BATCH_DELAY", "3s", 1);
	cfg = load("--config", path, "--batch-spans", "30", NULL);
	cr_assert(cfg);
	cr_assert_eq(cfg->batch_spans, 30);
	cr_assert_eq(cfg->batch_delay, 3000);
	cr_assert_eq(cfg->batch_count, 9);
	(void)unlink(path);
}

Test(config, the_file_may_be_named_by_a_variable)
{
	char *path = file_of("log: {level: debug}\n");
	auto_config struct config *cfg = NULL;

	(void)setenv("SPOOR_CONFIG", path, 1);
	cfg = load(NULL);
	(void)unlink(path);
	cr_assert(cfg);
	cr_assert_str_eq(cfg->log_level, "debug");
}

Test(config, a_missing_file_is_refused_with_its_name)
{
	cr_assert_null(SAID(load("--config", "/nonexistent/spoor.yaml", NULL)));
	cr_assert(strstr(said, "/nonexistent/spoor.yaml: cannot be read: No such file"), "%s",
		  said);
}

Test(config, flags_take_both_spellings_and_booleans_no_value)
{
	auto_config struct config *cfg =
		load("--admin-port=0", "--kubelet-tls-mode", "ca", "--traces-health-probes",
		     "--privacy-url-query=false", NULL);

	cr_assert(cfg);
	cr_assert_eq(cfg->admin_port, 0);
	cr_assert_str_eq(cfg->kubelet_tls_mode, "ca");
	cr_assert(cfg->health_probes);
	cr_assert_not(cfg->url_query);
}

Test(config, what_follows_the_flags_is_left_to_the_caller)
{
	char *argv[] = { (char *)"inspect", (char *)"--log-level=debug", (char *)"FILE",
			 (char *)"--json", NULL };
	auto_config struct config *cfg = NULL;
	int rest = 0;

	cr_assert_eq(config_load(&cfg, 4, argv, &rest), 0);
	cr_assert_eq(rest, 2);
}

Test(config, a_sub_command_may_have_switches_of_its_own)
{
	char *argv[] = { (char *)"config", (char *)"--json", (char *)"--log-level=debug", NULL };
	bool json = false;
	const struct config_switch switches[] = { { "--json", &json, "" }, { NULL, NULL, NULL } };
	auto_config struct config *cfg = NULL;

	cr_assert_eq(config_load_with(&cfg, 3, argv, NULL, switches), 0);
	cr_assert(json);
	cr_assert_str_eq(cfg->log_level, "debug");
}

Test(config, an_unknown_flag_is_refused_with_the_nearest_one_and_the_rest_is_still_read)
{
	cr_assert_null(SAID(load("--oltp-endpoint", "x", "--admin-port", "70000", NULL)));
	cr_assert(strstr(said, "--oltp-endpoint: unknown flag, did you mean --otlp-endpoint?"),
		  "%s", said);
	cr_assert(strstr(said, "--admin-port: admin.port: '70000' is not allowed, must be a whole "
			       "number, from 0 to 65535"));
}

Test(config, a_flag_without_its_value_is_refused)
{
	cr_assert_null(SAID(load("--otlp-endpoint", NULL)));
	cr_assert(strstr(said, "--otlp-endpoint: the value is missing"));
}

Test(config, yaml_nests_mappings_and_takes_lists_in_both_forms)
{
	auto_config struct config *cfg = load_yaml(
		"kubelet:\n  tls:\n    mode: node-cert\n  timeout: 1m\n"
		"discovery:\n  namespaces: [shop-*, \"pay\"]\n  exclude_namespaces: a, b ,,c\n"
		"resource:\n  attributes:\n    deployment.environment.name: prod\n    n: 3\n"
		"\"otlp.compression\": none\n");

	cr_assert(cfg, "%s", said);
	cr_assert_str_eq(cfg->kubelet_tls_mode, "node-cert");
	cr_assert_eq(cfg->kubelet_timeout, 60000);
	cr_assert_eq(cfg->select_namespaces.n, 2);
	cr_assert_str_eq(cfg->select_namespaces.v[0], "shop-*");
	cr_assert_eq(cfg->exclude_namespaces.n, 3);
	cr_assert_str_eq(cfg->exclude_namespaces.v[2], "c");
	cr_assert_eq(cfg->resource_attributes.n, 2);
	cr_assert_str_eq(cfg->resource_attributes.v[0], "deployment.environment.name=prod");
	cr_assert_str_eq(cfg->resource_attributes.v[1], "n=3");
	cr_assert_str_eq(cfg->otlp_compression, "none");
}

Test(config, a_key_without_a_value_keeps_its_default_and_quotes_empty_it)
{
	auto_config struct config *cfg = load_yaml(
		"otlp:\n  headers:\n  timeout: ~\nadmin: {listen: \"\"}\nkubelet:\ndiscovery:\n"
		"  exclude_namespaces: []\n");

	cr_assert(cfg, "%s", said);
	cr_assert_eq(cfg->otlp_timeout, 10000);
	cr_assert_str_empty(cfg->admin_listen);
	cr_assert_eq(cfg->exclude_namespaces.n, 0);
}

Test(config, an_empty_file_is_no_error)
{
	auto_config struct config *cfg = load_yaml("# nothing yet\n");

	cr_assert(cfg, "%s", said);
}

/* Each refusal: the file, and what must be said, with its line. */
static const struct {
	const char *yaml, *say;
} refused[] = {
	{ "otlp:\n  endpiont: x\n",
	  ":2: unknown key 'otlp.endpiont', did you mean 'otlp.endpoint'?" },
	{ "otpl:\n  endpoint: x\n", ":1: unknown key 'otpl', did you mean 'otlp'?" },
	{ "endpoint: x\n", ":1: unknown key 'endpoint', did you mean '" },
	{ "zzzzzzzz: {a: [1, {b: c}]}\n", ":1: unknown key 'zzzzzzzz'; `spoor config --defaults`" },
	{ "otlp: {endpoint: a:b:c}\n",
	  ":1: otlp.endpoint: 'a:b:c' is not allowed, must be an http or https URL" },
	{ "\n\nbatch: {spans: 0}\n",
	  ":3: batch.spans: '0' is not allowed, must be a whole number, from 1 to 16384" },
	{ "batch: {spans: 99999999999999999999}\n", "'99999999999999999999' is not allowed" },
	{ "batch: {delay: 5}\n", "batch.delay: '5' is not allowed, must be a duration such as" },
	{ "ring: {size: 1TiB}\n", "ring.size: '1TiB' is not allowed, must be a size such as" },
	{ "kubelet: {tls: {mode: strict}}\n",
	  "'strict' is not allowed, must be one of: auto, ca, node-cert, insecure" },
	{ "traces: {health_probes: yes}\n", "'yes' is not allowed, must be true or false" },
	{ "exporters: [otlp, zipkin]\n",
	  "'zipkin' is not allowed, must be any of: otlp, stdout, none" },
	{ "traces: {sampler_arg: 1.5}\n", "'1.5' is not allowed, must be a number from 0 to 1" },
	{ "admin: {listen: localhost}\n",
	  "'localhost' is not allowed, must be an IPv4 or IPv6 address" },
	{ "discovery: {pids: [1, x]}\n", "'x' is not allowed, must be process numbers" },
	{ "log: {level: [info]}\n", "log.level: a sequence is not allowed here, must be one of" },
	{ "log: {level: {a: b}}\n", "log.level: a mapping is not allowed here" },
	{ "log: info\n", ":1: log: is a group of options, must be a mapping" },
	{ "otlp: {headers: [a, b]}\n",
	  "otlp.headers: a sequence is not allowed here, must be key=value pairs" },
	{ "exporters: {otlp: true}\n",
	  "exporters: a mapping is not allowed here, must be a sequence" },
	{ "discovery: {namespaces: [[a]]}\n",
	  "discovery.namespaces: a sequence is not allowed here" },
	{ "otlp: {headers: {a: 1, b: {c: d}}}\n", "otlp.headers: a mapping is not allowed here" },
	{ "otlp: {headers: {a: 1, a: 2}}\n", "otlp.headers: 'a' is given twice" },
	{ "log:\n  level: info\n  level: warn\n", ":3: log.level: given twice, first in line 2" },
	{ "log:\n  level: info\nbatch:\nlog:\n  format: json\n",
	  ":4: log: given twice, first in line 1" },
	{ "log: {level: info}\nlog.level: warn\n", ":2: log.level: given twice, first in line 1" },
	{ "log: &a {level: info}\n", "log: anchors (&name) are not allowed" },
	{ "log: *a\n", "log: aliases (*name) are not allowed" },
	{ "log: {level: !!str info}\n", "log.level: tags (!name) are not allowed" },
	{ "? [a]\n: b\n", "a sequence is not allowed here, must be a plain key" },
	{ "- a\n", ":1: the file must be a mapping" },
	{ "just text\n", ":1: the file must be a mapping" },
	{ "log: {level: info\n", "not YAML: " },
	{ "log:\n\tlevel: info\n", ":2: not YAML: " },
	{ "log: {level: info}\n---\nlog: {level: warn}\n", ":2: a second document is not allowed" },
	{ "node: {name: \"a\\0b\"}\n", "node.name: a NUL byte is not allowed" },
	{ "node: {name: \"a\\nb\"}\n", "node.name: control characters are not allowed" },
	{ "otlp: {headers: {a: \"b\\r\\nX-Evil: 1\"}}\n",
	  "otlp.headers: control characters are not allowed" },
	{ "kubelet: {refresh: 1s, min_refresh: 10s}\n",
	  "kubelet.min_refresh must not be longer than kubelet.refresh" },
	{ "ring: {size: 64KiB, wakeup: 60KiB}\n",
	  "ring.wakeup must not be more than half of ring.size" },
	{ "discovery: {mode: selector}\n", "discovery.mode is selector, but none of" },
	{ "kubelet: {source: kubelet}\n", "neither kubelet.endpoint nor node.ip" },
};

Test(config, each_bad_file_is_refused_with_line_key_value_and_what_is_allowed)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		cr_expect_null(load_yaml(refused[i].yaml), "accepted: %s", refused[i].yaml);
		cr_expect(strstr(said, refused[i].say), "%sexpected: %s\nsaid: %s", refused[i].yaml,
			  refused[i].say, said);
	}
}

Test(config, all_errors_are_told_at_once)
{
	cr_assert_null(load_yaml(
		"log: {level: loud}\nbatch: {spans: many}\nnonsense: 1\nexporters: [x]\n"));
	cr_assert(strstr(said, "'loud'") && strstr(said, "'many'") && strstr(said, "'nonsense'") &&
			  strstr(said, "'x'"),
		  "%s", said);
}

Test(config, a_value_of_a_secret_map_is_not_repeated_in_an_error)
{
	cr_assert_null(load_yaml("otlp: {headers: \"hunter2\"}\n"));
	cr_assert_not(strstr(said, "hunter2"), "%s", said);
	cr_assert(strstr(said, "otlp.headers: the value (hidden) is not allowed"), "%s", said);
}

Test(config, durations_and_sizes_take_units_fractions_and_sums)
{
	auto_config struct config *cfg =
		load("--kubelet-refresh", "1m30s", "--batch-delay", "1.5s", "--shutdown-timeout",
		     "0", "--ring-size", "1.5MiB", "--batch-bytes", "100000", "--otlp-max-request",
		     "1MB", NULL);

	cr_assert(cfg);
	cr_assert_eq(cfg->kubelet_refresh, 90000);
	cr_assert_eq(cfg->batch_delay, 1500);
	cr_assert_eq(cfg->shutdown_timeout, 0);
	cr_assert_eq(cfg->ring_size, 2u << 20, "the next power of two");
	cr_assert_eq(cfg->batch_bytes, 100000);
	cr_assert_eq(cfg->otlp_max_request, 1000000);
}

Test(config, a_small_ring_takes_a_small_wakeup_with_it)
{
	auto_config struct config *cfg = load("--ring-size", "16KiB", NULL);

	cr_assert(cfg);
	cr_assert_eq(cfg->ring_wakeup, 4096);
}

Test(config, quantities_beyond_64_bits_are_refused_not_wrapped)
{
	cr_assert_null(SAID(load("--batch-delay", "18446744073709551616ms", NULL)));
	cr_assert_null(SAID(load("--batch-delay", "213503982335d", NULL)));
	cr_assert_null(SAID(load("--ring-size", "17179869185GiB", NULL)));
	cr_assert_null(SAID(load("--batch-spans", "4294967808", NULL)));
	cr_assert_null(SAID(load("--batch-spans", "-1", NULL)));
	cr_assert_null(SAID(load("--batch-spans", "0x10", NULL)));
}

Test(config, endpoints_are_taken_in_every_sane_spelling)
{
	static const char *const sane[] = { "http://collector:4318",
					    "https://c.example/otlp/",
					    "collector:4318",
					    "collector",
					    "[::1]:4318",
					    "http://[2001:db8::1]",
					    "HTTPS://Collector",
					    "10.0.0.1:4318",
					    "http://10.0.0.1/",
					    "http://c:4318/v1/traces",
					    "http://_x.svc:80/a" };
	static const char *const nonsense[] = { "ftp://c",       "http://",     "://c",
						":4318",         "4318",        "http://c:99999",
						"http://c:port", "http:/c",     "http://a b",
						"http://u:p@c",  "http://[::1", "/v1/traces",
						"http://c:",     "grpc://c",    "unix:///run/x" };

	for (size_t i = 0; i < ARRAY_SIZE(sane); i++) {
		auto_config struct config *cfg = SAID(load("--otlp-endpoint", sane[i], NULL));

		cr_expect(cfg, "refused: %s", sane[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(nonsense); i++) {
		cr_expect_null(SAID(load("--otlp-endpoint", nonsense[i], NULL)), "accepted: %s",
			       nonsense[i]);
		cr_expect(strstr(said, nonsense[i]), "the value is not in the message: %s", said);
	}
}

Test(config, an_empty_variable_counts_as_not_set)
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

Test(config, our_own_variables_win_over_opentelemetrys_and_those_of_traces_over_general_ones)
{
	auto_config struct config *cfg = NULL;

	(void)setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1000", 1);
	(void)setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2000", 1);
	(void)setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none", 1);
	(void)setenv("SPOOR_OTLP_COMPRESSION", "gzip", 1);
	cfg = load(NULL);
	cr_assert(cfg);
	cr_assert_eq(cfg->otlp_timeout, 2000);
	cr_assert_str_eq(cfg->otlp_compression, "gzip");
}

Test(config, a_bad_value_of_opentelemetrys_is_a_warning_and_the_default_stays)
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

Test(config, an_endpoint_that_is_nonsense_is_refused_also_from_opentelemetrys_variable)
{
	(void)setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://nonsense", 1);
	cr_assert_null(SAID(load(NULL)));
	cr_assert(strstr(said, "OTEL_EXPORTER_OTLP_ENDPOINT: otlp.endpoint: 'ftp://nonsense'"),
		  "%s", said);
}

Test(config, pairs_in_opentelemetrys_variables_are_percent_decoded)
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

Test(config, opentelemetrys_exporters_and_kill_switch_are_understood)
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

Test(config, a_slip_in_one_of_our_variables_is_refused_and_foreign_ones_are_not)
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

Test(config, variables_of_opentelemetrys_that_change_nothing_here_are_named)
{
	auto_config struct config *cfg = NULL;

	(void)setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key", 1);
	(void)setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1000", 1);
	(void)setenv("OTEL_BLRP_SCHEDULE_DELAY", "", 1);
	cfg = SAID(load(NULL));
	cr_assert(cfg);
	cr_assert(strstr(said, "spoor does not use OTEL_EXPORTER_OTLP_CLIENT_KEY\""), "%s", said);
}

Test(config, propagators_that_we_cannot_read_are_told_and_the_others_taken)
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

Test(config, every_key_flag_and_variable_is_unique_and_documented)
{
	char a[OPTION_NAME], b[OPTION_NAME];

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		cr_expect(*options[i].help, "%s", options[i].key);
		cr_expect_lt(strlen(options[i].key) + strlen("SPOOR_"), (size_t)OPTION_NAME);
		for (size_t j = i + 1; j < OPTION_COUNT; j++) {
			option_flag(&options[i], a);
			option_flag(&options[j], b);
			cr_expect_str_neq(a, b);
			option_env(&options[i], a);
			option_env(&options[j], b);
			cr_expect_str_neq(a, b);
		}
	}
}

Test(config, the_file_of_defaults_parses_back_to_the_defaults)
{
	auto_free char *yaml = NULL;
	size_t n;
	FILE *f = open_memstream(&yaml, &n);
	auto_config struct config *plain = load(NULL), *read_back = NULL;

	config_defaults(f);
	(void)fclose(f);
	read_back = load_yaml(yaml);
	cr_assert(plain && read_back, "%s", said);
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		auto_free char *one = NULL, *two = NULL;
		FILE *f1 = open_memstream(&one, &n), *f2 = open_memstream(&two, &n);

		const union option_value v1 = option_value(&options[i], plain);
		const union option_value v2 = option_value(&options[i], read_back);

		option_print(f1, &options[i], &v1);
		option_print(f2, &options[i], &v2);
		(void)fclose(f1);
		(void)fclose(f2);
		cr_expect_str_eq(one, two, "%s", options[i].key);
		cr_expect_neq(((struct settings *)read_back)->origin[i].from, FROM_DEFAULT,
			      "%s is not in the file", options[i].key);
	}
}

Test(config, a_printed_value_parses_back_to_itself)
{
	static const uint64_t numbers[] = { 0,     1,       999,      1000,    1500,
					    61000, 3600000, 90061001, 86400000 };
	char text[64], why[OPTION_WHY];

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		const struct option any_duration = { .type = OPTION_DURATION,
						     .key = "d",
						     .allowed = "" };
		const struct option any_size = { .type = OPTION_SIZE, .key = "s", .allowed = "" };
		union option_value v;

		option_print_duration(text, sizeof(text), numbers[i]);
		cr_assert_eq(option_parse(&any_duration, text, &v, why), 0, "%s", text);
		cr_assert_eq(v.number, numbers[i], "%s", text);
		option_print_size(text, sizeof(text), numbers[i] * 1024);
		cr_assert_eq(option_parse(&any_size, text, &v, why), 0, "%s", text);
		cr_assert_eq(v.number, numbers[i] * 1024, "%s", text);
	}
}

Test(config, printing_names_the_source_of_each_value_and_hides_secrets, .init = cr_redirect_stdout)
{
	char *path = file_of("log:\n  level: warn\notlp:\n  headers: {authorization: hunter2}\n");
	auto_config struct config *cfg = NULL;
	auto_free char *out = calloc(1, 65536);
	FILE *f;

	(void)clearenv();
	(void)setenv("OTEL_BSP_SCHEDULE_DELAY", "250", 1);
	cfg = load("--config", path, "--admin-port", "0", NULL);
	(void)unlink(path);
	cr_assert(cfg);
	config_print(cfg, false);
	config_print(cfg, true);
	(void)fflush(stdout);
	f = cr_get_redirected_stdout();
	cr_assert(fread(out, 1, 65535, f) > 0);
	cr_assert_not(strstr(out, "hunter2"));
	cr_assert(strstr(out, "authorization=***"));
	cr_assert(strstr(out, ":2\n"), "file and line");
	cr_assert(strstr(out, "# environment OTEL_BSP_SCHEDULE_DELAY"));
	cr_assert(strstr(out, "# flag --admin-port"));
	cr_assert(strstr(out, "# default"));
}

Test(config, decode_is_given_the_privacy_options)
{
	auto_config struct config *cfg = load("--privacy-redact-query-keys", "token", NULL);
	struct privacy p = config_privacy(cfg);

	cr_assert_eq(p.redact_query_keys->n, 1);
	cr_assert_str_eq(p.redact_query_keys->v[0], "token");
	cr_assert_eq(p.known_methods->n, 10);
	cr_assert(p.url_query);
	cr_assert_not(p.health_probes);
}

Test(config, the_distance_of_two_words_counts_slips)
{
	cr_assert_eq(option_distance("", ""), 0);
	cr_assert_eq(option_distance("abc", "abc"), 0);
	cr_assert_eq(option_distance("abc", ""), 3);
	cr_assert_eq(option_distance("otpl", "otlp"), 1);
	cr_assert_eq(option_distance("kitten", "sitting"), 3);
}
