#include "config_rig.h"
#include <time.h>

TestSuite(config_file, .init = no_environment);

Test(config_file, yaml_nests_mappings_and_takes_lists_in_both_forms)
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

Test(config_file, a_key_without_a_value_keeps_its_default_and_quotes_empty_it)
{
	auto_config struct config *cfg = load_yaml(
		"otlp:\n  headers:\n  timeout: ~\nadmin: {listen: \"\"}\nkubelet:\ndiscovery:\n"
		"  exclude_namespaces: []\n");

	cr_assert(cfg, "%s", said);
	cr_assert_eq(cfg->otlp_timeout, 10000);
	cr_assert_str_empty(cfg->admin_listen);
	cr_assert_eq(cfg->exclude_namespaces.n, 0);
}

Test(config_file, an_empty_file_is_no_error)
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

Test(config_file, each_bad_file_is_refused_with_line_key_value_and_what_is_allowed)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		cr_expect_null(load_yaml(refused[i].yaml), "accepted: %s", refused[i].yaml);
		cr_expect(strstr(said, refused[i].say), "%sexpected: %s\nsaid: %s", refused[i].yaml,
			  refused[i].say, said);
	}
}

Test(config_file, a_file_that_nests_without_end_is_refused_at_once)
{
	size_t depth = 200000;
	char *yaml = malloc(depth + 64);
	clock_t began = clock();

	memcpy(yaml, "log: ", 5);
	memset(yaml + 5, '[', depth);
	yaml[5 + depth] = '\0';
	cr_assert_null(load_yaml(yaml));
	cr_assert(strstr(said, ":1: nested deeper than 32"), "%s", said);
	memcpy(yaml, "xyz: ", 5); /* below an unknown key */
	cr_assert_null(load_yaml(yaml));
	cr_assert(strstr(said, "nested deeper than 32"), "%s", said);
	cr_assert_lt(clock() - began, 2 * CLOCKS_PER_SEC);
	free(yaml);
}

Test(config_file, more_entries_than_a_person_would_write_are_refused_at_once)
{
	char *yaml = malloc(1 << 20);
	clock_t began = clock();

	for (int entries = 4096; entries <= 50000; entries += 50000 - 4096) {
		struct config *cfg;
		size_t n = (size_t)sprintf(yaml, "resource:\n  attributes:\n");

		for (int i = 0; i < entries; i++)
			n += (size_t)sprintf(yaml + n, "    key%d: v\n", i);
		cfg = load_yaml(yaml);
		cr_assert_eq(cfg != NULL, entries == 4096, "%d: %s", entries, said);
		config_free(&cfg);
	}
	cr_assert(strstr(said, ":4099: resource.attributes: more than 4096 entries"), "%s", said);
	cr_assert_lt(clock() - began, 4 * CLOCKS_PER_SEC);
	free(yaml);
}

Test(config_file, all_errors_are_told_at_once)
{
	cr_assert_null(load_yaml(
		"log: {level: loud}\nbatch: {spans: many}\nnonsense: 1\nexporters: [x]\n"));
	cr_assert(strstr(said, "'loud'") && strstr(said, "'many'") && strstr(said, "'nonsense'") &&
			  strstr(said, "'x'"),
		  "%s", said);
}

Test(config_file, a_value_of_a_secret_map_is_not_repeated_in_an_error)
{
	cr_assert_null(load_yaml("otlp: {headers: \"hunter2\"}\n"));
	cr_assert_not(strstr(said, "hunter2"), "%s", said);
	cr_assert(strstr(said, "otlp.headers: the value (hidden) is not allowed"), "%s", said);
}

Test(config_file, durations_and_sizes_take_units_fractions_and_sums)
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
