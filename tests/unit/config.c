#include "config_rig.h"

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
}

Test(config, the_distance_of_two_words_counts_slips)
{
	cr_assert_eq(option_distance("", ""), 0);
	cr_assert_eq(option_distance("abc", "abc"), 0);
	cr_assert_eq(option_distance("abc", ""), 3);
	cr_assert_eq(option_distance("otpl", "otlp"), 1);
	cr_assert_eq(option_distance("kitten", "sitting"), 3);
}
