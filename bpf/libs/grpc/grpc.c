/* grpc.c - what the agent must know of google.golang.org/grpc: functions, fields, parts, and what a
 * record means (semantic conventions 1.44, RPC). */
#include "bpf/libs/grpc/grpc.h"

#include "base/config.h"
#include "trace/http.h"
#include "trace/lib.h"
#include "trace/literals.h"
#include "trace/span.h"
#include "trace/text.h"
#include <stdio.h>

enum { SERVER, CLIENT, STATUS, HANDLER_STATUS, FINISH, FAILED, FIELDS, HEADERS, FRAME };

static const struct go_probe probes[] = {
	[SERVER] = { .name = "server begin",
		     .symbols = SYMBOLS("google.golang.org/grpc.(*Server).handleStream"),
		     .enter = "grpc_server" },
	[CLIENT] = { .name = "client begin",
		     .symbols = SYMBOLS("google.golang.org/grpc.(*clientStream).newAttemptLocked"),
		     .enter = "grpc_client" },
	[STATUS] = { .name = "server end",
		     .symbols = SYMBOLS(GRPC_T "(*http2Server).writeStatus", /* >= 1.69 */
					GRPC_T "(*http2Server).WriteStatus"),
		     .enter = "grpc_server_status" },
	[HANDLER_STATUS] = { .name = "server end over net/http",
			     .symbols = SYMBOLS(GRPC_T "(*serverHandlerTransport).writeStatus",
						GRPC_T "(*serverHandlerTransport).WriteStatus"),
			     .enter = "grpc_handler_status" },
	[FINISH] = { .name = "client end",
		     .symbols = SYMBOLS("google.golang.org/grpc.(*clientStream).finish"),
		     .enter = "grpc_client_finish" },
	[FAILED] = { .name = "client end without a stream",
		     .symbols = SYMBOLS("google.golang.org/grpc.(*clientStream).retryLocked"),
		     .leave = "grpc_client_failed",
		     .results = 2 },
	[FIELDS] = { .name = "client header fields",
		     .symbols = SYMBOLS(GRPC_T "(*http2Client).NewStream"),
		     .returned = "grpc_write_fields",
		     .callees = SYMBOLS(GRPC_T "(*http2Client).createHeaderFields"),
		     .kept = GO_RESULT(1) },
	[HEADERS] = { .name = "write header fields",
		      .symbols = SYMBOLS(GRPC_T "(*loopyWriter).writeHeader"),
		      .enter = "grpc_write_headers" },
	[FRAME] = { .name = "write headers frame",
		    .symbols = SYMBOLS("golang.org/x/net/http2.(*Framer).WriteHeaders"),
		    .enter = "grpc_write_frame" },
};

#define X(id, t, f) [F_##id] = { .type = (t), .field = (f) },
static const struct go_field fields[] = { GRPC_FIELDS(X) };
#undef X

#define P(probe)      (1u << (probe))
#define F(field)      (1ull << F_##field)
#define COMMON        (F(G_GOID) | F(STATUS_S) | F(CODE))
#define SERVER_FIELDS (COMMON | F(STREAM_CTX) | F(STREAM_METHOD))
#define CLIENT_FIELDS                                                                              \
	(COMMON | F(CS_SIZE) | F(CS_HDR) | F(CS_CTX) | F(CS_CC) | F(CS_DESC) | F(CS_ATTEMPT) |     \
	 F(CS_FIRST) | F(HDR_METHOD) | F(CC_TARGET) | F(DESC_SERVER_STREAMS) |                     \
	 F(DESC_CLIENT_STREAMS))

static const struct go_part parts[] = {
	{ .name = "server",
	  .probes = P(SERVER) | P(STATUS),
	  .fields = SERVER_FIELDS,
	  .lost = "no spans of gRPC calls that are served",
	  .serves = true },
	{ .name = "server over net/http",
	  .probes = P(SERVER) | P(HANDLER_STATUS),
	  .fields = SERVER_FIELDS | F(HANDLER_REQ),
	  .lost = "no spans of gRPC calls that Server.ServeHTTP serves",
	  .serves = true,
	  .asks = true },
	{ .name = "client",
	  .probes = P(CLIENT) | P(FINISH),
	  .fields = CLIENT_FIELDS,
	  .lost = "no spans of gRPC calls that are made",
	  .asks = true },
	{ .name = "client, calls without a connection",
	  .probes = P(CLIENT) | P(FINISH) | P(FAILED),
	  .fields = CLIENT_FIELDS,
	  .lost = "no spans of gRPC calls that found no connection" },
	{ .name = "client traceparent",
	  .probes = P(CLIENT) | P(FINISH) | P(FIELDS) | P(HEADERS) | P(FRAME),
	  .fields = CLIENT_FIELDS | F(LOOPY_FRAMER) | F(FRAMER_FR) | F(H2_FRAMER_W) | F(BUF_OFFSET),
	  .lost = "gRPC calls go out without a traceparent",
	  .feature = FEATURE_WRITE },
};

static const char *const code_names[] = {
	"OK",
	"CANCELLED",
	"UNKNOWN",
	"INVALID_ARGUMENT",
	"DEADLINE_EXCEEDED",
	"NOT_FOUND",
	"ALREADY_EXISTS",
	"PERMISSION_DENIED",
	"RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION",
	"ABORTED",
	"OUT_OF_RANGE",
	"UNIMPLEMENTED",
	"INTERNAL",
	"UNAVAILABLE",
	"DATA_LOSS",
	"UNAUTHENTICATED",
};

/* Codes that are the server's own failures; a client's call has failed with every one but OK. What
 * is none of the protocol's codes is an error. */
#define CODE(n) (1u << (n))
#define SERVER_ERRORS                                                                              \
	(CODE(2) /* UNKNOWN */ | CODE(4) /* DEADLINE_EXCEEDED */ | CODE(12) /* UNIMPLEMENTED */ |  \
	 CODE(13) /* INTERNAL */ | CODE(14) /* UNAVAILABLE */ | CODE(15) /* DATA_LOSS */)

/* The strings of a record, in the order in which they lie in it. */
struct strings {
	struct str peer, state, server, method;
};

static int split(const struct grpc_event *ev, const struct decode *with, struct strings *s)
{
	struct str rest = { (const char *)(ev + 1), ev->ev.size - sizeof(*ev) };
	int err;

	if (!text_take(&rest, ev->peer_len, &s->peer) ||
	    !text_take(&rest, ev->state_len, &s->state) ||
	    !text_take(&rest, ev->server_len, &s->server))
		return -EBADMSG;
	if (!(ev->bits & GRPC_LITERAL))
		return text_take(&rest, ev->method_len, &s->method) ? 0 : -EBADMSG;
	if (ev->method_len > GRPC_METHOD_MAX)
		return -EBADMSG;
	/* A literal that cannot be had is a span without its method. */
	err = literals_get(with->literals, with->arena, ev->method_at, ev->method_len, &s->method);
	return err == -ENOSPC ? err : 0;
}

static struct str after(struct str s, size_t n)
{
	return (struct str){ s.p + n, s.n - n };
}

static bool begins(struct str s, const char *with)
{
	size_t n = strlen(with);

	return s.n >= n && memcmp(s.p, with, n) == 0;
}

/* Where the scheme of "scheme:..." ends (RFC 3986, 3.1), the colon's place; 0: there is none, as
 * in "host:port", whose port is all digits. */
static size_t scheme_end(struct str s)
{
	size_t colon = 0, i;

	while (colon < s.n && s.p[colon] != ':')
		colon++;
	if (colon == 0 || colon + 1 >= s.n)
		return 0;
	for (i = 0; i < colon; i++)
		if (!((s.p[i] | 0x20) >= 'a' && (s.p[i] | 0x20) <= 'z') &&
		    (i == 0 || !strchr("0123456789+-.", s.p[i])))
			return 0;
	for (i = colon + 1; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
		continue;
	return i == s.n ? 0 : colon;
}

/* The target of a ClientConn (doc/naming.md of gRPC): host and port of dns and passthrough and of
 * a bare address; the path of a Unix socket; else the whole target and no port. */
static struct str target_address(struct str target, int *port)
{
	size_t colon = scheme_end(target), i;
	struct str rest = target, scheme = { target.p, colon };

	*port = -1;
	if (colon)
		rest = after(target, colon + 1);
	if (colon && (str_eq(scheme, "unix") || str_eq(scheme, "unix-abstract")))
		return begins(rest, "//") ? after(rest, 2) : rest;
	if (colon && !str_eq(scheme, "dns") && !str_eq(scheme, "passthrough"))
		return target;
	if (begins(rest, "//")) { /* the authority names a DNS server */
		for (i = 2; i < rest.n && rest.p[i] != '/'; i++)
			continue;
		if (i == rest.n)
			return target;
		rest = after(rest, i + 1);
	}
	rest = http_authority(rest, port);
	return rest.p ? rest : target;
}

static void add_port(struct span *span, const char *key, int port)
{
	if (port > 0)
		span_int(span, key, port);
}

static int add_addresses(struct span *span, const struct grpc_event *ev, const struct strings *s,
			 struct arena *arena)
{
	struct str address;
	int port, err;

	if (s->server.n) {
		address = ev->ev.kind == GRPC_OF_CLIENT ? target_address(s->server, &port)
							: http_authority(s->server, &port);
		span_str(span, "server.address", address);
		if (address.p)
			add_port(span, "server.port", port);
	}
	err = text_ip((struct str){ (const char *)ev->ip, ev->ip_len }, arena, &address);
	if (err)
		return err;
	port = ev->port;
	if (!address.n) {
		address = http_authority(s->peer, &port);
		if (port < 0) /* a Unix socket */
			return 0;
	}
	if (address.p) {
		span_str(span, "network.peer.address", address);
		add_port(span, "network.peer.port", port);
	}
	return 0;
}

static int add_status(struct span *span, const struct grpc_event *ev, struct arena *arena)
{
	bool error =
		ev->code >= ARRAY_SIZE(code_names) ||
		(ev->ev.kind == GRPC_OF_CLIENT ? ev->code != 0 : SERVER_ERRORS >> ev->code & 1);
	struct str name;
	char *text;

	if (ev->code < ARRAY_SIZE(code_names)) {
		name = str_of(code_names[ev->code]);
	} else {
		text = arena_get(arena, sizeof("4294967295"));
		if (!text)
			return -ENOSPC;
		(void)snprintf(text, sizeof("4294967295"), "%u", ev->code);
		name = str_of(text);
	}
	span_str(span, "rpc.response.status_code", name);
	if (!error)
		return 0;
	span->status = SPAN_ERROR;
	span_str(span, "error.type", name);
	return 0;
}

/* "/package.Service/Method" without the slash before it. */
static void add_method(struct span *span, const struct grpc_event *ev, struct str method)
{
	if (begins(method, "/"))
		method = after(method, 1);
	span->name = str_of("grpc");
	if (!method.n)
		return;
	if (ev->bits & GRPC_UNKNOWN) {
		span_str(span, "rpc.method", str_of("_OTHER"));
		span_str(span, "rpc.method_original", method);
		return;
	}
	span->name = method;
	span_str(span, "rpc.method", method);
}

static int decode(const struct event *head, const struct decode *with, struct span *span)
{
	const struct grpc_event *ev = (const void *)head;
	struct strings s = { 0 };
	int err;

	if (head->size < sizeof(*ev) || head->kind > GRPC_OF_CLIENT)
		return -EBADMSG;
	err = split(ev, with, &s);
	if (err)
		return err;
	if (text_clean(&s.peer, GRPC_PEER_MAX, with->arena) ||
	    text_clean(&s.server, GRPC_SERVER_MAX, with->arena) ||
	    text_clean(&s.method, GRPC_METHOD_MAX, with->arena))
		return -ENOSPC;
	span->kind = head->kind == GRPC_OF_CLIENT ? SPAN_CLIENT : SPAN_SERVER;
	span->tracestate = text_header(s.state);
	/* gRPC's own health checking protocol, whoever asks. */
	span->health = span->kind == SPAN_SERVER && begins(s.method, "/grpc.health.v1.Health/");
	span->exports =
		span->kind == SPAN_CLIENT && begins(s.method, "/opentelemetry.proto.collector.");
	span_str(span, "rpc.system.name", str_of("grpc"));
	add_method(span, ev, s.method);
	err = add_status(span, ev, with->arena);
	return err ? err : add_addresses(span, ev, &s, with->arena);
}

/* Semantic conventions 1.44, "RPC metrics"; the bounds are those that they advise. */
static const double seconds[] = { 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25,
				  0.5,   0.75, 1,     2.5,  5,     7.5, 10 };
static const struct lib_metric metrics[] = {
	{ .is = { .name = "rpc.server.call.duration",
		  .unit = "s",
		  .help = "Measures the duration of an incoming Remote Procedure Call (RPC).",
		  .kind = INSTRUMENT_HISTOGRAM,
		  .real = true },
	  .of = SPAN_SERVER,
	  .attrs = SYMBOLS("rpc.system.name", "rpc.method", "error.type",
			   "rpc.response.status_code"),
	  .bounds = seconds,
	  .nbounds = ARRAY_SIZE(seconds) },
	{ .is = { .name = "rpc.client.call.duration",
		  .unit = "s",
		  .help = "Measures the duration of an outgoing Remote Procedure Call (RPC).",
		  .kind = INSTRUMENT_HISTOGRAM,
		  .real = true },
	  .of = SPAN_CLIENT,
	  .attrs = SYMBOLS("rpc.system.name", "rpc.method", "error.type",
			   "rpc.response.status_code", "server.address", "server.port"),
	  .bounds = seconds,
	  .nbounds = ARRAY_SIZE(seconds) },
};

LIB_OBJECT(grpc)

static const struct lib grpc = {
	.name = "grpc",
	.scope = "spoor/google.golang.org/grpc",
	.probes = probes,
	.nprobes = ARRAY_SIZE(probes),
	.fields = fields,
	.nfields = ARRAY_SIZE(fields),
	.parts = parts,
	.nparts = ARRAY_SIZE(parts),
	.event_size = sizeof(struct grpc_event),
	.metrics = metrics,
	.nmetrics = ARRAY_SIZE(metrics),
	.object = grpc_object,
	.decode = decode,
};
LIB_REGISTER(grpc);
