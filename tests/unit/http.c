#include "trace/http.h"

#include "base/config.h"
#include "trace/span.h"
#include <criterion/criterion.h>

static struct arena arena;

static void set_up(void)
{
	cr_assert_eq(arena_init(&arena, 4096), 0);
}

static void tear_down(void)
{
	arena_clear(&arena);
}

TestSuite(http, .init = set_up, .fini = tear_down);

static void expect_target(const char *target, const char *path, const char *query)
{
	struct str p, q;

	http_target(str_of(target), &p, &q);
	cr_assert(path ? str_eq(p, path) : !p.p, "path of '%s' is '%.*s'", target, (int)p.n, p.p);
	cr_assert(query ? str_eq(q, query) : !q.p, "query of '%s' is '%.*s'", target, (int)q.n,
		  q.p);
}

Test(http, every_form_of_a_request_target_has_its_path_and_query)
{
	expect_target("/", "/", NULL);
	expect_target("/a/b?x=1&y=2", "/a/b", "x=1&y=2");
	expect_target("/a?", "/a", NULL);
	expect_target("/a?b?c", "/a", "b?c");
	expect_target("//double", "//double", NULL);
	expect_target("*", "*", NULL);
	expect_target("http://example.com/a?b", "/a", "b");
	expect_target("http://example.com", "/", NULL);
	expect_target("http://example.com?b", "/", "b");
	expect_target("example.com:443", NULL, NULL);
	expect_target("", NULL, NULL);
	expect_target("/a%2Fb/../c", "/a%2Fb/../c", NULL);
}

static void expect_authority(const char *text, const char *host, int port)
{
	int got;
	struct str s = http_authority(str_of(text), &got);

	cr_assert(host ? str_eq(s, host) : !s.p, "host of '%s' is '%.*s'", text, (int)s.n, s.p);
	cr_assert_eq(got, port, "port of '%s' is %d", text, got);
}

Test(http, an_authority_is_a_host_and_maybe_a_port)
{
	expect_authority("example.com", "example.com", -1);
	expect_authority("example.com:8080", "example.com", 8080);
	expect_authority("10.0.0.1:80", "10.0.0.1", 80);
	expect_authority("[::1]:99", "::1", 99);
	expect_authority("[::1]", "::1", -1);
	expect_authority("::1", "::1", -1);
	expect_authority("[fe80::1%25eth0]:1", "fe80::1%25eth0", 1);
	expect_authority("", NULL, -1);
	expect_authority(":80", NULL, 80);
	expect_authority("[]:80", NULL, 80);
	expect_authority("host:", "host", -1);
	expect_authority("host:http", "host", -1);
	expect_authority("host:70000", "host", -1);
	expect_authority("[::1", "[::1", -1);
}

static char *secret_names[] = { "sig", "X-Amz-Signature", NULL };
static const struct list secrets = { secret_names, 2 };

static void expect_redacted(const char *query, const char *out)
{
	struct str s = str_of(query);

	cr_assert_eq(http_redact(&s, &secrets, &arena), 0);
	cr_assert(str_eq(s, out), "'%s' -> '%.*s'", query, (int)s.n, s.p);
}

Test(http, values_of_secret_keys_are_replaced_and_nothing_else)
{
	expect_redacted("a=1&b=2", "a=1&b=2");
	expect_redacted("sig=abc", "sig=REDACTED");
	expect_redacted("a=1&sig=abc&b=2", "a=1&sig=REDACTED&b=2");
	expect_redacted("sig=1&sig=2", "sig=REDACTED&sig=REDACTED");
	expect_redacted("sig=", "sig=REDACTED");
	expect_redacted("sig", "sig");
	expect_redacted("Sig=abc", "Sig=abc");
	expect_redacted("asig=abc&sigb=1", "asig=abc&sigb=1");
	expect_redacted("sig=a=b", "sig=REDACTED");
	expect_redacted("&&sig=a&&", "&&sig=REDACTED&&");
	expect_redacted("X-Amz-Signature=abc&", "X-Amz-Signature=REDACTED&");
}

Test(http, a_secret_key_is_known_also_when_it_is_percent_encoded)
{
	expect_redacted("%73ig=abc", "%73ig=REDACTED");
	expect_redacted("X%2dAmz%2DSignature=abc", "X%2dAmz%2DSignature=REDACTED");
	expect_redacted("si%6=abc", "si%6=abc");
	expect_redacted("sig%=abc", "sig%=abc");
}

Test(http, no_room_for_the_redacted_query_is_said)
{
	struct str s = str_of("sig=abc");

	arena.used = arena.size;
	cr_assert_eq(http_redact(&s, &secrets, &arena), -ENOSPC);
}

static void expect_route(const char *pattern, const char *route)
{
	struct str s = http_route(str_of(pattern));

	cr_assert(route ? str_eq(s, route) : !s.p, "route of '%s' is '%.*s'", pattern, (int)s.n,
		  s.p);
}

Test(http, a_route_is_the_pattern_without_method_and_host)
{
	expect_route("/items/{id}", "/items/{id}");
	expect_route("GET /items/{id}", "/items/{id}");
	expect_route("POST example.com/items/{id...}", "/items/{id...}");
	expect_route("example.com/", "/");
	expect_route("GET  /two-spaces", "/two-spaces");
	expect_route("/{$}", "/{$}");
	expect_route("", NULL);
	expect_route("nonsense", NULL);
}

static char *method_names[] = { "GET", "POST", NULL };
static const struct list methods = { method_names, 2 };

static void expect_method(const char *method, const char *attribute, const char *original,
			  const char *in_name)
{
	struct attr attrs[SPAN_ATTRS_MAX];
	struct span span = { .attrs = attrs };
	struct str name = http_method(&span, str_of(method), &methods);
	const struct attr *a = span_attr(&span, "http.request.method");

	cr_assert(str_eq(name, in_name));
	cr_assert(a && str_eq(a->s, attribute));
	a = span_attr(&span, "http.request.method_original");
	cr_assert(original ? a && str_eq(a->s, original) : !a);
}

Test(http, methods_that_are_not_known_are_other)
{
	expect_method("GET", "GET", NULL, "GET");
	expect_method("get", "_OTHER", "get", "HTTP");
	expect_method("PURGE", "_OTHER", "PURGE", "HTTP");
	expect_method("", "_OTHER", NULL, "HTTP");
}

static void full(const struct http_url *url, const char *want)
{
	struct str got;

	arena_reset(&arena);
	cr_assert_eq(http_url_full(&got, url, &arena), 0);
	cr_assert(str_eq(got, want), "%.*s, not %s", (int)got.n, got.p, want);
}

Test(http, a_url_is_written_as_it_goes_over_the_wire)
{
	struct http_url u = { .scheme = str_of("https"), .host = str_of("a.example") };

	full(&u, "https://a.example");
	u.path = str_of("/a b/\xc3\xbc?%");
	full(&u, "https://a.example/a%20b/%C3%BC%3F%25");
	u.path = str_of("no/slash");
	u.query = str_of("q=1");
	full(&u, "https://a.example/no/slash?q=1");
	u.user = true;
	u.path = str_of("*");
	full(&u, "https://REDACTED:REDACTED@a.example/*?q=1");
	u.user = false;
	u.opaque = true;
	u.path = str_of("//x/y z");
	full(&u, "https://x/y z?q=1");
}

Test(http, how_a_path_was_written_counts_only_while_it_is_that_path)
{
	struct http_url u = { .scheme = str_of("http"),
			      .host = str_of("h"),
			      .path = str_of("/a/b!"),
			      .raw_path = str_of("/a%2Fb!") };

	full(&u, "http://h/a%2Fb!");
	u.raw_path = str_of("/a%2fc!");
	full(&u, "http://h/a/b%21");
	u.raw_path = str_of("/a%2");
	full(&u, "http://h/a/b%21");
	u.raw_path = str_of("/a/b!x");
	full(&u, "http://h/a/b%21");
}

Test(http, statuses_of_errors_have_a_text)
{
	cr_assert_null(http_status_error(399));
	cr_assert_str_eq(http_status_error(400), "400");
	cr_assert_str_eq(http_status_error(599), "599");
	cr_assert_null(http_status_error(600));
}
