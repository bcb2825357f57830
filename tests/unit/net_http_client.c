#include "bpf/libs/net_http_client/net_http_client.h"

#define LIBRARY     "net_http_client"
#define RECORD      struct net_http_client_event
#define RECORD_DATA NET_HTTP_CLIENT_DATA_MAX
#include "decode_rig.h"

/* What a record says; text is written into it in order. */
struct said {
	const char *method, *scheme, *host, *path, *raw, *query, *error, *cause;
	uint8_t bits, version, resends;
	uint16_t status;
	int64_t sent, received;
};

static const struct said plain = { .method = "GET",
				   .scheme = "http",
				   .host = "shop.example:8080",
				   .path = "/items/7",
				   .query = "x=1",
				   .version = 11,
				   .status = 200,
				   .sent = 0,
				   .received = 12 };

TestSuite(net_http_client, .init = set_up, .fini = tear_down);

static void build(const struct said *s)
{
	struct net_http_client_event *ev = &record.ev;
	size_t at = sizeof(*ev);

	memset(&record, 0, sizeof(record));
	ev->method_len = (uint8_t)put(s->method, &at);
	ev->scheme_len = (uint8_t)put(s->scheme, &at);
	ev->host_len = (uint16_t)put(s->host, &at);
	ev->path_len = (uint16_t)put(s->path, &at);
	ev->raw_len = (uint16_t)put(s->raw, &at);
	ev->query_len = (uint16_t)put(s->query, &at);
	ev->error_len = (uint8_t)put(s->error, &at);
	ev->cause_len = (uint8_t)put(s->cause, &at);
	ev->bits = s->bits;
	ev->version = s->version;
	ev->status = s->status;
	ev->resends = s->resends;
	ev->request_size = s->sent;
	ev->response_size = s->received;
	ev->ev.flags = EVENT_SAMPLED;
	ev->ev.size = (uint32_t)at;
}

static void decode_said(struct said s)
{
	build(&s);
	cr_assert_eq(decode_record(), 0);
}

Test(net_http_client, a_call_becomes_a_client_span_in_the_words_of_the_conventions)
{
	decode_said(plain);
	cr_assert_eq(span.kind, SPAN_CLIENT);
	cr_assert_eq(span.status, SPAN_UNSET);
	cr_assert(str_eq(span.name, "GET"));
	expect("http.request.method", "GET");
	expect("url.full", "http://shop.example:8080/items/7?x=1");
	expect("server.address", "shop.example");
	expect_int("server.port", 8080);
	expect_int("http.response.status_code", 200);
	expect("network.protocol.version", "1.1");
	expect("error.type", NULL);
	cr_assert_null(span_attr(&span, "http.request.resend_count"));
	cr_assert_null(span_attr(&span, "http.request.body.size"), "an option");
}

Test(net_http_client, an_empty_method_is_get_and_an_unknown_one_is_other)
{
	struct said s = plain;

	s.method = "";
	decode_said(s);
	expect("http.request.method", "GET");
	s.method = "BREW";
	decode_said(s);
	expect("http.request.method", "_OTHER");
	expect("http.request.method_original", "BREW");
	cr_assert(str_eq(span.name, "HTTP"));
}

Test(net_http_client, names_and_passwords_and_secret_parameters_are_redacted)
{
	struct said s = plain;

	s.bits = NET_HTTP_CLIENT_USER;
	s.query = "a=1&sig=secret";
	decode_said(s);
	expect("url.full", "http://REDACTED:REDACTED@shop.example:8080/items/7?a=1&sig=REDACTED");
	privacy.url_query = false;
	decode_said(s);
	expect("url.full", "http://REDACTED:REDACTED@shop.example:8080/items/7");
}

Test(net_http_client, ports_are_the_schemes_where_the_url_has_none)
{
	struct said s = plain;

	s.host = "shop.example";
	decode_said(s);
	expect_int("server.port", 80);
	s.scheme = "https";
	s.host = "[::1]";
	decode_said(s);
	expect("server.address", "::1");
	expect_int("server.port", 443);
	s.scheme = "shop";
	decode_said(s);
	cr_assert_null(span_attr(&span, "server.port"));
}

Test(net_http_client, an_answer_of_400_and_more_is_an_error_of_its_number)
{
	struct said s = plain;

	s.status = 404;
	decode_said(s);
	expect("error.type", "404");
	cr_assert_eq(span.status, SPAN_ERROR);
	s.status = 399;
	decode_said(s);
	expect("error.type", NULL);
	cr_assert_eq(span.status, SPAN_UNSET);
}

Test(net_http_client, a_call_that_failed_has_the_go_type_of_its_error_and_no_status)
{
	struct said s = plain;

	s.status = 0;
	s.bits = NET_HTTP_CLIENT_FAILED;
	s.error = "*net.OpError";
	s.cause = "*os.SyscallError";
	decode_said(s);
	expect("error.type", "*net.OpError");
	cr_assert_eq(span.status, SPAN_ERROR);
	cr_assert_null(span_attr(&span, "http.response.status_code"));
	expect("network.protocol.version", NULL);
	s.error = s.cause = NULL;
	decode_said(s);
	expect("error.type", "_OTHER");
}

Test(net_http_client, whatever_ran_into_a_deadline_is_a_timeout)
{
	static const char *const errors[][2] = {
		{ "context.deadlineExceededError", NULL },
		{ "*http.timeoutError", NULL },
		{ "*http.httpError", NULL },
		{ "http.tlsHandshakeTimeoutError", NULL },
		{ "*net.OpError", "*poll.DeadlineExceededError" },
		{ "*net.OpError", "*net.timeoutError" },
	};
	struct said s = plain;

	s.status = 0;
	s.bits = NET_HTTP_CLIENT_FAILED;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		s.error = errors[i][0];
		s.cause = errors[i][1];
		decode_said(s);
		expect("error.type", "timeout");
	}
}

Test(net_http_client, a_cancelled_call_is_no_error)
{
	static const char *const texts[] = {
		"context canceled", "net/http: request canceled",
		"net/http: request canceled while waiting for connection"
	};
	struct said s = plain;

	s.status = 0;
	s.error = "*errors.errorString";
	s.bits = NET_HTTP_CLIENT_FAILED | NET_HTTP_CLIENT_TEXT;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		s.cause = texts[i];
		decode_said(s);
		expect("error.type", NULL);
		cr_assert_eq(span.status, SPAN_UNSET);
	}
	s.bits |= NET_HTTP_CLIENT_CHANNEL; /* it is closed at the client's Timeout */
	decode_said(s);
	expect("error.type", "timeout");
	s.cause = texts[0];
	decode_said(s);
	expect("error.type", NULL);
	s.cause = "EOF";
	decode_said(s);
	expect("error.type", "*errors.errorString");
	s.bits = NET_HTTP_CLIENT_FAILED;
	s.error = "*net.OpError";
	s.cause = "net.canceledError";
	decode_said(s);
	expect("error.type", NULL);
	s.cause = "context canceled"; /* a type of that name there is not */
	decode_said(s);
	expect("error.type", "*net.OpError");
}

Test(net_http_client, redirects_count_and_sizes_are_an_option)
{
	struct said s = plain;

	s.resends = 3;
	s.sent = 5;
	s.received = -1;
	s.version = 20;
	privacy.body_sizes = true;
	decode_said(s);
	expect_int("http.request.resend_count", 3);
	expect_int("http.request.body.size", 5);
	cr_assert_null(span_attr(&span, "http.response.body.size"));
	expect("network.protocol.version", "2");
}

static void add_address(const uint8_t *ip, uint8_t n)
{
	build(&plain);
	memcpy((char *)&record + record.ev.ev.size, ip, n);
	record.ev.ev.size += n;
	record.ev.peer_len = n;
	record.ev.peer_port = 443;
}

Test(net_http_client, the_peer_is_an_address_and_a_port)
{
	static const uint8_t v4[] = { 192, 0, 2, 7 }, v6[16] = { 0x20, 0x01, 0xd, 0xb8, [15] = 1 };

	add_address(v4, sizeof(v4));
	cr_assert_eq(decode_record(), 0);
	expect("network.peer.address", "192.0.2.7");
	expect_int("network.peer.port", 443);
	add_address(v6, sizeof(v6));
	cr_assert_eq(decode_record(), 0);
	expect("network.peer.address", "2001:db8::1");
	add_address(v6, 7);
	cr_assert_eq(decode_record(), 0);
	cr_assert_null(span_attr(&span, "network.peer.address"));
	add_address(v4, sizeof(v4));
	record.ev.peer_len = 5;
	cr_assert_eq(decode_record(), -EBADMSG);
}

Test(net_http_client, what_an_exporter_sends_is_marked)
{
	struct said s = plain;

	decode_said(s);
	cr_assert_not(span.exports);
	s.bits = NET_HTTP_CLIENT_EXPORTS;
	decode_said(s);
	cr_assert(span.exports);
}

Test(net_http_client, lengths_that_exceed_the_record_are_refused)
{
	build(&plain);
	record.ev.query_len++;
	cr_assert_eq(decode_record(), -EBADMSG);
	build(&plain);
	record.ev.ev.kind = 1;
	cr_assert_eq(decode_record(), -EBADMSG);
	build(&plain);
	record.ev.ev.size = sizeof(record.ev) - 1;
	cr_assert_eq(decode_record(), -EBADMSG);
}

Test(net_http_client, a_full_arena_is_reported)
{
	cr_assert_neq(arena_get(&arena, (1 << 16) - 8), NULL);
	build(&plain);
	cr_assert_eq(decode_record(), -ENOSPC);
}
