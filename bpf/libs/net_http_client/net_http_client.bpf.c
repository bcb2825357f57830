// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* net_http_client.bpf.c - net/http clients: one call of (*Transport).roundTrip, which is one
 * attempt in the sense of redirects, and golang.org/x/net/http2's Transport where it is used by
 * itself. */
#include "net_http_client.h"
#include "go.h"
#include "go_exit.bpf.h"
#include "go_header.bpf.h"
#include "go_type.bpf.h"
#include "go_write.bpf.h"
#include "own.bpf.h"

/* One attempt, from its begin to its end: both on one goroutine. Transports may call each other (a
 * registered protocol, x/net's below net/http's), so the call is also known by how deep in the
 * stack its frame lies. */
#define OP_OWN_IDS 1 /* the program has put these onto the wire */
struct op {
	__u32 active;
	__u8 silent;  /* its span is not to be sent */
	__u8 bits;    /* NET_HTTP_CLIENT_* */
	__u8 retries; /* attempts before this one within the same call of roundTrip */
	__u8 own;     /* OP_OWN_IDS */
	__u64 depth;
	__u64 url, response; /* of the Request: *URL, *Response */
	__u64 transport;     /* net/http's; 0: another's */
	__u64 failed[2];     /* the error of this attempt: net/http looks whether it tries again */
	struct go_str method;
	__s64 length; /* of the body, -1: unknown */
	struct event ev;
	struct entered entered;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct op_key);
	__type(value, struct op);
} net_http_client_ops SEC(".maps");

struct scratch {
	__u64 busy;
	struct op op;
	struct go_buf buf, group;
	struct header_found found;
	struct go_type_name name;
	struct go_results results;
	struct go_g g;
	struct op_key key;
	struct go_random random;
	struct write_ids ids;
	struct event own; /* trace_id and parent_id are those of the program's own header */
	struct net_http_client_event rec;
	char data[NET_HTTP_CLIENT_DATA_MAX + 7] __attribute__((aligned(8)));
};

GO_SCRATCH(net_http_client_scratch, struct scratch)

/* ---- begin ---- */

/* Whether the values of a User-Agent are those of an OTLP exporter of OpenTelemetry's Go SDK: its
 * exporters for traces, or for metrics and logs. */
GO_APART int is_exporter(__u64 vals, __u64 nvals)
{
	struct go_str text;
	__u64 w[2];

	if (nvals != 1 || go_read(&text, sizeof(text), vals) || text.len < 16 ||
	    go_read(w, sizeof(w), text.ptr))
		return 0;
	return (w[0] == GO_TEXT8('O', 'T', 'e', 'l', ' ', 'O', 'T', 'L') &&
		w[1] == GO_TEXT8('P', ' ', 'E', 'x', 'p', 'o', 'r', 't')) ||
	       (w[0] == GO_TEXT8('O', 'T', 'e', 'l', ' ', 'G', 'o', ' ') &&
		w[1] == GO_TEXT8('O', 'T', 'L', 'P', ' ', 'o', 'v', 'e'));
}

/* Reads the Traceparent header that the program itself sends into b->own. EVENT_REMOTE, or 0. */
GO_APART int own_header(struct scratch *b, const struct go_slot *s)
{
	struct header_walk w = {};

	if (!b || !s)
		return 0;
	b->own.flags = 0;
	header_want_own(&b->found, s);
	w.found = &b->found;
	w.slot = s;
	w.buf = &b->group;
	if (header_find(&w, go_u64(&b->buf, s->at[F_REQ_HEADER])))
		count(reads_headers);
	if (b->found.agent.ptr && is_exporter(b->found.agent.ptr, b->found.agent.len))
		b->op.bits |= NET_HTTP_CLIENT_EXPORTS;
	if (!b->found.parent.ptr)
		return 0;
	go_traceparent(&b->own, b->found.parent.ptr, b->found.parent.len);
	return b->own.flags & EVENT_REMOTE;
}

static __always_inline void begin_ids(struct scratch *b, const struct go_slot *s)
{
	struct go_str ctx = go_str(&b->buf, s->at[F_REQ_CTX]); /* {itab, data} */
	struct op *op = &b->op;

	random_seed(&b->random);
	go_parent(&op->ev, s, &b->g, ctx.ptr, ctx.len);
	go_identify(&op->ev, s, &b->random);
	if (!(op->ev.sdk & SDK_LEFT) && own_header(b, s)) {
		op->silent = go_take_own(&op->ev, &b->own, s);
		if (id_of(op->ev.span_id) == id_of(b->own.parent_id))
			op->own = OP_OWN_IDS;
	}
}

/* A body that is there and whose length is 0 has an unknown one. */
static __always_inline __s64 request_length(const struct go_buf *req, const struct go_slot *s)
{
	__s64 n = go_u64(req, s->at[F_REQ_LENGTH]);

	return n || !go_u64(req, s->at[F_REQ_BODY]) ? n : -1;
}

/* A call whose end was not seen, of a goroutine that may be gone: nobody else would take its mark
 * away. */
static __always_inline void left_behind(const struct op *op)
{
	struct go_g g = { .goid = op->ev.goid };

	if (!op->silent)
		go_leave(&op->ev, &g, &op->entered);
}

static __always_inline int begin_in(struct pt_regs *ctx, const struct go_slot *s, struct cookie c,
				    struct scratch *b, int xnet)
{
	struct op *op = &b->op;
	const struct op *open;

	__builtin_memset(op, 0, sizeof(*op));
	op->ev.cookie = c;
	b->key = go_op_key(ctx, &c);
	open = bpf_map_lookup_elem(&net_http_client_ops, &b->key);
	op->active = 1;
	op->ev.start_ns = bpf_ktime_get_boot_ns();
	if (go_goroutine(&b->g, s, &b->group, GO_G(ctx), GO_SP(ctx))) {
		count(ops_unreadable);
		return 0;
	}
	if (open) {
		/* x/net's Transport below net/http's: the same attempt. */
		if (xnet && open->ev.goid == b->g.goid && open->depth < b->g.depth)
			return 0;
		count(ops_new_begin);
		left_behind(open);
	}
	if (go_read_struct(&b->buf, s->at[F_REQ_SIZE], GO_P2(ctx))) {
		count(ops_unreadable);
		return 0;
	}
	op->depth = b->g.depth;
	op->ev.goid = b->g.goid;
	op->url = go_u64(&b->buf, s->at[F_REQ_URL]);
	op->response = go_u64(&b->buf, s->at[F_REQ_RESPONSE]);
	op->method = go_str(&b->buf, s->at[F_REQ_METHOD]);
	op->length = request_length(&b->buf, s);
	op->transport = xnet ? 0 : GO_P1(ctx);
	if (go_u64(&b->buf, s->at[F_REQ_CANCEL]))
		op->bits = NET_HTTP_CLIENT_CHANNEL;
	begin_ids(b, s);
	if (!op->silent)
		go_enter(&op->ev, &b->g, &op->entered);
	if (share_put(&net_http_client_ops, &b->key, op) && !op->silent)
		go_leave(&op->ev, &b->g, &op->entered);
	return 0;
}

static __always_inline int begin(struct pt_regs *ctx, int xnet)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct scratch *b;

	if (!s)
		return 0;
	b = net_http_client_scratch_take();
	if (!b)
		return 0;
	begin_in(ctx, s, c, b, xnet);
	net_http_client_scratch_put(b);
	return 0;
}

/* func (t *Transport) roundTrip(req *Request) (*Response, error), and ClientConn's RoundTrip */
SEC("uprobe.multi")
int net_http_client_begin(struct pt_regs *ctx)
{
	return begin(ctx, 0);
}

/* golang.org/x/net/http2: func (t *Transport) RoundTripOpt(req *http.Request, opt RoundTripOpt)
 * (*http.Response, error) */
SEC("uprobe.multi")
int net_http_client_xnet_begin(struct pt_regs *ctx)
{
	return begin(ctx, 1);
}

/* ---- end ---- */

#include "peer.bpf.h"

static __always_inline __u32 put(struct scratch *b, __u32 at, struct go_str s, __u32 max)
{
	return go_put_str(&b->rec.ev, b->data, at, s, max);
}

/* How many answers led to this request: Request.Response.Request.Response... */
static __always_inline __u8 count_resends(const struct go_slot *s, __u64 response)
{
	__u8 n = 0;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < NET_HTTP_CLIENT_RESENDS_MAX; i++) {
		__u64 req;

		if (!response)
			break;
		n++;
		if (go_read(&req, 8, response + s->at[F_RESP_REQUEST]) || !req ||
		    go_read(&response, 8, req + s->at[F_REQ_RESPONSE]))
			break;
	}
	return n;
}

static __always_inline void read_response(struct scratch *b, const struct go_slot *s,
					  __u64 response)
{
	struct net_http_client_event *rec = &b->rec;
	__u64 status;

	if (!response || go_read_struct(&b->buf, s->at[F_RESP_SIZE], response))
		return;
	status = go_u64(&b->buf, s->at[F_RESP_STATUS]);
	rec->status = status <= 999 ? status : 0;
	rec->version =
		10 * go_u64(&b->buf, s->at[F_RESP_MAJOR]) + go_u64(&b->buf, s->at[F_RESP_MINOR]);
	rec->response_size = go_u64(&b->buf, s->at[F_RESP_LENGTH]);
}

/* All but the path as it is encoded, which is sent only where it says more than the path. */
static __always_inline __u32 put_url(struct scratch *b, const struct go_slot *s, __u64 url,
				     __u32 at)
{
	struct net_http_client_event *rec = &b->rec;
	struct go_str path, opaque;

	if (!url || go_read_struct(&b->buf, s->at[F_URL_SIZE], url)) {
		count(reads_string);
		return at;
	}
	if (go_u64(&b->buf, s->at[F_URL_USER]))
		rec->bits |= NET_HTTP_CLIENT_USER;
	path = go_str(&b->buf, s->at[F_URL_PATH]);
	opaque = go_str(&b->buf, s->at[F_URL_OPAQUE]);
	if (opaque.len) {
		rec->bits |= NET_HTTP_CLIENT_OPAQUE;
		path = opaque;
	}
	at += rec->scheme_len =
		put(b, at, go_str(&b->buf, s->at[F_URL_SCHEME]), NET_HTTP_CLIENT_SCHEME_MAX);
	at += rec->host_len =
		put(b, at, go_str(&b->buf, s->at[F_URL_HOST]), NET_HTTP_CLIENT_HOST_MAX);
	at += rec->path_len = put(b, at, path, NET_HTTP_CLIENT_PATH_MAX);
	at += rec->raw_len =
		put(b, at, go_str(&b->buf, s->at[F_URL_RAW_PATH]), NET_HTTP_CLIENT_PATH_MAX);
	at += rec->query_len =
		put(b, at, go_str(&b->buf, s->at[F_URL_QUERY]), NET_HTTP_CLIENT_QUERY_MAX);
	return at;
}

#define WRAP_ERROR_ERR 16 /* fmt.wrapError: msg string, err error */

static __always_inline int is_wrap_error(const struct go_type_name *t)
{
	return go_type_is(t, 14, GO_TEXT8('*', 'f', 'm', 't', '.', 'w', 'r', 'a'),
			  GO_TEXT8('p', 'E', 'r', 'r', 'o', 'r', 0, 0), 0);
}

static __always_inline int is_op_error(const struct go_type_name *t)
{
	return go_type_is(t, 12, GO_TEXT8('*', 'n', 'e', 't', '.', 'O', 'p', 'E'),
			  GO_TEXT8('r', 'r', 'o', 'r', 0, 0, 0, 0), 0);
}

static __always_inline int is_error_string(const struct go_type_name *t)
{
	return go_type_is(t, 19, GO_TEXT8('*', 'e', 'r', 'r', 'o', 'r', 's', '.'),
			  GO_TEXT8('e', 'r', 'r', 'o', 'r', 'S', 't', 'r'),
			  GO_TEXT8('i', 'n', 'g', 0, 0, 0, 0, 0));
}

/* The Go type of the error {itab, data}, behind fmt.Errorf's wrappers; then what a net.OpError
 * holds, or the text of an errors.New, by which the agent tells a cancelled request. Where the data
 * ends. */
GO_APART int put_error(struct scratch *b, const struct go_slot *s, __u64 at, __u64 itab, __u64 data)
{
	__u64 err[2] = { itab, data };
	struct net_http_client_event *rec;
	struct go_str text;

	if (!b || !s || at > NET_HTTP_CLIENT_DATA_MAX - 2 * NET_HTTP_CLIENT_ERROR_MAX)
		return 0;
	rec = &b->rec;
	rec->bits |= NET_HTTP_CLIENT_FAILED;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 4; i++) {
		if (go_type_name(&b->name, s, err[0]))
			return at;
		if (!is_wrap_error(&b->name))
			break;
		if (go_read(err, sizeof(err), err[1] + WRAP_ERROR_ERR))
			return at;
	}
	at += rec->error_len = put(b, at, b->name.text, NET_HTTP_CLIENT_ERROR_MAX);
	if (is_error_string(&b->name)) {
		if (go_read(&text, sizeof(text), err[1]))
			return at;
		rec->bits |= NET_HTTP_CLIENT_TEXT;
	} else {
		if (!is_op_error(&b->name) ||
		    go_read(err, sizeof(err), err[1] + s->at[F_OP_ERROR_ERR]) ||
		    go_type_name(&b->name, s, err[0]))
			return at;
		text = b->name.text;
	}
	return at + (rec->cause_len = put(b, at, text, NET_HTTP_CLIENT_ERROR_MAX));
}

/* Builds the record of the call that has ended and sends it. */
GO_APART int send(struct scratch *b, const struct go_slot *s, const struct op *op)
{
	struct net_http_client_event *rec;
	const struct go_results *r;
	__u64 at;

	if (!b || !s || !op)
		return 0;
	r = &b->results;
	rec = &b->rec;
	*rec = (struct net_http_client_event){ .ev = op->ev,
					       .request_size = op->length,
					       .bits = op->bits };
	go_leave_to_sdk(&rec->ev, 0);
	rec->response_size = -1;
	rec->ev.end_ns = bpf_ktime_get_boot_ns();
	if (!r->p[1])
		read_response(b, s, r->p[0]);
	rec->resends = op->retries + count_resends(s, op->response);
	at = rec->method_len = put(b, 0, op->method, NET_HTTP_CLIENT_METHOD_MAX);
	if (go_is_told(&rec->ev, s))
		at = put_url(b, s, op->url, at);
	if (r->p[1])
		at = put_error(b, s, at, r->p[1], r->p[2]);
	else if (go_is_told(&rec->ev, s) && r->p[0])
		at += put_peer(b, s, at, r->p[0], op->transport);
	go_send(&rec->ev, cap(sizeof(*rec) + at, sizeof(*rec) + NET_HTTP_CLIENT_DATA_MAX));
	return 0;
}

static __always_inline int end_in(struct pt_regs *ctx, const struct go_slot *s, struct cookie *c,
				  struct scratch *b)
{
	struct op_key k = go_op_key(ctx, c);
	const struct op *op;
	int err = go_results(&b->results, ctx, c);

	if (err) {
		if (err < 0)
			count(ops_unreadable);
		return 0;
	}
	op = bpf_map_lookup_elem(&net_http_client_ops, &k);
	if (!op || go_goroutine(&b->g, s, &b->group, GO_G(ctx), b->results.sp) ||
	    op->ev.goid != b->g.goid || op->depth != b->g.depth)
		return 0;
	if (!op->silent) {
		go_leave(&op->ev, &b->g, &op->entered);
		send(b, s, op);
	}
	share_drop(&net_http_client_ops, &k);
	return 0;
}

/* Where either function ends: (*Response, error). */
SEC("uprobe.multi")
int net_http_client_end(struct pt_regs *ctx)
{
	struct cookie c;
	const struct go_slot *s = go_slot(ctx, &c);
	struct scratch *b;

	if (!s)
		return 0;
	b = net_http_client_scratch_take();
	if (!b)
		return 0;
	end_in(ctx, s, &c, b);
	net_http_client_scratch_put(b);
	return 0;
}

#include "again.bpf.h"
#include "send.bpf.h"
#include "write.bpf.h"
