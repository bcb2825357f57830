/* net_http_client.c - what the agent must know of net/http clients: functions, fields, parts, and
 * what a record means. */
#include "bpf/libs/net_http_client/net_http_client.h"

#include "base/config.h"
#include "trace/http.h"
#include "trace/lib.h"
#include "trace/span.h"
#include "trace/text.h"

enum {
	CALL,
	XNET_CALL,
	SEND,
	CONN_CALL,
	BUFFER,
	H2_CALL,
	H2_STREAM,
	H2_FRAME,
	XNET_H2_CALL,
	XNET_H2_STREAM,
	XNET_H2_FRAME,
	FAILED
};

static const struct go_probe probes[] = {
	[CALL] = { .name = "call",
		   .symbols = SYMBOLS("net/http.(*Transport).roundTrip"),
		   .enter = "net_http_client_begin",
		   .leave = "net_http_client_end",
		   .results = 3 },
	[XNET_CALL] = { .name = "call x/net http/2",
			.symbols = SYMBOLS("golang.org/x/net/http2.(*Transport).roundTripOpt",
					   "golang.org/x/net/http2.(*Transport).RoundTripOpt"),
			.enter = "net_http_client_xnet_begin",
			.leave = "net_http_client_end",
			.results = 3 },
	[SEND] = { .name = "send http/1",
		   .symbols = SYMBOLS("net/http.(*persistConn).roundTrip"),
		   .enter = "net_http_client_send" },
	[CONN_CALL] = { .name = "call on one connection",
			.symbols = SYMBOLS("net/http.(*ClientConn).RoundTrip"), /* Go >= 1.26 */
			.enter = "net_http_client_begin",
			.leave = "net_http_client_end",
			.results = 3 },
	[BUFFER] = { .name = "write headers http/1",
		     .symbols = SYMBOLS("net/http.(*transferWriter).writeHeader"),
		     .enter = "net_http_client_buffer" },
	[H2_CALL] = { .name = "send http/2",
		      .symbols = SYMBOLS(NET_HTTP_H2 "(*ClientConn).roundTrip",   /* Go >= 1.27 */
					 "net/http.(*http2ClientConn).roundTrip", /* >= 1.23 */
					 "net/http.(*http2ClientConn).RoundTrip"),
		      .enter = "net_http_client_h2_call" },
	[H2_STREAM] = { .name = "stream http/2",
			.symbols = SYMBOLS(NET_HTTP_H2 "(*clientStream).encodeAndWriteHeaders",
					   "net/http.(*http2clientStream).encodeAndWriteHeaders"),
			.enter = "net_http_client_h2_stream" },
	[H2_FRAME] = { .name = "write headers http/2",
		       .symbols = SYMBOLS(NET_HTTP_H2 "(*Framer).WriteHeaders",
					  "net/http.(*http2Framer).WriteHeaders"),
		       .enter = "net_http_client_h2_frame" },
	[XNET_H2_CALL] = { .name = "send x/net http/2",
			   .symbols = SYMBOLS("golang.org/x/net/http2.(*ClientConn).roundTrip",
					      "golang.org/x/net/http2.(*ClientConn).RoundTrip"),
			   .enter = "net_http_client_xnet_h2_call" },
	[XNET_H2_STREAM] = { .name = "stream x/net http/2",
			     .symbols = SYMBOLS("golang.org/x/net/"
						"http2.(*clientStream).encodeAndWriteHeaders"),
			     .enter = "net_http_client_xnet_h2_stream" },
	[XNET_H2_FRAME] = { .name = "write headers x/net http/2",
			    .symbols = SYMBOLS("golang.org/x/net/http2.(*Framer).WriteHeaders"),
			    .enter = "net_http_client_xnet_h2_frame" },
	/* Called where an attempt has failed, and then only. */
	[FAILED] = { .name = "attempt that failed",
		     .symbols = SYMBOLS("net/http.(*persistConn).shouldRetryRequest"),
		     .enter = "net_http_client_failed",
		     .leave = "net_http_client_again" },
};

#define X(id, t, f) [F_##id] = { .type = (t), .field = (f) },
static const struct go_field fields[] = { NET_HTTP_CLIENT_FIELDS(X) };
#undef X

#define P(probe) (1u << (probe))
#define F(field) (1ull << F_##field)
#define COMMON                                                                                     \
	(F(G_GOID) | F(REQ_SIZE) | F(REQ_METHOD) | F(REQ_URL) | F(REQ_HEADER) | F(REQ_LENGTH) |    \
	 F(REQ_BODY) | F(REQ_RESPONSE) | F(REQ_CTX) | F(RESP_SIZE) | F(RESP_STATUS) |              \
	 F(RESP_MAJOR) | F(RESP_MINOR) | F(RESP_LENGTH) | F(RESP_REQUEST) | F(URL_SIZE) |          \
	 F(URL_SCHEME) | F(URL_OPAQUE) | F(URL_USER) | F(URL_HOST) | F(URL_PATH) |                 \
	 F(URL_RAW_PATH) | F(URL_QUERY))

#define H2_CONN (F(H2_CC_FRAMER) | F(H2_CC_LIMIT) | F(H2_CS_CC) | F(H2_CS_ID) | F(H2_FRAMER_W))
#define XNET_CONN                                                                                  \
	(F(XNET_CC_FRAMER) | F(XNET_CC_LIMIT) | F(XNET_CS_CC) | F(XNET_CS_ID) | F(XNET_FRAMER_W))
#define BUFIO (F(BUFIO_ERR) | F(BUFIO_BUF) | F(BUFIO_N) | F(BUFIO_WR))

static const struct go_part parts[] = {
	{ .name = "client",
	  .probes = P(CALL),
	  .fields = COMMON,
	  .lost = "no spans of requests that the program sends by net/http",
	  .asks = true },
	{ .name = "client http/2 (golang.org/x/net)",
	  .probes = P(XNET_CALL),
	  .fields = COMMON | F(XNET_OWN),
	  .lost = "no spans of requests that the program sends by golang.org/x/net/http2",
	  .asks = true },
	{ .name = "client traceparent (http/1)",
	  .probes = P(CALL) | P(SEND),
	  .fields = COMMON | F(PCONN_CONN) | F(TREQ_REQUEST) | F(FD_LADDR) | F(FD_RADDR) |
		    F(ADDR_IP) | F(ADDR_PORT),
	  .lost = "requests go out without a traceparent",
	  .feature = FEATURE_PROPAGATION },
	{ .name = "client (ClientConn)",
	  .probes = P(CONN_CALL),
	  .fields = COMMON,
	  .lost = "no spans of requests that the program sends by net/http.ClientConn",
	  .asks = true },
	{ .name = "client traceparent (http/1, tls)",
	  .probes = P(CALL) | P(SEND) | P(BUFFER),
	  .fields = COMMON | BUFIO | F(PCONN_CONN) | F(PCONN_BW) | F(TREQ_REQUEST),
	  .lost = "requests over TLS go out without a traceparent",
	  .feature = FEATURE_WRITE },
	{ .name = "client traceparent (http/2)",
	  .probes = P(CALL) | P(H2_CALL) | P(H2_STREAM) | P(H2_FRAME),
	  .fields = COMMON | BUFIO | F(H2_REQ_HEADER) | H2_CONN,
	  .lost = "requests of HTTP/2 go out without a traceparent",
	  .feature = FEATURE_WRITE },
	{ .name = "client traceparent (http/2, golang.org/x/net)",
	  .probes = P(XNET_CALL) | P(XNET_H2_CALL) | P(XNET_H2_STREAM) | P(XNET_H2_FRAME),
	  .fields = COMMON | BUFIO | F(XNET_OWN) | XNET_CONN,
	  .lost = "requests of golang.org/x/net/http2 go out without a traceparent",
	  .feature = FEATURE_WRITE },
	{ .name = "client, attempts within a call",
	  .probes = P(CALL) | P(FAILED),
	  .fields = COMMON,
	  .lost = "what net/http sends again on another connection is one span with its first "
		  "attempt" },
	[NET_HTTP_CLIENT_PEER] = { .name = "client, address of the peer",
				   .probes = P(CALL),
				   .fields = COMMON | F(RESP_BODY) | F(BODY_FN) | F(PCONN_T) |
					     F(PCONN_CONN) | F(FD_RADDR) | F(ADDR_IP) |
					     F(ADDR_PORT),
				   .lost = "no network.peer.address" },
};

/* The strings of a record, in the order in which they lie in it. */
struct strings {
	struct str method, scheme, host, path, raw, query, error, cause, peer;
};

static bool split(const struct net_http_client_event *ev, struct strings *s)
{
	struct str rest = { (const char *)(ev + 1), ev->ev.size - sizeof(*ev) };

	return text_take(&rest, ev->method_len, &s->method) &&
	       text_take(&rest, ev->scheme_len, &s->scheme) &&
	       text_take(&rest, ev->host_len, &s->host) &&
	       text_take(&rest, ev->path_len, &s->path) && text_take(&rest, ev->raw_len, &s->raw) &&
	       text_take(&rest, ev->query_len, &s->query) &&
	       text_take(&rest, ev->error_len, &s->error) &&
	       text_take(&rest, ev->cause_len, &s->cause) &&
	       text_take(&rest, ev->peer_len, &s->peer);
}

static int clean_all(struct strings *s, const struct decode *with)
{
	s->path = text_cut(s->path, NET_HTTP_CLIENT_PATH_MAX);
	if (text_clean(&s->method, NET_HTTP_CLIENT_METHOD_MAX, with->arena) ||
	    text_clean(&s->scheme, NET_HTTP_CLIENT_SCHEME_MAX, with->arena) ||
	    text_clean(&s->host, NET_HTTP_CLIENT_HOST_MAX, with->arena) ||
	    text_clean(&s->query, NET_HTTP_CLIENT_QUERY_MAX, with->arena) ||
	    text_clean(&s->error, NET_HTTP_CLIENT_ERROR_MAX, with->arena))
		return -ENOSPC;
	if (!with->privacy->url_query)
		s->query = (struct str){ NULL, 0 };
	return s->query.n ? http_redact(&s->query, with->privacy->redact_query_keys, with->arena)
			  : 0;
}

static bool is_one_of(struct str s, const char *const *list)
{
	for (; *list; list++)
		if (str_eq(s, *list))
			return true;
	return false;
}

/* The Cancel channel was closed. */
static bool is_by_channel(const struct net_http_client_event *ev, const struct strings *s)
{
	static const char *const texts[] = {
		"net/http: request canceled",
		"net/http: request canceled while waiting for connection", NULL
	};

	return ev->bits & NET_HTTP_CLIENT_TEXT && is_one_of(s->cause, texts);
}

/* context.Canceled and what net/http and net make of it. */
static bool is_cancelled(const struct net_http_client_event *ev, const struct strings *s)
{
	if (is_by_channel(ev, s))
		return !(ev->bits & NET_HTTP_CLIENT_CHANNEL);
	if (ev->bits & NET_HTTP_CLIENT_TEXT)
		return str_eq(s->cause, "context canceled");
	return str_eq(s->error, "net.canceledError") || str_eq(s->cause, "net.canceledError");
}

/* Types whose Timeout() is always true; and http.Client's own. */
static bool is_timeout(const struct net_http_client_event *ev, const struct strings *s)
{
	static const char *const types[] = { "context.deadlineExceededError",
					     "*poll.DeadlineExceededError",
					     "*net.timeoutError",
					     "*http.httpError",
					     "*http.timeoutError",
					     "*http.http2httpError",
					     "*http2.httpError",
					     "*http2.timeoutError",
					     "http.tlsHandshakeTimeoutError",
					     NULL };

	if (is_by_channel(ev, s))
		return ev->bits & NET_HTTP_CLIENT_CHANNEL;
	return is_one_of(s->error, types) ||
	       (!(ev->bits & NET_HTTP_CLIENT_TEXT) && is_one_of(s->cause, types));
}

static void add_result(struct span *span, const struct net_http_client_event *ev,
		       const struct strings *s)
{
	struct str error = { NULL, 0 };
	const char *text = http_status_error(ev->status);

	if (ev->status >= 100 && ev->status <= 999)
		span_int(span, "http.response.status_code", ev->status);
	if (text)
		error = str_of(text);
	if (ev->bits & NET_HTTP_CLIENT_FAILED && !is_cancelled(ev, s))
		error = is_timeout(ev, s) ? str_of("timeout")
			: s->error.n      ? s->error
					  : str_of("_OTHER");
	if (!error.n)
		return;
	span_str(span, "error.type", error);
	span->status = SPAN_ERROR;
}

static int add_url(struct span *span, const struct net_http_client_event *ev, struct strings *s,
		   struct arena *arena)
{
	struct http_url url = { .scheme = s->scheme,
				.host = s->host,
				.path = s->path,
				.raw_path = s->raw,
				.query = s->query,
				.user = ev->bits & NET_HTTP_CLIENT_USER,
				.opaque = ev->bits & NET_HTTP_CLIENT_OPAQUE };
	struct str full, address;
	int port, err;

	err = http_url_full(&full, &url, arena);
	if (!err)
		err = text_utf8(&full, arena);
	if (err)
		return err;
	span_str(span, "url.full", full);
	address = http_authority(s->host, &port);
	if (!address.p)
		return 0;
	span_str(span, "server.address", address);
	if (port <= 0)
		port = str_eq(s->scheme, "https") ? 443 : str_eq(s->scheme, "http") ? 80 : 0;
	if (port)
		span_int(span, "server.port", port);
	return 0;
}

static int add_peer(struct span *span, const struct net_http_client_event *ev, struct str ip,
		    struct arena *arena)
{
	struct str text;
	int err = text_ip(ip, arena, &text);

	if (err || !text.n)
		return err;
	span_str(span, "network.peer.address", text);
	if (ev->peer_port)
		span_int(span, "network.peer.port", ev->peer_port);
	return 0;
}

static int decode(const struct event *head, const struct decode *with, struct span *span)
{
	const struct net_http_client_event *ev = (const void *)head;
	struct strings s;
	int err;

	if (head->size < sizeof(*ev) || head->kind != 0 || !split(ev, &s))
		return -EBADMSG;
	span->cut = s.path.n >= NET_HTTP_CLIENT_PATH_MAX || s.query.n >= NET_HTTP_CLIENT_QUERY_MAX;
	err = clean_all(&s, with);
	if (err)
		return err;
	if (!s.method.n)
		s.method = str_of("GET"); /* net/http.Request.Method */
	span->kind = SPAN_CLIENT;
	span->name = http_method(span, s.method, with->privacy->known_methods);
	err = add_url(span, ev, &s, with->arena);
	if (!err)
		err = add_peer(span, ev, s.peer, with->arena);
	if (err)
		return err;
	add_result(span, ev, &s);
	span->exports = ev->bits & NET_HTTP_CLIENT_EXPORTS;
	if (ev->status)
		span_str(span, "network.protocol.version", http_version(ev->version));
	if (ev->resends)
		span_int(span, "http.request.resend_count", ev->resends);
	if (with->privacy->body_sizes) {
		if (ev->request_size >= 0)
			span_int(span, "http.request.body.size", ev->request_size);
		if (ev->response_size >= 0)
			span_int(span, "http.response.body.size", ev->response_size);
	}
	return 0;
}

/* Semantic conventions 1.44, "HTTP metrics". */
static const struct lib_metric metrics[] = {
	{ .is = { .name = "http.client.request.duration",
		  .unit = "s",
		  .help = "Duration of HTTP client requests.",
		  .kind = INSTRUMENT_HISTOGRAM,
		  .real = true },
	  .of = SPAN_CLIENT,
	  .attrs = SYMBOLS("http.request.method", "server.address", "server.port", "error.type",
			   "http.response.status_code", "network.protocol.version"),
	  HTTP_SECONDS },
	{ .is = { .name = "http.client.request.body.size",
		  .unit = "By",
		  .help = "Size of HTTP client request bodies.",
		  .kind = INSTRUMENT_HISTOGRAM },
	  .of = SPAN_CLIENT,
	  .value = "http.request.body.size",
	  .attrs = SYMBOLS("http.request.method", "server.address", "server.port", "error.type",
			   "http.response.status_code", "network.protocol.version"),
	  HTTP_BYTES },
	{ .is = { .name = "http.client.response.body.size",
		  .unit = "By",
		  .help = "Size of HTTP client response bodies.",
		  .kind = INSTRUMENT_HISTOGRAM },
	  .of = SPAN_CLIENT,
	  .value = "http.response.body.size",
	  .attrs = SYMBOLS("http.request.method", "server.address", "server.port", "error.type",
			   "http.response.status_code", "network.protocol.version"),
	  HTTP_BYTES },
};

LIB_OBJECT(net_http_client)

static const struct lib net_http_client = {
	.name = "net_http_client",
	.scope = "spoor/net/http/client",
	.probes = probes,
	.nprobes = ARRAY_SIZE(probes),
	.fields = fields,
	.nfields = ARRAY_SIZE(fields),
	.alone = H2_CONN | XNET_CONN | F(PCONN_BW) | F(PCONN_CONN),
	.parts = parts,
	.nparts = ARRAY_SIZE(parts),
	.event_size = sizeof(struct net_http_client_event),
	.metrics = metrics,
	.nmetrics = ARRAY_SIZE(metrics),
	.at_start = true,
	.object = net_http_client_object,
	.decode = decode,
};
LIB_REGISTER(net_http_client);
