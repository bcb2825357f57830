#include "export/otlp_url.h"

#include "base/config.h"

#include <criterion/criterion.h>

/* What config.c makes of options that are not set. */
static char nothing[] = "";

static const char *url_of(const char *endpoint, const char *traces_endpoint, const char *node_ip)
{
	static char out[512];
	struct config cfg = { .otlp_endpoint = nothing,
			      .otlp_traces_endpoint = nothing,
			      .node_ip = nothing };
	const char *bad = NULL;

	if (endpoint)
		cfg.otlp_endpoint = (char *)(uintptr_t)endpoint;
	if (traces_endpoint)
		cfg.otlp_traces_endpoint = (char *)(uintptr_t)traces_endpoint;
	if (node_ip)
		cfg.node_ip = (char *)(uintptr_t)node_ip;
	if (otlp_url(out, sizeof(out), &cfg, OTLP_TRACES, &bad) == 0)
		return out;
	cr_expect_str_eq(bad, traces_endpoint ? traces_endpoint : endpoint ? endpoint : node_ip);
	return "refused";
}

Test(otlp_url, endpoints_in_every_spelling_get_the_path_of_the_signal)
{
	static const char *const cases[][2] = {
		{ "http://collector:4318", "http://collector:4318/v1/traces" },
		{ "http://collector:4318/", "http://collector:4318/v1/traces" },
		{ "http://collector:4318///", "http://collector:4318/v1/traces" },
		{ "http://collector:4318/otlp", "http://collector:4318/otlp/v1/traces" },
		{ "http://collector:4318/otlp/", "http://collector:4318/otlp/v1/traces" },
		{ "http://collector:4318/v1/traces", "http://collector:4318/v1/traces" },
		{ "https://collector", "https://collector/v1/traces" },
		{ "HTTPS://collector:443", "https://collector:443/v1/traces" },
		{ "collector:4318", "http://collector:4318/v1/traces" },
		{ "collector", "http://collector:4318/v1/traces" },
		{ "collector/otlp", "http://collector:4318/otlp/v1/traces" },
		{ "collector.observe.svc.cluster.local:80/a/b/",
		  "http://collector.observe.svc.cluster.local:80/a/b/v1/traces" },
		{ "localhost:4318", "http://localhost:4318/v1/traces" },
		{ "10.0.0.1", "http://10.0.0.1:4318/v1/traces" },
		{ "[::1]:4318", "http://[::1]:4318/v1/traces" },
		{ "[fd00::7]", "http://[fd00::7]:4318/v1/traces" },
		{ "http://[fd00::7]:8080/x", "http://[fd00::7]:8080/x/v1/traces" },
		{ "http://[fd00::7]", "http://[fd00::7]/v1/traces" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(url_of(cases[i][0], NULL, NULL), cases[i][1], "%s: %s",
				 cases[i][0], url_of(cases[i][0], NULL, NULL));
}

Test(otlp_url, the_traces_endpoint_is_used_as_it_is_and_wins)
{
	static const char *const cases[][2] = {
		{ "http://collector:4318/custom", "http://collector:4318/custom" },
		{ "http://collector:4318/custom/", "http://collector:4318/custom/" },
		{ "http://collector:4318", "http://collector:4318/" },
		{ "https://collector/in?tenant=7", "https://collector/in?tenant=7" },
		{ "collector:4318/v1/traces", "http://collector:4318/v1/traces" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(url_of("http://other", cases[i][0], NULL), cases[i][1], "%s",
				 url_of(NULL, cases[i][0], NULL));
}

Test(otlp_url, without_an_endpoint_it_is_the_node_then_this_machine)
{
	cr_expect_str_eq(url_of(NULL, NULL, NULL), "http://localhost:4318/v1/traces");
	cr_expect_str_eq(url_of(NULL, NULL, "10.1.2.3"), "http://10.1.2.3:4318/v1/traces");
	cr_expect_str_eq(url_of(NULL, NULL, "fd00::7"), "http://[fd00::7]:4318/v1/traces");
}

Test(otlp_url, nonsense_is_refused_with_the_value)
{
	static const char *const cases[] = { "http://",
					     "https:///v1/traces",
					     "http:/collector:4318",
					     "http//collector",
					     "http",
					     "https:",
					     "4318",
					     ":4318",
					     "http://:4318",
					     "collector:0",
					     "collector:65536",
					     "collector:port",
					     "collector:4318:4318",
					     "fd00::7:x",
					     "::1",
					     "::1:4318",
					     "not a url",
					     "[::1",
					     "ftp://collector",
					     "grpc://collector:4317",
					     "file:///etc/passwd",
					     "unix:/run/otel.sock",
					     "http://col lector:4318",
					     "http://collector:4318/?a=b",
					     "http://collector:4318/#x",
					     "://collector",
					     "/v1/traces",
					     " ",
					     "-",
					     "http://http://collector" };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(url_of(cases[i], NULL, NULL), "refused", "'%s': %s", cases[i],
				 url_of(cases[i], NULL, NULL));
}
