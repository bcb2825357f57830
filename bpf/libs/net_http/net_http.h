/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * net_http.h - contract of the two halves of this library: the Go fields it reads, and its record
 * on the ring. */
#pragma once
#include "bpf/event.h"

/* Fields of a request, the same list for net/http.Request and for what HTTP/2 of net/http serves
 * (Go >= 1.27: its own ServerRequest, else a Request as well). Order and number are those of
 * NET_HTTP_REQUEST_*. */
#define NET_HTTP_REQUEST_FIELDS(X, prefix, type)                                                   \
	X(prefix##_SIZE, type, "")                                                                 \
	X(prefix##_METHOD, type, "Method")                                                         \
	X(prefix##_URL, type, "URL")                                                               \
	X(prefix##_HEADER, type, "Header")                                                         \
	X(prefix##_HOST, type, "Host")                                                             \
	X(prefix##_REMOTE, type, "RemoteAddr")                                                     \
	X(prefix##_URI, type, "RequestURI")                                                        \
	X(prefix##_LENGTH, type, "ContentLength")                                                  \
	X(prefix##_TLS, type, "TLS")

/* What the server of HTTP/2 keeps of a response: bundled in net/http, and golang.org/x/net's own.
 */
#define NET_HTTP_H2_FIELDS(X, prefix, writer, state)                                               \
	X(prefix##_WRITER_STATE, writer, "rws")                                                    \
	X(prefix##_SIZE, state, "")                                                                \
	X(prefix##_REQ, state, "req")                                                              \
	X(prefix##_STATUS, state, "status")                                                        \
	X(prefix##_SENT, state, "sentHeader")                                                      \
	X(prefix##_WRITTEN, state, "wroteBytes")

#define NET_HTTP_FIELDS(X)                                                                         \
	GO_RUNTIME_FIELDS(X)                                                                       \
	X(PANIC_ARG, "runtime._panic", "arg")                                                      \
	NET_HTTP_REQUEST_FIELDS(X, REQ, "net/http.Request")                                        \
	X(REQ_CTX, "net/http.Request", "ctx")                                                      \
	X(REQ_MAJOR, "net/http.Request", "ProtoMajor")                                             \
	X(REQ_MINOR, "net/http.Request", "ProtoMinor")                                             \
	X(REQ_PATTERN, "net/http.Request", "Pattern") /* Go >= 1.23 */                             \
	X(REQ_PAT, "net/http.Request", "pat")         /* Go >= 1.22, *pattern */                   \
	X(PATTERN_STR, "net/http.pattern", "str")                                                  \
	X(URL_PATH, "net/url.URL", "Path")                                                         \
	X(RESP_SIZE, "net/http.response", "")                                                      \
	X(RESP_REQ, "net/http.response", "req")                                                    \
	X(RESP_STATUS, "net/http.response", "status")                                              \
	X(RESP_WRITTEN, "net/http.response", "written")                                            \
	X(RESP_WROTE_HEADER, "net/http.response", "wroteHeader")                                   \
	X(RESP_CW, "net/http.response", "cw")                                                      \
	X(CW_WROTE_HEADER, "net/http.chunkWriter", "wroteHeader")                                  \
	NET_HTTP_REQUEST_FIELDS(X, H2REQ,                                                          \
				"net/http/internal/http2.ServerRequest|net/http.Request")          \
	X(H2REQ_CTX, "net/http/internal/http2.ServerRequest", "Context")                           \
	X(H2REQ_BY_VALUE, "net/http/internal/http2.ServerRequest",                                 \
	  "") /* Go >= 1.27: a struct in the state */                                              \
	NET_HTTP_H2_FIELDS(                                                                        \
		X, H2, "net/http/internal/http2.responseWriter|net/http.http2responseWriter",      \
		"net/http/internal/http2.responseWriterState|net/http.http2responseWriterState")   \
	NET_HTTP_H2_FIELDS(X, XNET, "golang.org/x/net/http2.responseWriter",                       \
			   "golang.org/x/net/http2.responseWriterState")                           \
	X(XNET_WRAPS, "golang.org/x/net/http2.serverConfig",                                       \
	  "serveConnFunc") /* it hands over to net/http */

#define X(id, type, field) F_##id,
enum net_http_field { NET_HTTP_FIELDS(X) NET_HTTP_NFIELDS };
#undef X

/* go_slot.parts */
#define NET_HTTP_PART_H1     0x01
#define NET_HTTP_PART_HIJACK 0x02
#define NET_HTTP_PART_H2     0x04
#define NET_HTTP_PART_XNET   0x08
#define NET_HTTP_PART_WRAP   0x10
#define NET_HTTP_PART_MUX    0x20

/* Longest strings that are sent; the request target holds path and query. */
#define NET_HTTP_REMOTE_MAX  64
#define NET_HTTP_AGENT_MAX   256
#define NET_HTTP_STATE_MAX   512
#define NET_HTTP_METHOD_MAX  32
#define NET_HTTP_TARGET_MAX  1024
#define NET_HTTP_HOST_MAX    256
#define NET_HTTP_PATTERN_MAX 256
/* ServeMuxes, one inside the other, whose patterns are sent. */
#define NET_HTTP_MUXES_MAX   4
#define NET_HTTP_DATA_MAX                                                                          \
	(NET_HTTP_REMOTE_MAX + NET_HTTP_AGENT_MAX + NET_HTTP_STATE_MAX + NET_HTTP_METHOD_MAX + 1 + \
	 NET_HTTP_TARGET_MAX + NET_HTTP_HOST_MAX + NET_HTTP_PATTERN_MAX + NET_HTTP_MUXES_MAX * 8)

#define NET_HTTP_TLS 0x01
#define NET_HTTP_JOINED                                                                            \
	0x02 /* one byte stands between method and target, as on the request line                  \
	      */
#define NET_HTTP_LITERAL                                                                           \
	0x04 /* the pattern lies in the program's read-only data, at pattern_at                    \
	      */
#define NET_HTTP_HIJACKED 0x08
#define NET_HTTP_ABORTED                                                                           \
	0x10 /* with EVENT_PANICKED: http.ErrAbortHandler, or the goroutine was ended */

#define NET_HTTP_MUX 0x20 /* a ServeMux was seen matching this request, or a copy of it */

/* The pattern that a ServeMux found for the request. */
struct net_http_mux {
	__u32 at;       /* NET_HTTP_MUX_LITERAL: offset in the program's read-only data */
	__u16 len;      /* bytes, and NET_HTTP_MUX_LITERAL */
	__u16 path_len; /* of Request.URL.Path as this mux saw it; NET_HTTP_MUX_SAME */
};
#define NET_HTTP_MUX_LITERAL 0x8000
#define NET_HTTP_MUX_SAME    0xffff /* its URL is the one that the server made */

/* The record. The strings follow, without gaps: remote, agent, state (tracestate), the patterns of
 * `muxes` that are no literals, method, target, host, pattern; then nmuxes times struct
 * net_http_mux, the outermost first. An operation that is not sampled has only method and pattern.
 * Muxes that tell no more than pattern are left out. */
struct net_http_event {
	struct event ev;
	__s64 request_size;  /* Content-Length, -1: unknown */
	__s64 response_size; /* bytes of body that the handler wrote */
	__u32 pattern_at;
	__u16 status; /* 0: none was sent */
	__u8 version; /* 10, 11, 20 */
	__u8 bits;    /* NET_HTTP_* */
	__u16 target_len, host_len, pattern_len, agent_len, state_len;
	__u8 method_len, remote_len;
	__u8 nmuxes, pad[3];
};
_Static_assert(sizeof(struct net_http_event) == 112, "wire layout changed");
_Static_assert(sizeof(struct net_http_mux) == 8, "wire layout changed");
_Static_assert(NET_HTTP_NFIELDS <= GO_FIELDS_MAX, "struct go_slot has no room for more fields");
