/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * op.bpf.h - what is remembered between begin and end, and the work of both: one request of
 * one goroutine.
 *
 * HTTP/1 serves a connection on one goroutine: its entry is made at the first request and lives
 * until (*conn).serve.func1, so a request only looks it up. HTTP/2 serves each stream on a
 * goroutine of its own: its entry lives as long as the request. Either way an entry ends with its
 * goroutine, so the address of g names it (Go reuses both together). */
#pragma once
#include "go.h"
#include "go_header.bpf.h"
#include "net_http.h"
#include "parent.bpf.h"

/* struct op.active */
#define OP_H1   1 /* writer is a *response */
#define OP_H2   2 /* writer is a *responseWriterState of net/http's HTTP/2 */
#define OP_XNET 3 /* the same of golang.org/x/net/http2 */

/* How an operation ended. */
#define END_DONE     0
#define END_HIJACKED 1
#define END_UNWOUND                                                                                \
	2 /* the goroutine's deferred functions run before the end was seen: panic, abort, unseen  \
	     hijack */

#define OP_DATA (NET_HTTP_REMOTE_MAX + NET_HTTP_AGENT_MAX + NET_HTTP_STATE_MAX)

struct op {
	__u32 active; /* OP_*, 0: between two requests of a connection */
	__u32 at;     /* bytes of data: remote, agent, state, texts of muxes' patterns */
	__u64 req, writer;
	__u64 remote_ptr,
		agent_key;    /* of the connection: its address string, the interned "User-Agent" */
	struct go_str method; /* as it came: handlers change Request.Method */
	/* What tells a copy of this request, see op_mux(): its URL, its headers, the text of its
	 * target. */
	__u64 url, header, target;
	__u32 nmuxes;   /* > NET_HTTP_MUXES_MAX: there were more */
	__u32 at_muxes; /* where in data their texts begin */
	struct net_http_mux muxes[NET_HTTP_MUXES_MAX];
	struct go_random random;
	struct net_http_event rec;
	char data[OP_DATA] __attribute__((aligned(8)));
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct op_key);
	__type(value, struct op);
} net_http_ops SEC(".maps");

static const struct op op_zero;

struct scratch {
	__u64 busy;
	struct header_found found;
	struct go_buf req;
	union { /* begin and end have one each: as few lines of the cache as can be */
		struct go_buf resp, group;
	};
	struct net_http_event rec;
	char data[NET_HTTP_DATA_MAX + 7] __attribute__((aligned(8)));
};

GO_SCRATCH(net_http_scratch, struct scratch)

/* A request in memory that has been read: which fields (F_REQ_SIZE or F_H2REQ_SIZE), in which
 * buffer, from where in it. */
struct request {
	const struct go_buf *buf;
	__u32 fields, shift;
};

#define REQUEST_FIELD(name) (F_REQ_##name - F_REQ_SIZE)
_Static_assert(F_REQ_TLS - F_REQ_SIZE == F_H2REQ_TLS - F_H2REQ_SIZE,
	       "both lists of a request's fields are one");

static __always_inline __u32 request_at(const struct go_slot *s, const struct request *r,
					__u32 field)
{
	__u32 at = s->at[r->fields == F_H2REQ_SIZE ? F_H2REQ_SIZE + field : F_REQ_SIZE + field];

	return r->shift + at;
}

#define request_u64(s, r, name) go_u64((r)->buf, request_at(s, r, REQUEST_FIELD(name)))
#define request_str(s, r, name) go_str((r)->buf, request_at(s, r, REQUEST_FIELD(name)))

static __always_inline int read_struct(struct go_buf *buf, const struct go_slot *s, __u32 size,
				       __u64 from)
{
	return go_read_struct(buf, s->at[size], from);
}

/* ---- begin ---- */

/* A new entry for this goroutine, or NULL: no room. */
static __always_inline struct op *op_new(const struct op_key *k, __u64 goid, struct cookie c)
{
	struct op *op;

	if (share_put(&net_http_ops, k, &op_zero))
		return NULL;
	op = bpf_map_lookup_elem(&net_http_ops, k);
	if (!op)
		return NULL;
	random_seed(&op->random);
	op->rec.ev.cookie = c;
	op->rec.ev.goid = goid;
	return op;
}

/* "kube-probe/" */
static __always_inline int is_kubelet(const char *agent, __u32 len)
{
	return len >= 11 && *(const __u64 *)agent == 0x6f72702d6562756bULL &&
	       *(const __u16 *)(agent + 8) == 0x6562 && agent[10] == '/';
}

/* Address, headers, ids: all that must be known or kept from the start. */
GO_APART int op_begin(struct op *op, const struct go_slot *s, struct scratch *b, __u32 fields)
{
	struct request r = { .fields = fields };
	struct header_walk w = {};
	struct header_found *f;
	struct event *ev;
	struct go_str v;
	__u32 at;

	if (!op || !s || !b)
		return 0;
	r.buf = &b->req;
	ev = &op->rec.ev;
	ev->flags = 0;
	ev->sdk = 0;
	op->method = request_str(s, &r, METHOD);
	op->url = request_u64(s, &r, URL);
	op->header = request_u64(s, &r, HEADER);
	op->target = request_str(s, &r, URI).ptr;
	op->nmuxes = 0;
	/* A connection's address is one string, so its pointer stays the same, and its text where
	 * it is. */
	v = request_str(s, &r, REMOTE);
	if (unlikely(v.ptr != op->remote_ptr)) {
		op->rec.remote_len = go_put_str(ev, op->data, 0, v, NET_HTTP_REMOTE_MAX);
		op->remote_ptr = v.ptr;
	}
	f = &b->found;
	header_want(f, s, op->agent_key);
	w.found = f;
	w.slot = s;
	w.buf = &b->group;
	if (header_find(&w, request_u64(s, &r, HEADER)))
		count(reads_headers);
	op->agent_key = f->agent_key;
	if (f->parent.ptr)
		go_traceparent(ev, f->parent.ptr, f->parent.len);
	if (ev->flags & EVENT_REMOTE) {
		f->b3_wanted = 0; /* traceparent wins */
	} else {
		f->state.len = 0; /* it belongs to traceparent */
		if (unlikely(f->b3_wanted))
			f->b3_wanted = go_b3_headers(ev, &f->b3);
	}
	go_identify(ev, s, &op->random);
	if (unlikely(f->b3_wanted))
		go_b3_decide(ev, s, f->b3_wanted);
	at = cap(op->rec.remote_len, NET_HTTP_REMOTE_MAX);
	op->rec.agent_len = op->rec.state_len = 0;
	if (likely(go_is_told(ev, s))) {
		if (f->agent.len && !go_read(&v, sizeof(v), f->agent.ptr)) {
			op->rec.agent_len = go_put_str(ev, op->data, at, v, NET_HTTP_AGENT_MAX);
			if (unlikely(is_kubelet(op->data + at, op->rec.agent_len)))
				ev->flags |= EVENT_HEALTH;
			at += op->rec.agent_len;
		}
		if (unlikely(f->state.len == 1) && ev->flags & EVENT_REMOTE &&
		    !go_read(&v, sizeof(v), f->state.ptr) && v.len <= NET_HTTP_STATE_MAX)
			at += op->rec.state_len =
				go_put_str(ev, op->data, at, v, NET_HTTP_STATE_MAX);
	}
	op->at = op->at_muxes = at;
	return 0;
}

/* ---- in between ---- */

/* Keeps the pattern of one mux; a text that is no literal goes behind the other strings, for it may
 * be gone at the end. */
static __always_inline void keep_mux(struct op *op, const struct go_slot *s, struct go_str p,
				     __u16 path_len)
{
	struct net_http_mux m = { .path_len = path_len, .len = cap(p.len, NET_HTTP_PATTERN_MAX) };
	__u32 at = cap(op->at, OP_DATA), n = op->nmuxes;

	if (n < NET_HTTP_MUXES_MAX && p.ptr - s->ro_lo < s->ro_hi - s->ro_lo &&
	    p.ptr - s->ro_lo <= 0xffffffff) {
		m.at = p.ptr - s->ro_lo;
		m.len |= NET_HTTP_MUX_LITERAL;
	} else if (n < NET_HTTP_MUXES_MAX && at <= OP_DATA - NET_HTTP_PATTERN_MAX) {
		op->at = at + go_put_str(&op->rec.ev, op->data, at, p, NET_HTTP_PATTERN_MAX);
		if (op->at == at)
			n = NET_HTTP_MUXES_MAX;
	} else {
		n = NET_HTTP_MUXES_MAX;
	}
	op->nmuxes = n + 1;
	if (n < NET_HTTP_MUXES_MAX)
		op->muxes[n] = m;
}

/* Whether req, which has another URL, is a copy of this request: it has the text of its target,
 * which a request that a handler makes does not have, and its headers or (HTTP/1, where it is
 * nobody else's either) the text of its method. */
GO_APART int op_is_copy(struct op *op, const struct go_slot *s, __u64 req)
{
	__u64 at;

	if (!op || !s || !op->target || go_read(&at, 8, req + s->at[F_REQ_URI]) || at != op->target)
		return 0;
	if (!go_read(&at, 8, req + s->at[F_REQ_HEADER]) && at && at == op->header)
		return 1;
	return op->active == OP_H1 && !go_read(&at, 8, req + s->at[F_REQ_METHOD]) &&
	       at == op->method.ptr;
}

/* A ServeMux was given req and found the pattern: is it this request, or a copy? A handler may ask
 * a mux about any other. */
GO_APART int op_mux(struct op *op, const struct go_slot *s, __u64 req, struct go_str *pattern)
{
	struct go_str path = { .len = NET_HTTP_MUX_SAME };
	__u64 url;

	if (!op || !s || !pattern || go_read(&url, 8, req + s->at[F_REQ_URL]))
		return 0;
	if (url != op->url && !op_is_copy(op, s, req))
		return 0;
	if ((url != op->url || op->nmuxes) && go_read(&path, sizeof(path), url + s->at[F_URL_PATH]))
		return 0;
	keep_mux(op, s, *pattern, cap(path.len, NET_HTTP_MUX_SAME));
	return 0;
}

/* ---- end ---- */

/* The route that the server's own request carries, if any: Pattern (Go >= 1.23), else pat->str
 * (1.22). Where ServeMux redirects to the clean form of a path, it leaves pat empty and puts that
 * path into Pattern (up to Go 1.25; 1.26 for CONNECT): no route. */
static __always_inline struct go_str request_pattern(const struct go_buf *req,
						     const struct go_slot *s, __u32 status)
{
	struct go_str p = go_str(req, s->at[F_REQ_PATTERN]), none = {};
	__u64 pat = go_u64(req, s->at[F_REQ_PAT]);

	if (s->at[F_REQ_PATTERN] != GO_ABSENT) {
		if (!pat && status >= 300 && status < 400)
			return none;
		return p;
	}
	if (!pat || s->at[F_PATTERN_STR] == GO_ABSENT ||
	    go_read(&p, sizeof(p), pat + s->at[F_PATTERN_STR]))
		return none;
	return p;
}

/* Reads what the server holds of the response into &b->resp, and finds the request that it belongs
 * to. 0 or -1. */
static __always_inline int op_read(struct op *op, const struct go_slot *s, struct scratch *b,
				   struct request *r)
{
	__u32 at = op->active == OP_XNET ? F_XNET_REQ : op->active == OP_H2 ? F_H2_REQ : F_RESP_REQ;
	__u32 size = op->active == OP_XNET ? F_XNET_SIZE
		     : op->active == OP_H2 ? F_H2_SIZE
					   : F_RESP_SIZE;
	__u64 req;

	if (read_struct(&b->resp, s, size, op->writer))
		return -1;
	if (unlikely(op->active == OP_H2) && s->at[F_H2REQ_BY_VALUE] != GO_ABSENT) {
		if (s->at[at] + s->at[F_H2REQ_SIZE] > GO_STRUCT_MAX)
			return -1;
		r->buf = &b->resp;
		r->fields = F_H2REQ_SIZE;
		r->shift = s->at[at];
		/* The Request that the handler got is nobody's by now, and its memory may be
		 * another's: it is the one that was seen at begin only if it has the URL of the one
		 * that the server holds. */
		if (!op->req || read_struct(&b->req, s, F_REQ_SIZE, op->req) ||
		    go_u64(&b->req, s->at[F_REQ_URL]) != request_u64(s, r, URL))
			op->req = 0;
		return 0;
	}
	req = go_u64(&b->resp, s->at[at]);
	r->buf = &b->req;
	r->fields = F_REQ_SIZE;
	r->shift = 0;
	op->req = req;
	return read_struct(&b->req, s, F_REQ_SIZE, req);
}

/* The status that the client got; 0: none. */
static __always_inline __u16 op_status(const struct op *op, const struct go_slot *s,
				       const struct go_buf *resp, int how)
{
	__u64 status = go_u64(resp, s->at[F_RESP_STATUS]), sent = 1;

	if (likely(op->active == OP_H1)) {
		if (how == END_HIJACKED || !(op->rec.ev.flags & EVENT_PANICKED))
			sent = go_u8(resp, s->at[F_RESP_WROTE_HEADER]);
		else /* buffered until the chunkWriter has written the header */
			sent = go_u8(resp, s->at[F_RESP_CW] + s->at[F_CW_WROTE_HEADER]);
	} else {
		status = go_u64(resp,
				op->active == OP_H2 ? s->at[F_H2_STATUS] : s->at[F_XNET_STATUS]);
		sent = go_u8(resp, op->active == OP_H2 ? s->at[F_H2_SENT] : s->at[F_XNET_SENT]);
	}
	if (how == END_DONE)
		return status && status <= 999 ? status : 200; /* nothing written is 200 */
	return sent && status <= 999 ? status : 0;
}

static __always_inline __u64 op_written(const struct op *op, const struct go_slot *s,
					const struct go_buf *resp)
{
	__u32 at = op->active == OP_XNET ? F_XNET_WRITTEN
		   : op->active == OP_H2 ? F_H2_WRITTEN
					 : F_RESP_WRITTEN;

	return go_u64(resp, s->at[at]);
}

/* The method as the client sent it. Its bytes are surely still there when they stand before the
 * target on the request line, or are a literal; else the method is taken as it is now. */
static __always_inline struct go_str op_method(const struct op *op, const struct go_slot *s,
					       struct go_str now, struct go_str target)
{
	if (target.ptr - op->method.ptr == op->method.len + 1 ||
	    op->method.ptr - s->ro_lo < s->ro_hi - s->ro_lo)
		return op->method;
	return now;
}

/* Method and target, and mostly as one run of bytes: the request line. */
static __always_inline __u32 put_line(struct net_http_event *rec, char *data, __u32 at,
				      struct go_str m, struct go_str t)
{
	__u32 ml = cap(m.len, NET_HTTP_METHOD_MAX), tl = cap(t.len, NET_HTTP_TARGET_MAX);

	if (likely(t.ptr - m.ptr == m.len + 1 && m.len <= NET_HTTP_METHOD_MAX &&
		   !go_read(data + at, ml + 1 + tl, m.ptr))) {
		rec->bits |= NET_HTTP_JOINED;
		rec->method_len = ml;
		rec->target_len = tl;
		if (unlikely(t.len > NET_HTTP_TARGET_MAX))
			rec->ev.flags |= EVENT_CUT;
		return at + ml + 1 + tl;
	}
	at += rec->method_len = go_put_str(&rec->ev, data, at, m, NET_HTTP_METHOD_MAX);
	at += rec->target_len = go_put_str(&rec->ev, data, at, t, NET_HTTP_TARGET_MAX);
	return at;
}

static __always_inline __u32 put_pattern(struct net_http_event *rec, const struct go_slot *s,
					 char *data, __u32 at, struct go_str p)
{
	if (p.len && p.ptr - s->ro_lo < s->ro_hi - s->ro_lo && p.ptr - s->ro_lo <= 0xffffffff) {
		rec->bits |= NET_HTTP_LITERAL;
		rec->pattern_at = p.ptr - s->ro_lo;
		rec->pattern_len = cap(p.len, NET_HTTP_PATTERN_MAX);
		if (unlikely(p.len > NET_HTTP_PATTERN_MAX))
			rec->ev.flags |= EVENT_CUT;
		return at;
	}
	return at + (rec->pattern_len = go_put_str(&rec->ev, data, at, p, NET_HTTP_PATTERN_MAX));
}

/* Where more than one mux had the request, or a copy of it, their patterns. */
static __always_inline __u32 put_muxes(struct net_http_event *rec, const struct op *op, char *data,
				       __u32 at)
{
	for (__u32 i = 0; i < NET_HTTP_MUXES_MAX; i++) {
		if (likely(i >= rec->nmuxes))
			break;
		at = cap(at, NET_HTTP_DATA_MAX - sizeof(struct net_http_mux));
		__builtin_memcpy(data + at, &op->muxes[i], sizeof(struct net_http_mux));
		at += sizeof(struct net_http_mux);
	}
	return at;
}

/* Builds the record and sends it. */
GO_APART int op_end(struct op *op, const struct go_slot *s, struct scratch *b, int how)
{
	struct request r = {};
	struct net_http_event *rec;
	struct go_str none = {}, pattern, target, method;
	__u32 at;

	if (!op || !s || !b)
		return 0;
	op->rec.ev.end_ns = bpf_ktime_get_boot_ns();
	if (op_read(op, s, b, &r)) {
		count(ops_unreadable);
		return 0;
	}
	rec = &b->rec;
	*rec = op->rec;
	rec->status = op_status(op, s, &b->resp, how);
	rec->response_size = op_written(op, s, &b->resp);
	rec->request_size = request_u64(s, &r, LENGTH);
	rec->version = 20;
	if (likely(op->active == OP_H1))
		rec->version = 10 * go_u64(&b->req, s->at[F_REQ_MAJOR]) +
			       go_u64(&b->req, s->at[F_REQ_MINOR]);
	if (unlikely(how == END_HIJACKED) ||
	    (how == END_UNWOUND && !(rec->ev.flags & EVENT_PANICKED)))
		rec->bits |= NET_HTTP_HIJACKED;
	if (request_u64(s, &r, TLS))
		rec->bits |= NET_HTTP_TLS;
	pattern = op->req ? request_pattern(&b->req, s, rec->status) : none;
	target = request_str(s, &r, URI);
	method = op_method(op, s, request_str(s, &r, METHOD), target);
	rec->nmuxes = op->nmuxes;
	if (unlikely(rec->nmuxes)) {
		rec->bits |= NET_HTTP_MUX;
		if (rec->nmuxes > NET_HTTP_MUXES_MAX || (rec->nmuxes == 1 && pattern.len))
			rec->nmuxes = 0;
	}
	if (likely(go_is_told(&rec->ev, s))) {
		at = cap(rec->nmuxes ? op->at : op->at_muxes, OP_DATA);
		for (__u32 i = 0; i < OP_DATA / 8 && 8 * i < at; i++)
			((__u64 *)b->data)[i] = ((const __u64 *)op->data)[i];
		at = put_line(rec, b->data, at, method, target);
		at += rec->host_len = go_put_str(&rec->ev, b->data, at, request_str(s, &r, HOST),
						 NET_HTTP_HOST_MAX);
	} else {
		rec->remote_len = rec->agent_len = rec->state_len = rec->nmuxes = 0;
		at = rec->method_len =
			go_put_str(&rec->ev, b->data, 0, method, NET_HTTP_METHOD_MAX);
	}
	at = put_pattern(rec, s, b->data, at, pattern);
	at = put_muxes(rec, op, b->data, at);
	go_send(&rec->ev, cap(sizeof(*rec) + at, sizeof(*rec) + NET_HTTP_DATA_MAX));
	return 0;
}
