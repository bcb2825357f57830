#include "bpf/libs/grpc/grpc.h"

#define LIBRARY     "grpc"
#define RECORD      struct grpc_event
#define RECORD_DATA GRPC_DATA_MAX
#include "decode_rig.h"

/* What a record says; text is written into it in order. */
struct said {
	const char *peer, *state, *server, *method;
	uint16_t kind;
	uint8_t flags, bits;
	uint32_t code;
	uint8_t ip_len, ip[16];
	uint16_t port;
};

static const struct said served = { .server = "shop.example:443",
				    .method = "/shop.v1.Cart/Add",
				    .flags = EVENT_SAMPLED,
				    .ip_len = 4,
				    .ip = { 10, 1, 2, 3 },
				    .port = 4567 };

TestSuite(grpc, .init = set_up, .fini = tear_down);

static void build(const struct said *s)
{
	struct grpc_event *ev = &record.ev;
	size_t at = sizeof(*ev);

	memset(&record, 0, sizeof(record));
	ev->ev.kind = s->kind;
	ev->ev.flags = s->flags;
	ev->code = s->code;
	ev->bits = s->bits;
	ev->port = s->port;
	ev->ip_len = s->ip_len;
	memcpy(ev->ip, s->ip, sizeof(ev->ip));
	ev->peer_len = (uint8_t)put(s->peer, &at);
	ev->state_len = (uint16_t)put(s->state, &at);
	ev->server_len = (uint16_t)put(s->server, &at);
	ev->method_len = (uint16_t)put(s->method, &at);
	ev->ev.size = (uint32_t)at;
}

static int decode(const struct said *s)
{
	build(s);
	return decode_record();
}

static const char *text(const char *key)
{
	static char buf[8][300];
	static unsigned next;
	const struct attr *a = span_attr(&span, key);
	char *to = buf[next++ % 8];

	if (!a)
		return "";
	cr_assert_eq(a->type, ATTR_STR);
	(void)snprintf(to, sizeof(buf[0]), "%.*s", (int)a->s.n, a->s.p);
	return to;
}

static int64_t number(const char *key)
{
	const struct attr *a = span_attr(&span, key);

	return a ? a->i : -1;
}

Test(grpc, a_served_call_has_method_status_server_and_peer)
{
	struct said s = served;

	s.state = "a=b";
	cr_assert_eq(decode(&s), 0);
	cr_assert_eq(span.kind, SPAN_SERVER);
	cr_assert_eq(span.status, SPAN_UNSET);
	cr_assert(str_eq(span.name, "shop.v1.Cart/Add"));
	cr_assert(str_eq(span.tracestate, "a=b"));
	cr_assert_str_eq(text("rpc.system.name"), "grpc");
	cr_assert_str_eq(text("rpc.method"), "shop.v1.Cart/Add");
	cr_assert_str_eq(text("rpc.response.status_code"), "OK");
	cr_assert_str_eq(text("server.address"), "shop.example");
	cr_assert_eq(number("server.port"), 443);
	cr_assert_str_eq(text("network.peer.address"), "10.1.2.3");
	cr_assert_eq(number("network.peer.port"), 4567);
	cr_assert_eq(span_attr(&span, "error.type"), NULL);
}

Test(grpc, a_server_has_failed_by_six_codes_and_a_client_by_all_but_ok)
{
	struct said s = served;

	for (s.kind = GRPC_OF_SERVER; s.kind <= GRPC_OF_CLIENT; s.kind++) {
		for (s.code = 0; s.code <= 17; s.code++) {
			bool six = s.code == 2 || s.code == 4 || s.code >= 12;
			bool failed = s.kind == GRPC_OF_CLIENT ? s.code > 0 : six && s.code != 16;

			cr_assert_eq(decode(&s), 0);
			cr_assert_eq(span.status, failed ? SPAN_ERROR : SPAN_UNSET, "%d %u", s.kind,
				     s.code);
			cr_assert_str_eq(text("error.type"),
					 failed ? text("rpc.response.status_code") : "");
		}
	}
	cr_assert_str_eq(text("rpc.response.status_code"), "17", "no code of the protocol");
}

Test(grpc, codes_have_the_names_of_the_protocol)
{
	static const char *const names[] = { [1] = "CANCELLED",
					     [4] = "DEADLINE_EXCEEDED",
					     [8] = "RESOURCE_EXHAUSTED",
					     [14] = "UNAVAILABLE",
					     [16] = "UNAUTHENTICATED" };
	struct said s = served;

	for (s.code = 0; s.code < ARRAY_SIZE(names); s.code++) {
		if (!names[s.code])
			continue;
		cr_assert_eq(decode(&s), 0);
		cr_assert_str_eq(text("rpc.response.status_code"), names[s.code]);
	}
}

Test(grpc, a_method_that_the_server_does_not_have_names_no_span)
{
	struct said s = served;

	s.bits = GRPC_UNKNOWN;
	s.code = 12;
	cr_assert_eq(decode(&s), 0);
	cr_assert(str_eq(span.name, "grpc"));
	cr_assert_str_eq(text("rpc.method"), "_OTHER");
	cr_assert_str_eq(text("rpc.method_original"), "shop.v1.Cart/Add");
	s.bits = 0;
	s.method = "";
	cr_assert_eq(decode(&s), 0);
	cr_assert(str_eq(span.name, "grpc"), "a method that could not be read");
	cr_assert_eq(span_attr(&span, "rpc.method"), NULL);
}

Test(grpc, the_address_is_that_of_the_target_as_gRPC_reads_it)
{
	static const struct {
		const char *target, *address;
		int port;
	} cases[] = {
		{ "shop:50051", "shop", 50051 },
		{ "shop", "shop", -1 },
		{ "10.1.2.3:80", "10.1.2.3", 80 },
		{ "[::1]:50051", "::1", 50051 },
		{ "dns:///shop.svc:50051", "shop.svc", 50051 },
		{ "dns:shop.svc:50051", "shop.svc", 50051 },
		{ "dns://8.8.8.8/shop.svc:50051", "shop.svc", 50051 },
		{ "dns:///[2001:db8::1]:443", "2001:db8::1", 443 },
		{ "passthrough:///shop:1", "shop", 1 },
		{ "passthrough:///bufnet", "bufnet", -1 },
		{ "unix:///run/shop.sock", "/run/shop.sock", -1 },
		{ "unix:shop.sock", "shop.sock", -1 },
		{ "unix-abstract:shop", "shop", -1 },
		{ "xds:///shop", "xds:///shop", -1 },
		{ "ipv4:1.2.3.4:5,5.6.7.8:9", "ipv4:1.2.3.4:5,5.6.7.8:9", -1 },
		{ "dns://", "dns://", -1 },
		{ ":", ":", -1 },
	};
	struct said s = { .kind = GRPC_OF_CLIENT, .flags = EVENT_SAMPLED, .method = "/a/b" };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		s.server = cases[i].target;
		cr_assert_eq(decode(&s), 0);
		cr_assert_str_eq(text("server.address"), cases[i].address, "%s is %s", s.server,
				 text("server.address"));
		cr_assert_eq(number("server.port"), cases[i].port, "%s", s.server);
	}
}

Test(grpc, addresses_of_peers_are_ip_of_either_kind_or_text)
{
	struct said s = served;

	s.ip_len = 16;
	memcpy(s.ip, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
	cr_assert_eq(decode(&s), 0);
	cr_assert_str_eq(text("network.peer.address"), "127.0.0.1", "IPv4 in sixteen bytes");
	memcpy(s.ip, "\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	cr_assert_eq(decode(&s), 0);
	cr_assert_str_eq(text("network.peer.address"), "2001:db8::1");
	s.ip_len = 0;
	s.peer = "[::1]:99";
	cr_assert_eq(decode(&s), 0);
	cr_assert_str_eq(text("network.peer.address"), "::1");
	cr_assert_eq(number("network.peer.port"), 99);
	s.peer = "@";
	cr_assert_eq(decode(&s), 0);
	cr_assert_eq(span_attr(&span, "network.peer.address"), NULL, "a Unix socket");
}

Test(grpc, health_checks_are_told_from_calls)
{
	struct said s = served;

	s.method = "/grpc.health.v1.Health/Check";
	cr_assert_eq(decode(&s), 0);
	cr_assert(span.health);
	s.kind = GRPC_OF_CLIENT;
	cr_assert_eq(decode(&s), 0);
	cr_assert_not(span.health, "who asks for another's health has made a call");
}

Test(grpc, lengths_that_do_not_add_up_are_refused)
{
	const uint16_t step = 1;

	build(&served);
	record.ev.method_len += step;
	cr_assert_eq(decode_record(), -EBADMSG);
	build(&served);
	record.ev.ev.kind = 2;
	cr_assert_eq(decode_record(), -EBADMSG);
	build(&served);
	record.ev.ev.size = sizeof(struct grpc_event) - 1;
	cr_assert_eq(decode_record(), -EBADMSG);
	build(&served);
	record.ev.bits = GRPC_LITERAL;
	record.ev.method_len = GRPC_METHOD_MAX + 1;
	cr_assert_eq(decode_record(), -EBADMSG);
}

Test(grpc, bytes_that_are_no_text_become_text)
{
	struct said s = served;

	s.method = "/a\xff/b";
	s.server = "h\xc3";
	s.state = "a=\x01";
	cr_assert_eq(decode(&s), 0);
	cr_assert_str_eq(text("rpc.method"), "a\xef\xbf\xbd/b");
	cr_assert_eq(span.tracestate.n, 0, "what no header may hold is not handed on");
}

Test(grpc, a_full_arena_is_told)
{
	struct said s = served;

	s.code = 99;
	while (arena_get(&arena, 8))
		continue;
	cr_assert_eq(decode(&s), -ENOSPC);
}
