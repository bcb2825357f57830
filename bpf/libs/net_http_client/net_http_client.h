/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * net_http_client.h - contract of the two halves of this library: the Go fields it reads, and its
 * record on the ring. */
#pragma once
#include "bpf/event.h"

#define NET_HTTP_H2 "net/http/internal/http2."

#define NET_HTTP_CLIENT_FIELDS(X)                                                                  \
	GO_RUNTIME_FIELDS(X)                                                                       \
	X(REQ_SIZE, "net/http.Request", "")                                                        \
	X(REQ_METHOD, "net/http.Request", "Method")                                                \
	X(REQ_URL, "net/http.Request", "URL")                                                      \
	X(REQ_HEADER, "net/http.Request", "Header")                                                \
	X(REQ_LENGTH, "net/http.Request", "ContentLength")                                         \
	X(REQ_BODY, "net/http.Request", "Body")                                                    \
	X(REQ_CANCEL, "net/http.Request", "Cancel")                                                \
	X(REQ_RESPONSE, "net/http.Request", "Response") /* the redirect that made it */            \
	X(REQ_CTX, "net/http.Request", "ctx")                                                      \
	X(RESP_SIZE, "net/http.Response", "")                                                      \
	X(RESP_STATUS, "net/http.Response", "StatusCode")                                          \
	X(RESP_MAJOR, "net/http.Response", "ProtoMajor")                                           \
	X(RESP_MINOR, "net/http.Response", "ProtoMinor")                                           \
	X(RESP_LENGTH, "net/http.Response", "ContentLength")                                       \
	X(RESP_REQUEST, "net/http.Response", "Request")                                            \
	X(URL_SIZE, "net/url.URL", "")                                                             \
	X(URL_SCHEME, "net/url.URL", "Scheme")                                                     \
	X(URL_OPAQUE, "net/url.URL", "Opaque")                                                     \
	X(URL_USER, "net/url.URL", "User")                                                         \
	X(URL_HOST, "net/url.URL", "Host")                                                         \
	X(URL_PATH, "net/url.URL", "Path")                                                         \
	X(URL_RAW_PATH, "net/url.URL", "RawPath")                                                  \
	X(URL_QUERY, "net/url.URL", "RawQuery")                                                    \
	X(PCONN_CONN, "net/http.persistConn", "conn")                                              \
	X(TREQ_REQUEST, "net/http.transportRequest", "Request")                                    \
	X(FD_LADDR, "net.netFD", "laddr")                                                          \
	X(FD_RADDR, "net.netFD", "raddr")                                                          \
	X(ADDR_IP, "net.TCPAddr", "IP")                                                            \
	X(ADDR_PORT, "net.TCPAddr", "Port")                                                        \
	/* where the peer is found */                                                              \
	X(RESP_BODY, "net/http.Response", "Body")                                                  \
	X(BODY_FN, "net/http.bodyEOFSignal", "fn")                                                 \
	X(PCONN_T, "net/http.persistConn", "t")                                                    \
	X(TLS_CONN, "crypto/tls.Conn", "conn")                                                     \
	X(PEER_CC,                                                                                 \
	  "net/http/internal/http2.clientStream|net/http.http2clientStream|"                       \
	  "golang.org/x/net/http2.clientStream",                                                   \
	  "cc")                                                                                    \
	X(PEER_CONN,                                                                               \
	  "net/http/internal/http2.ClientConn|net/http.http2ClientConn|"                           \
	  "golang.org/x/net/http2.ClientConn",                                                     \
	  "tconn")                                                                                 \
	X(OP_ERROR_ERR, "net.OpError", "Err")                                                      \
	X(XNET_OWN, "golang.org/x/net/http2.ClientConn", "tlsState") /* it does not hand over to   \
								    net/http */                    \
	X(PCONN_BW, "net/http.persistConn", "bw")                                                  \
	X(BUFIO_ERR, "bufio.Writer", "err")                                                        \
	X(BUFIO_BUF, "bufio.Writer", "buf")                                                        \
	X(BUFIO_N, "bufio.Writer", "n")                                                            \
	X(BUFIO_WR, "bufio.Writer", "wr")                                                          \
	/* HTTP/2, bundled; Go >= 1.27 first */                                                    \
	X(H2_REQ_HEADER, NET_HTTP_H2 "ClientRequest|net/http.Request", "Header")                   \
	X(H2_CC_FRAMER, NET_HTTP_H2 "ClientConn|net/http.http2ClientConn", "fr")                   \
	X(H2_CC_LIMIT, NET_HTTP_H2 "ClientConn|net/http.http2ClientConn", "peerMaxHeaderListSize") \
	X(H2_CS_CC, NET_HTTP_H2 "clientStream|net/http.http2clientStream", "cc")                   \
	X(H2_CS_ID, NET_HTTP_H2 "clientStream|net/http.http2clientStream", "ID")                   \
	X(H2_FRAMER_W, NET_HTTP_H2 "Framer|net/http.http2Framer", "w")                             \
	/* and golang.org/x/net's */                                                               \
	X(XNET_CC_FRAMER, "golang.org/x/net/http2.ClientConn", "fr")                               \
	X(XNET_CC_LIMIT, "golang.org/x/net/http2.ClientConn", "peerMaxHeaderListSize")             \
	X(XNET_CS_CC, "golang.org/x/net/http2.clientStream", "cc")                                 \
	X(XNET_CS_ID, "golang.org/x/net/http2.clientStream", "ID")                                 \
	X(XNET_FRAMER_W, "golang.org/x/net/http2.Framer", "w")

#define X(id, type, field) F_##id,
enum net_http_client_field { NET_HTTP_CLIENT_FIELDS(X) NET_HTTP_CLIENT_NFIELDS };
#undef X

/* go_slot.parts: by which ways a traceparent may go out. */
#define NET_HTTP_CLIENT_PART_SOCKET 0x04
#define NET_HTTP_CLIENT_PART_BUFFER 0x10

/* Longest strings that are sent. */
#define NET_HTTP_CLIENT_METHOD_MAX 32
#define NET_HTTP_CLIENT_SCHEME_MAX 16
#define NET_HTTP_CLIENT_HOST_MAX   256
#define NET_HTTP_CLIENT_PATH_MAX   512
#define NET_HTTP_CLIENT_QUERY_MAX  512
#define NET_HTTP_CLIENT_ERROR_MAX  64
#define NET_HTTP_CLIENT_PEER_MAX   16
#define NET_HTTP_CLIENT_DATA_MAX                                                                   \
	(NET_HTTP_CLIENT_METHOD_MAX + NET_HTTP_CLIENT_SCHEME_MAX + NET_HTTP_CLIENT_HOST_MAX +      \
	 2 * NET_HTTP_CLIENT_PATH_MAX + NET_HTTP_CLIENT_QUERY_MAX +                                \
	 2 * NET_HTTP_CLIENT_ERROR_MAX + NET_HTTP_CLIENT_PEER_MAX)

#define NET_HTTP_CLIENT_USER   0x01 /* the URL has user information, which is not sent */
#define NET_HTTP_CLIENT_OPAQUE 0x02 /* path is URL.Opaque */
#define NET_HTTP_CLIENT_FAILED 0x04 /* RoundTrip returned an error */
#define NET_HTTP_CLIENT_CHANNEL                                                                    \
	0x10 /* the request has a Cancel channel: http.Client's way to end one at its Timeout,     \
	      * where the Transport is not net/http's but one that wraps it                        \
	      */
#define NET_HTTP_CLIENT_TEXT    0x08 /* cause is the text of an errors.New */
#define NET_HTTP_CLIENT_EXPORTS 0x20 /* an OpenTelemetry SDK's exporter sends it */

/* The part that finds the peer, and its bit in go_slot.parts. */
#define NET_HTTP_CLIENT_PEER      8
#define NET_HTTP_CLIENT_PART_PEER (1u << NET_HTTP_CLIENT_PEER)

/* Redirects and answers that led to this request; the rest of a longer chain is not counted. */
#define NET_HTTP_CLIENT_RESENDS_MAX 16

/* The record. The strings follow, without gaps: method (empty: GET), scheme, host, path, raw path,
 * query, error (a Go type), cause (the type that it holds, or its text), peer (the bytes of its IP
 * address). An operation that is not sampled has only method and errors. */
struct net_http_client_event {
	struct event ev;
	__s64 request_size, response_size; /* Content-Length, -1: unknown */
	__u16 status;                      /* 0: no answer */
	__u8 version;                      /* of the answer: 10, 11, 20 */
	__u8 bits;                         /* NET_HTTP_CLIENT_* */
	__u16 host_len, path_len, raw_len, query_len;
	__u8 method_len, scheme_len, error_len, cause_len;
	__u8 resends;
	__u8 peer_len;
	__u16 peer_port;
	__u8 pad[4];
};
_Static_assert(sizeof(struct net_http_client_event) == 112, "wire layout changed");
_Static_assert(NET_HTTP_CLIENT_NFIELDS <= GO_FIELDS_MAX, "struct go_slot has no room for them");
