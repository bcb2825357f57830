#include "bpf/libs/net_http/net_http.h"

#define LIBRARY     "net_http"
#define RECORD      struct net_http_event
#define RECORD_DATA NET_HTTP_DATA_MAX
#include "decode_rig.h"

#include "trace/literals.h"
#include <sys/mman.h>

/* What a record says; text is written into it in order. */
struct said {
	const char *remote, *agent, *state, *method, *target, *host, *pattern;
	uint8_t flags, bits, version;
	uint16_t status;
	uint32_t pattern_at;
	uint16_t pattern_len; /* of a literal */
};

static const struct said plain = { .remote = "10.1.2.3:4567",
				   .agent = "curl/8",
				   .method = "GET",
				   .target = "/items/7?x=1",
				   .host = "shop.example:8080",
				   .pattern = "GET /items/{id}",
				   .bits = NET_HTTP_JOINED,
				   .version = 11,
				   .status = 200,
				   .flags = EVENT_SAMPLED };

TestSuite(net_http, .init = set_up, .fini = tear_down);

static void build(const struct said *s)
{
	struct net_http_event *ev = &record.ev;
	size_t at = sizeof(*ev);

	memset(&record, 0, sizeof(record));
	ev->remote_len = (uint8_t)put(s->remote, &at);
	ev->agent_len = (uint16_t)put(s->agent, &at);
	ev->state_len = (uint16_t)put(s->state, &at);
	ev->method_len = (uint8_t)put(s->method, &at);
	if (s->bits & NET_HTTP_JOINED)
		(void)put(" ", &at);
	ev->target_len = (uint16_t)put(s->target, &at);
	ev->host_len = (uint16_t)put(s->host, &at);
	ev->pattern_len =
		s->bits & NET_HTTP_LITERAL ? s->pattern_len : (uint16_t)put(s->pattern, &at);
	ev->pattern_at = s->pattern_at;
	ev->bits = s->bits;
	ev->version = s->version;
	ev->status = s->status;
	ev->ev.flags = s->flags;
	ev->ev.size = (uint32_t)at;
}

static void decode_said(struct said s)
{
	build(&s);
	cr_assert_eq(decode_record(), 0);
}

Test(net_http, a_request_becomes_a_server_span_in_the_words_of_the_conventions)
{
	decode_said(plain);
	cr_assert(str_eq(span.name, "GET /items/{id}"));
	cr_assert_eq(span.kind, SPAN_SERVER);
	cr_assert_eq(span.status, SPAN_UNSET);
	expect("http.request.method", "GET");
	expect("http.request.method_original", NULL);
	expect("url.path", "/items/7");
	expect("url.query", "x=1");
	expect("url.scheme", "http");
	expect("http.route", "/items/{id}");
	expect_int("http.response.status_code", 200);
	expect("error.type", NULL);
	expect("server.address", "shop.example");
	expect_int("server.port", 8080);
	expect("network.peer.address", "10.1.2.3");
	expect_int("network.peer.port", 4567);
	expect("client.address", "10.1.2.3");
	expect("network.protocol.version", "1.1");
	expect("user_agent.original", "curl/8");
}

Test(net_http, without_a_route_the_name_is_the_method_and_never_the_path)
{
	struct said s = plain;

	s.pattern = NULL;
	decode_said(s);
	cr_assert(str_eq(span.name, "GET"));
	expect("http.route", NULL);
	s.method = "BREW";
	decode_said(s);
	cr_assert(str_eq(span.name, "HTTP"));
	expect("http.request.method", "_OTHER");
	expect("http.request.method_original", "BREW");
}

Test(net_http, only_5xx_and_panics_are_errors)
{
	static const struct {
		uint16_t status;
		uint8_t flags, bits;
		const char *error;
	} cases[] = {
		{ 200, 0, 0, NULL },
		{ 404, 0, 0, NULL },
		{ 499, 0, 0, NULL },
		{ 500, 0, 0, "500" },
		{ 599, 0, 0, "599" },
		{ 600, 0, 0, NULL },
		{ 101, 0, NET_HTTP_HIJACKED, NULL },
		{ 0, EVENT_PANICKED, 0, "panic" },
		{ 202, EVENT_PANICKED, 0, "panic" },
		{ 0, EVENT_PANICKED, NET_HTTP_ABORTED, "aborted" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct said s = plain;

		s.status = cases[i].status;
		s.flags |= cases[i].flags;
		s.bits |= cases[i].bits;
		decode_said(s);
		expect("error.type", cases[i].error);
		cr_assert_eq(span.status, cases[i].error ? SPAN_ERROR : SPAN_UNSET, "case %zu", i);
	}
}

Test(net_http, no_status_was_sent_means_no_status)
{
	struct said s = plain;

	s.status = 0;
	decode_said(s);
	cr_assert(!span_attr(&span, "http.response.status_code"));
}

Test(net_http, protocol_versions_are_said_as_the_conventions_want_them)
{
	static const struct {
		uint8_t version;
		const char *text;
	} cases[] = { { 10, "1.0" }, { 11, "1.1" }, { 20, "2" } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct said s = plain;

		s.version = cases[i].version;
		decode_said(s);
		expect("network.protocol.version", cases[i].text);
	}
}

Test(net_http, the_port_of_the_server_is_the_hosts_or_the_schemes)
{
	struct said s = plain;

	s.host = "shop.example";
	decode_said(s);
	expect_int("server.port", 80);
	s.bits |= NET_HTTP_TLS;
	decode_said(s);
	expect("url.scheme", "https");
	expect_int("server.port", 443);
	s.host = "[::1]:99";
	decode_said(s);
	expect("server.address", "::1");
	expect_int("server.port", 99);
	s.host = NULL;
	decode_said(s);
	expect("server.address", NULL);
	cr_assert(!span_attr(&span, "server.port"));
}

Test(net_http, a_peer_without_a_port_is_a_unix_socket_and_left_out)
{
	struct said s = plain;

	s.remote = "@";
	decode_said(s);
	expect("network.peer.address", NULL);
	expect("client.address", NULL);
	s.remote = "[fe80::1%eth0]:5";
	decode_said(s);
	expect("network.peer.address", "fe80::1%eth0");
	expect_int("network.peer.port", 5);
}

Test(net_http, query_values_are_redacted_and_the_query_can_be_left_out)
{
	struct said s = plain;

	s.target = "/a?sig=topsecret&b=1";
	decode_said(s);
	expect("url.query", "sig=REDACTED&b=1");
	privacy.url_query = false;
	decode_said(s);
	expect("url.query", NULL);
	expect("url.path", "/a");
}

Test(net_http, bytes_that_are_no_text_are_replaced_in_every_string)
{
	struct said s = { .remote = "\xff:1",
			  .agent = "a\xff",
			  .method = "G\xff",
			  .target = "/\xff?\xff",
			  .host = "h\xff",
			  .pattern = "/\xff",
			  .version = 11,
			  .flags = EVENT_SAMPLED };

	decode_said(s);
	expect("user_agent.original", "a\xef\xbf\xbd");
	expect("http.request.method_original", "G\xef\xbf\xbd");
	expect("url.path", "/\xef\xbf\xbd");
	expect("url.query", "\xef\xbf\xbd");
	expect("server.address", "h\xef\xbf\xbd");
	expect("http.route", "/\xef\xbf\xbd");
	expect("network.peer.address", "\xef\xbf\xbd");
}

Test(net_http, long_paths_and_queries_are_cut_at_a_character)
{
	char target[1025] = "/";
	const struct attr *a;
	struct said s = plain;

	memset(target + 1, 'p', 510);
	memcpy(target + 511, "\xc3\xbc", 2); /* straddles the limit of 512 */
	memset(target + 513, 'p', 100);
	target[613] = '?';
	memset(target + 614, 'q', 410);
	s.target = target;
	decode_said(s);
	a = span_attr(&span, "url.path");
	cr_assert_eq(a->s.n, 511u);
	a = span_attr(&span, "url.query");
	cr_assert_eq(a->s.n, 410u);
	cr_assert(span.cut);
	decode_said(plain);
	cr_assert(!span.cut);
}

Test(net_http, body_sizes_are_there_when_they_are_wanted)
{
	struct said s = plain;

	decode_said(s);
	cr_assert(!span_attr(&span, "http.request.body.size") &&
		  !span_attr(&span, "http.response.body.size"));
	privacy.body_sizes = true;
	build(&s);
	record.ev.request_size = 5;
	record.ev.response_size = 7;
	cr_assert_eq(decode_record(), 0);
	expect_int("http.request.body.size", 5);
	expect_int("http.response.body.size", 7);
	s.method = "HEAD";
	build(&s);
	record.ev.request_size = -1; /* chunked */
	record.ev.response_size = 7;
	cr_assert_eq(decode_record(), 0);
	cr_assert(!span_attr(&span, "http.request.body.size"));
	expect_int("http.response.body.size", 0);
}

Test(net_http, tracestate_is_handed_on_when_it_is_header_text)
{
	struct said s = plain;

	s.state = "a=b,c=d";
	decode_said(s);
	cr_assert(str_eq(span.tracestate, "a=b,c=d"));
	s.state = "a=\xff";
	decode_said(s);
	cr_assert_eq(span.tracestate.n, 0u);
	s.state = "a=\n";
	decode_said(s);
	cr_assert_eq(span.tracestate.n, 0u);
}

Test(net_http, health_probes_and_scrapes_are_told_from_requests)
{
	struct said s = plain;
	struct str declared[] = { str_of("/healthz"), str_of("/") };

	decode_said(s);
	cr_assert(!span.health);
	s.agent = "kube-probe/1.30";
	decode_said(s);
	cr_assert(span.health);
	s.agent = "Prometheus/3.5.0";
	decode_said(s);
	cr_assert(span.health, "a scrape");
	s.agent = "not kube-probe/1.30";
	s.target = "/health";
	with.probe_paths = declared;
	with.nprobe_paths = ARRAY_SIZE(declared);
	decode_said(s);
	cr_assert(!span.health, "another path");
	s.target = "/healthz";
	decode_said(s);
	cr_assert(span.health, "whoever asks for a path that the pod declares");
	s.target = "/";
	decode_said(s);
	cr_assert(!span.health, "the root is too much everybody's");
	s.target = "/healthz";
	s.method = "POST";
	decode_said(s);
	cr_assert(!span.health);
}

Test(net_http, a_literal_pattern_comes_out_of_the_file)
{
	static const char text[] = "....GET /users/{id}....";
	struct said s = plain;
	int fd = memfd_create("literals", MFD_CLOEXEC);

	cr_assert_eq(write(fd, text, sizeof(text)), (ssize_t)sizeof(text));
	cr_assert_eq(literals_new(&with.literals, fd, 0, sizeof(text)), 0);
	s.bits |= NET_HTTP_LITERAL;
	s.pattern_at = 4;
	s.pattern_len = 15;
	decode_said(s);
	expect("http.route", "/users/{id}");
	s.pattern_at = 1 << 20; /* not in the file: a span without its route, not a lost one */
	decode_said(s);
	expect("http.route", NULL);
	literals_free(&with.literals);
	decode_said(s);
	expect("http.route", NULL);
}

Test(net_http, lengths_that_do_not_fit_the_record_are_refused)
{
	uint16_t *const lengths[] = { &record.ev.target_len, &record.ev.host_len,
				      &record.ev.pattern_len, &record.ev.agent_len,
				      &record.ev.state_len };
	uint32_t whole;

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		build(&plain);
		*lengths[i] = 0xffff;
		cr_assert_eq(decode_record(), -EBADMSG, "length %zu", i);
	}
	build(&plain);
	whole = record.ev.ev.size;
	for (uint32_t n = sizeof(struct net_http_event); n < whole; n++) {
		record.ev.ev.size = n;
		cr_assert_eq(decode_record(), -EBADMSG, "%u of %u bytes", n, whole);
	}
	build(&plain);
	record.ev.ev.kind = 1;
	cr_assert_eq(decode_record(), -EBADMSG);
	build(&plain);
	record.ev.ev.size = sizeof(struct net_http_event) - 1;
	cr_assert_eq(decode_record(), -EBADMSG);
}

Test(net_http, a_full_arena_is_said)
{
	struct said s = plain;

	s.target = "/\xff";
	build(&s);
	arena.used = arena.size;
	cr_assert_eq(decode_record(), -ENOSPC);
	build(&plain);
	cr_assert_eq(decode_record(), -ENOSPC, "the name needs room");
}

Test(net_http, every_part_names_probes_and_fields_that_there_are)
{
	for (size_t i = 0; i < lib->nparts; i++) {
		cr_assert(lib->parts[i].probes && lib->parts[i].probes >> lib->nprobes == 0);
		cr_assert(lib->parts[i].fields &&
			  (lib->nfields == 64 || lib->parts[i].fields >> lib->nfields == 0));
		cr_assert(lib->parts[i].lost && lib->parts[i].name);
	}
	cr_assert(lib->nfields == NET_HTTP_NFIELDS && lib->nfields <= GO_FIELDS_MAX);
	cr_assert(lib->nprobes <= LIB_PROBES_MAX);
	cr_assert_str_eq(lib->fields[F_G_GOID].field, "goid");
	cr_assert_str_eq(lib->fields[F_XNET_WRAPS].field, "serveConnFunc");
}

/* ---- muxes ---- */

/* Puts the muxes of a record that build() has made in: texts behind the tracestate, their list at
 * the end. */
static void add_muxes(const struct net_http_mux *muxes, const char *const *texts, size_t n)
{
	struct net_http_event *ev = &record.ev;
	size_t at = sizeof(*ev) + ev->remote_len + ev->agent_len + ev->state_len;

	for (size_t i = 0; i < n; i++) {
		size_t len = texts[i] ? strlen(texts[i]) : 0;

		memmove(record.bytes + at + len, record.bytes + at, ev->ev.size - at);
		if (len)
			memcpy(record.bytes + at, texts[i], len);
		at += len;
		ev->ev.size += (uint32_t)len;
	}
	memcpy(record.bytes + ev->ev.size, muxes, n * sizeof(*muxes));
	ev->ev.size += (uint32_t)(n * sizeof(*muxes));
	ev->nmuxes = (uint8_t)n;
	ev->bits |= NET_HTTP_MUX;
}

static struct said behind_a_copy(const char *target)
{
	struct said s = plain;

	s.pattern = NULL;
	s.target = target;
	return s;
}

Test(net_http, the_route_is_the_mux_s_where_the_server_s_request_has_none)
{
	const struct net_http_mux mux = { .len = 15, .path_len = NET_HTTP_MUX_SAME };
	const char *text = "GET /items/{id}";

	build(&(struct said[]){ behind_a_copy("/items/7") }[0]);
	add_muxes(&mux, &text, 1);
	cr_assert_eq(decode_record(), 0);
	expect("http.route", "/items/{id}");
	expect("url.path", "/items/7");
	cr_assert(str_eq(span.name, "GET /items/{id}"));
	cr_assert_eq(span.trial, TRIAL_GAINED);
}

Test(net_http, patterns_of_muxes_inside_one_another_are_joined)
{
	const struct net_http_mux muxes[] = { { .len = 5, .path_len = NET_HTTP_MUX_SAME },
					      { .len = 11, .path_len = 8 } };
	const char *texts[] = { "/api/", "/users/{id}" };

	build(&(struct said[]){ behind_a_copy("/api/users/7?x") }[0]);
	add_muxes(muxes, texts, 2);
	cr_assert_eq(decode_record(), 0);
	expect("http.route", "/api/users/{id}");
	privacy.no_routes = true;
	cr_assert_eq(decode_record(), 0);
	expect("http.route", NULL);
}

Test(net_http, a_trial_probe_is_worth_what_it_told)
{
	struct said s = plain;

	s.bits |= NET_HTTP_MUX;
	decode_said(s);
	cr_assert_eq(span.trial, TRIAL_IDLE, "the request had its pattern");
	decode_said(plain);
	cr_assert_eq(span.trial, TRIAL_NONE, "no hit, and none needed");
	s = plain;
	s.pattern = "/items/";
	decode_said(s);
	cr_assert_eq(span.trial, TRIAL_MISSED, "another mux may stand behind it");
	decode_said(behind_a_copy("/items/7"));
	cr_assert_eq(span.trial, TRIAL_MISSED);
	s = behind_a_copy("/items/7");
	s.status = 404;
	decode_said(s);
	cr_assert_eq(span.trial, TRIAL_NONE, "nothing matched");
}

Test(net_http, muxes_that_do_not_fit_the_record_are_refused)
{
	const struct net_http_mux mux = { .len = 200, .path_len = 1 };
	const char *text = "/x";

	build(&(struct said[]){ behind_a_copy("/items/7") }[0]);
	add_muxes(&mux, &text, 1);
	cr_assert_eq(decode_record(), -EBADMSG, "a text longer than the record");
	record.ev.nmuxes = NET_HTTP_MUXES_MAX + 1;
	cr_assert_eq(decode_record(), -EBADMSG);
	record.ev.nmuxes = NET_HTTP_MUXES_MAX;
	record.ev.ev.size = sizeof(record.ev) + 8;
	cr_assert_eq(decode_record(), -EBADMSG, "a list longer than the record");
}
