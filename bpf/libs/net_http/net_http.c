/* net_http.c - what the agent must know of net/http servers: functions, fields, parts, and what a
 * record means. */
#include "bpf/libs/net_http/net_http.h"

#include "base/config.h"
#include "trace/http.h"
#include "trace/lib.h"
#include "trace/literals.h"
#include "trace/route.h"
#include "trace/span.h"
#include "trace/text.h"

enum { BEGIN, END, CONN_END, HIJACK, H2_END, XNET_BEGIN, XNET_END, WRAP_BEGIN, MUX };

static const struct go_probe probes[] = {
	[BEGIN] = { .name = "begin",
		    .symbols = SYMBOLS("net/http.serverHandler.ServeHTTP"),
		    .enter = "net_http_begin" },
	[END] = { .name = "end http/1",
		  .symbols = SYMBOLS("net/http.(*response).finishRequest"),
		  .enter = "net_http_end" },
	[CONN_END] = { .name = "end of connection",
		       .symbols = SYMBOLS("net/http.(*conn).serve.func1"),
		       .enter = "net_http_conn_end" },
	[HIJACK] = { .name = "hijack",
		     .symbols = SYMBOLS("net/http.(*response).Hijack"),
		     .enter = "net_http_hijack" },
	[H2_END] = { .name = "end http/2",
		     .symbols = SYMBOLS(
			     "net/http/internal/http2.(*serverConn).runHandler.func1", /* Go >= 1.27
											*/
			     "net/http.(*http2serverConn).runHandler.func1"),
		     .enter = "net_http_h2_end" },
	[XNET_BEGIN] = { .name = "begin x/net http/2",
			 .symbols = SYMBOLS("golang.org/x/net/http2.(*serverConn).runHandler"),
			 .enter = "net_http_xnet_begin" },
	[XNET_END] = { .name = "end x/net http/2",
		       .symbols = SYMBOLS("golang.org/x/net/http2.(*serverConn).runHandler.func1"),
		       .enter = "net_http_h2_end" },
	[WRAP_BEGIN] = { .name = "begin x/net over net/http",
			 .symbols = SYMBOLS("net/http.http2Handler.ServeHTTP"),
			 .enter = "net_http_wrap_begin" },
	[MUX] = { .name = "route behind a copy of the request",
		  .symbols = SYMBOLS("net/http.(*ServeMux).ServeHTTP"),
		  .returned = "net_http_mux",
		  .callees = SYMBOLS("net/http.(*ServeMux).findHandler"), /* Go >= 1.22 */
		  .kept = GO_RESULT(3) | GO_RESULT(4) | GO_RESULT(5),
		  .trial = true },
};

#define X(id, t, f) [F_##id] = { .type = (t), .field = (f) },
static const struct go_field fields[] = { NET_HTTP_FIELDS(X) };
#undef X

#define P(probe) (1u << (probe))
#define F(field) (1ull << F_##field)
#define COMMON   (F(G_GOID) | F(G_PANIC) | F(PANIC_ARG))
#define REQUEST(p)                                                                                 \
	(F(p##_SIZE) | F(p##_METHOD) | F(p##_URL) | F(p##_HEADER) | F(p##_HOST) | F(p##_REMOTE) |  \
	 F(p##_URI) | F(p##_LENGTH) | F(p##_TLS))
#define H2(p)                                                                                      \
	(F(p##_WRITER_STATE) | F(p##_SIZE) | F(p##_REQ) | F(p##_STATUS) | F(p##_SENT) |            \
	 F(p##_WRITTEN))

static const struct go_part parts[] = {
	{ .name = "server http/1",
	  .probes = P(BEGIN) | P(END) | P(CONN_END),
	  .fields = COMMON | REQUEST(REQ) | F(REQ_CTX) | F(REQ_MAJOR) | F(REQ_MINOR) |
		    F(RESP_SIZE) | F(RESP_REQ) | F(RESP_STATUS) | F(RESP_WRITTEN) |
		    F(RESP_WROTE_HEADER) | F(RESP_CW) | F(CW_WROTE_HEADER),
	  .lost = "no spans of HTTP/1 requests",
	  .serves = true },
	{ .name = "server http/1 hijack",
	  .probes = P(HIJACK) | P(CONN_END),
	  .fields = COMMON | F(RESP_SIZE) | F(RESP_WROTE_HEADER),
	  .lost = "spans of hijacked connections end when the handler returns" },
	{ .name = "server http/2 (net/http)",
	  .probes = P(BEGIN) | P(H2_END),
	  .fields = COMMON | REQUEST(REQ) | F(REQ_CTX) | F(REQ_MAJOR) | REQUEST(H2REQ) | H2(H2),
	  .lost = "no spans of HTTP/2 requests",
	  .serves = true },
	{ .name = "server http/2 (golang.org/x/net)",
	  .probes = P(XNET_BEGIN) | P(XNET_END),
	  .fields = COMMON | REQUEST(REQ) | F(REQ_CTX) | H2(XNET),
	  .lost = "no spans of HTTP/2 requests that golang.org/x/net/http2 serves (h2c)",
	  .serves = true },
	{ .name = "server http/2 (golang.org/x/net over net/http)",
	  .probes = P(WRAP_BEGIN) | P(H2_END),
	  .fields = COMMON | REQUEST(REQ) | REQUEST(H2REQ) | F(H2REQ_CTX) | F(H2REQ_BY_VALUE) |
		    H2(H2) | F(XNET_WRAPS),
	  .lost = "no spans of HTTP/2 requests that golang.org/x/net/http2 hands to net/http (h2c, "
		  "Go 1.27 and later)",
	  .serves = true },
	{ .name = "routes behind a copy of the request",
	  .probes = P(BEGIN) | P(MUX),
	  .fields = COMMON | REQUEST(REQ) | F(URL_PATH),
	  .lost = "no routes where a middleware hands a copy of the request to a ServeMux" },
};

/* The strings of a record, in the order in which they lie in it. */
struct strings {
	struct str remote, agent, state, method, target, host, pattern;
	struct route_step muxes[NET_HTTP_MUXES_MAX];
	size_t nmuxes;
};

/* The patterns of the muxes: their list ends the record, their texts begin *rest. */
static int split_muxes(const struct net_http_event *ev, const struct decode *with, struct str *rest,
		       struct strings *s)
{
	struct net_http_mux list[NET_HTTP_MUXES_MAX] = { 0 };
	size_t size = ev->nmuxes * sizeof(list[0]);

	if (ev->nmuxes > NET_HTTP_MUXES_MAX || size > rest->n)
		return -EBADMSG;
	rest->n -= size;
	if (size)
		memcpy(list, rest->p + rest->n, size);
	for (size_t i = 0; i < ev->nmuxes; i++) {
		struct route_step *step = &s->muxes[i];
		uint16_t len = list[i].len & (uint16_t)~NET_HTTP_MUX_LITERAL;
		int err;

		*step = (struct route_step){ .path_len = list[i].path_len == NET_HTTP_MUX_SAME
								 ? ROUTE_SAME
								 : list[i].path_len };
		if (len > NET_HTTP_PATTERN_MAX)
			return -EBADMSG;
		if (!(list[i].len & NET_HTTP_MUX_LITERAL)) {
			if (!text_take(rest, len, &step->pattern))
				return -EBADMSG;
			continue;
		}
		err = literals_get(with->literals, with->arena, list[i].at, len, &step->pattern);
		if (err == -ENOSPC)
			return err;
	}
	s->nmuxes = ev->nmuxes;
	return 0;
}

static int split(const struct net_http_event *ev, const struct decode *with, struct strings *s)
{
	struct str rest = { (const char *)(ev + 1), ev->ev.size - sizeof(*ev) }, skip;
	int err;

	if (!text_take(&rest, ev->remote_len, &s->remote) ||
	    !text_take(&rest, ev->agent_len, &s->agent) ||
	    !text_take(&rest, ev->state_len, &s->state))
		return -EBADMSG;
	err = split_muxes(ev, with, &rest, s);
	if (err)
		return err;
	if (!text_take(&rest, ev->method_len, &s->method) ||
	    !text_take(&rest, ev->bits & NET_HTTP_JOINED ? 1 : 0, &skip) ||
	    !text_take(&rest, ev->target_len, &s->target) ||
	    !text_take(&rest, ev->host_len, &s->host))
		return -EBADMSG;
	if (!(ev->bits & NET_HTTP_LITERAL))
		return text_take(&rest, ev->pattern_len, &s->pattern) ? 0 : -EBADMSG;
	if (ev->pattern_len > NET_HTTP_PATTERN_MAX)
		return -EBADMSG;
	/* A literal that cannot be had is a span without its route. */
	err = literals_get(with->literals, with->arena, ev->pattern_at, ev->pattern_len,
			   &s->pattern);
	return err == -ENOSPC ? err : 0;
}

static int clean_all(struct strings *s, struct str *path, struct str *query, struct arena *arena)
{
	if (text_clean(path, HTTP_PATH_MAX, arena) || text_clean(query, HTTP_QUERY_MAX, arena) ||
	    text_clean(&s->agent, NET_HTTP_AGENT_MAX, arena) ||
	    text_clean(&s->method, NET_HTTP_METHOD_MAX, arena) ||
	    text_clean(&s->host, NET_HTTP_HOST_MAX, arena) ||
	    text_clean(&s->pattern, NET_HTTP_PATTERN_MAX, arena) ||
	    text_clean(&s->remote, NET_HTTP_REMOTE_MAX, arena))
		return -ENOSPC;
	return 0;
}

/* The kubelet says who it is. Other probers (sidecars, load balancers) ask for the paths that the
 * pod declares; "/" is too much everybody's. */
static bool is_health_probe(const struct strings *s, struct str path, const struct decode *with)
{
	/* The kubelet's; and what Prometheus, VictoriaMetrics and Grafana's agents scrape with. */
	static const char *const agents[] = { "kube-probe/", "Prometheus/", "vm_promscrape",
					      "GrafanaAgent/", "Alloy/" };

	for (size_t i = 0; i < ARRAY_SIZE(agents); i++)
		if (s->agent.n >= strlen(agents[i]) &&
		    memcmp(s->agent.p, agents[i], strlen(agents[i])) == 0)
			return true;
	if (!str_eq(s->method, "GET") || path.n < 2)
		return false;
	for (size_t i = 0; i < with->nprobe_paths; i++)
		if (with->probe_paths[i].n == path.n &&
		    memcmp(with->probe_paths[i].p, path.p, path.n) == 0)
			return true;
	return false;
}

/* Opt-in in the conventions. A response to HEAD counts what the handler wrote, but nothing of it is
 * sent. */
static void add_sizes(struct span *span, const struct net_http_event *ev, struct str method)
{
	if (ev->request_size >= 0)
		span_int(span, "http.request.body.size", ev->request_size);
	if (ev->response_size >= 0 && !(ev->bits & NET_HTTP_HIJACKED) &&
	    !(ev->ev.flags & EVENT_PANICKED))
		span_int(span, "http.response.body.size",
			 str_eq(method, "HEAD") ? 0 : ev->response_size);
}

static void add_addresses(struct span *span, const struct strings *s, bool tls)
{
	struct str address;
	int port;

	address = http_authority(s->host, &port);
	if (address.p) {
		span_str(span, "server.address", address);
		span_int(span, "server.port", port > 0 ? port : tls ? 443 : 80);
	}
	address = http_authority(s->remote, &port);
	if (address.p && port >= 0) { /* else a Unix socket */
		span_str(span, "network.peer.address", address);
		span_int(span, "network.peer.port", port);
		span_str(span, "client.address", address);
	}
}

static void add_result(struct span *span, const struct net_http_event *ev)
{
	const char *error = NULL;

	if (ev->status >= 100 && ev->status <= 999)
		span_int(span, "http.response.status_code", ev->status);
	if (ev->ev.flags & EVENT_PANICKED)
		error = ev->bits & NET_HTTP_ABORTED ? "aborted" : "panic";
	else if (ev->status >= 500)
		error = http_status_error(ev->status);
	if (!error)
		return;
	span_str(span, "error.type", str_of(error));
	span->status = SPAN_ERROR;
}

static int name_span(struct span *span, struct str method, struct str route, struct arena *arena)
{
	char *name;

	span->name = method;
	if (!route.n)
		return 0;
	name = arena_get(arena, method.n + 1 + route.n);
	if (!name)
		return -ENOSPC;
	memcpy(name, method.p, method.n);
	name[method.n] = ' ';
	memcpy(name + method.n + 1, route.p, route.n);
	span->name = (struct str){ name, method.n + 1 + route.n };
	return 0;
}

/* Whether a pattern may stand for one of a mux inside: it ends in "/" or "{name...}". */
static bool is_open(struct str pattern)
{
	return pattern.n && (pattern.p[pattern.n - 1] == '/' ||
			     (pattern.n > 4 && memcmp(pattern.p + pattern.n - 4, "...}", 4) == 0));
}

/* What the probe that looks at muxes is worth for this request. */
static enum span_trial judge_trial(const struct net_http_event *ev, struct str own, bool gained)
{
	bool unrouted = (ev->status >= 300 && ev->status < 400) || ev->status == 404 ||
			ev->status == 405 || !ev->status;

	if (gained)
		return TRIAL_GAINED;
	if (ev->bits & NET_HTTP_MUX)
		return TRIAL_IDLE;
	return own.n ? (is_open(own) ? TRIAL_MISSED : TRIAL_NONE)
		     : (unrouted ? TRIAL_NONE : TRIAL_MISSED);
}

/* The route: what the muxes found one inside the other, else what the server's own request says,
 * else what the outermost one found. */
static int find_route(const struct net_http_event *ev, const struct strings *s, struct str path,
		      struct arena *arena, struct span *span, struct str *out)
{
	struct str own = http_route(s->pattern), route = { NULL, 0 };

	if (s->nmuxes > 1 && route_join(s->muxes, s->nmuxes, path, arena, &route))
		return -ENOSPC;
	if (!route.n)
		route = own.n || !s->nmuxes ? own : http_route(s->muxes[0].pattern);
	route = text_cut(route, NET_HTTP_PATTERN_MAX);
	if (text_utf8(&route, arena))
		return -ENOSPC;
	span->trial = judge_trial(ev, own, s->nmuxes && route.n && !str_same(route, own));
	*out = route;
	return 0;
}

static int decode(const struct event *head, const struct decode *with, struct span *span)
{
	const struct net_http_event *ev = (const void *)head;
	struct str path, query, whole, route = { NULL, 0 }, method;
	struct strings s = { 0 };
	int err;

	if (head->size < sizeof(*ev) || head->kind != 0)
		return -EBADMSG;
	err = split(ev, with, &s);
	if (err)
		return err;
	http_target(s.target, &path, &query);
	whole = path;
	if (s.target.n >= NET_HTTP_TARGET_MAX)
		whole.n = 0;
	span->cut = path.n > HTTP_PATH_MAX || query.n > HTTP_QUERY_MAX;
	err = clean_all(&s, &path, &query, with->arena);
	if (!err && query.n && with->privacy->url_query)
		err = http_redact(&query, with->privacy->redact_query_keys, with->arena);
	if (err)
		return err;
	span->kind = SPAN_SERVER;
	span->tracestate = text_header(s.state);
	span->health = is_health_probe(&s, path, with);
	if (!with->privacy->no_routes && find_route(ev, &s, whole, with->arena, span, &route))
		return -ENOSPC;
	method = http_method(span, s.method, with->privacy->known_methods);
	span_str(span, "url.path", path);
	if (query.n && with->privacy->url_query)
		span_str(span, "url.query", query);
	span_str(span, "url.scheme", str_of(ev->bits & NET_HTTP_TLS ? "https" : "http"));
	span_str(span, "http.route", route);
	add_result(span, ev);
	add_addresses(span, &s, ev->bits & NET_HTTP_TLS);
	span_str(span, "network.protocol.version", http_version(ev->version));
	if (s.agent.n)
		span_str(span, "user_agent.original", s.agent);
	if (with->privacy->body_sizes)
		add_sizes(span, ev, s.method);
	return name_span(span, method, route, with->arena);
}

/* Semantic conventions 1.44, "HTTP metrics". */
static const struct lib_metric metrics[] = {
	{ .is = { .name = "http.server.request.duration",
		  .unit = "s",
		  .help = "Duration of HTTP server requests.",
		  .kind = INSTRUMENT_HISTOGRAM,
		  .real = true },
	  .of = SPAN_SERVER,
	  .attrs = SYMBOLS("http.request.method", "url.scheme", "error.type",
			   "http.response.status_code", "http.route", "network.protocol.version"),
	  HTTP_SECONDS },
	{ .is = { .name = "http.server.request.body.size",
		  .unit = "By",
		  .help = "Size of HTTP server request bodies.",
		  .kind = INSTRUMENT_HISTOGRAM },
	  .of = SPAN_SERVER,
	  .value = "http.request.body.size",
	  .attrs = SYMBOLS("http.request.method", "url.scheme", "error.type",
			   "http.response.status_code", "http.route", "network.protocol.version"),
	  HTTP_BYTES },
	{ .is = { .name = "http.server.response.body.size",
		  .unit = "By",
		  .help = "Size of HTTP server response bodies.",
		  .kind = INSTRUMENT_HISTOGRAM },
	  .of = SPAN_SERVER,
	  .value = "http.response.body.size",
	  .attrs = SYMBOLS("http.request.method", "url.scheme", "error.type",
			   "http.response.status_code", "http.route", "network.protocol.version"),
	  HTTP_BYTES },
};

LIB_OBJECT(net_http)

static const struct lib net_http = {
	.name = "net_http",
	.scope = "spoor/net/http",
	.probes = probes,
	.nprobes = ARRAY_SIZE(probes),
	.fields = fields,
	.nfields = ARRAY_SIZE(fields),
	.parts = parts,
	.nparts = ARRAY_SIZE(parts),
	.event_size = sizeof(struct net_http_event),
	.metrics = metrics,
	.nmetrics = ARRAY_SIZE(metrics),
	.at_start = true,
	.object = net_http_object,
	.decode = decode,
};
LIB_REGISTER(net_http);
