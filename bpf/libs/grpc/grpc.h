/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * grpc.h - contract of the two halves of this library, google.golang.org/grpc: the Go fields it
 * reads, and its record on the ring. */
#pragma once
#include "bpf/event.h"

#define GRPC_T      "google.golang.org/grpc/internal/transport."
#define GRPC_STATUS "google.golang.org/genproto/googleapis/rpc/status.Status"

#define GRPC_FIELDS(X)                                                                             \
	GO_RUNTIME_FIELDS(X)                                                                       \
	X(ADDR_SIZE, "net.TCPAddr", "")                                                            \
	X(ADDR_IP, "net.TCPAddr", "IP")                                                            \
	X(ADDR_PORT, "net.TCPAddr", "Port")                                                        \
	X(STATUS_S,                                                                                \
	  "google.golang.org/grpc/internal/status.Status|google.golang.org/grpc/"                  \
	  "status.Status",                                                                         \
	  "s")                                                                                     \
	X(CODE, GRPC_STATUS, "Code")                                                               \
	X(MESSAGE, GRPC_STATUS, "Message")                                                         \
	X(ERROR_S, "google.golang.org/grpc/internal/status.Error",                                 \
	  "s") /* a *Status; before 1.36 a */                                                      \
	X(ERROR_E, "google.golang.org/grpc/internal/status.Error", "e") /* *rpc.Status; before */  \
	/* 1.28 errors are *rpc.Status themselves */                                               \
	X(WRAP_SIZE, "fmt.wrapError", "")                                                          \
	X(WRAP_ERR, "fmt.wrapError", "err")                                                        \
	/* servers */                                                                              \
	X(STREAM_CTX, GRPC_T "Stream", "ctx")                                                      \
	X(STREAM_METHOD, GRPC_T "Stream", "method")                                                \
	X(SERVER_STREAM_ST, GRPC_T "ServerStream", "st") /* >= 1.69; 8: behind a *Stream */        \
	X(SERVER_PEER, GRPC_T "http2Server", "peer")     /* >= 1.60, a Peer, which begins as */    \
	X(SERVER_REMOTE, GRPC_T "http2Server", "remoteAddr") /* before */                          \
	X(HANDLER_REQ, GRPC_T "serverHandlerTransport", "req")                                     \
	X(REQ_REMOTE, "net/http.Request", "RemoteAddr")                                            \
	/* clients */                                                                              \
	X(CS_SIZE, "google.golang.org/grpc.clientStream", "")                                      \
	X(CS_HDR, "google.golang.org/grpc.clientStream", "callHdr")                                \
	X(CS_CTX, "google.golang.org/grpc.clientStream", "ctx")                                    \
	X(CS_CC, "google.golang.org/grpc.clientStream", "cc")                                      \
	X(CS_DESC, "google.golang.org/grpc.clientStream", "desc")                                  \
	X(CS_ATTEMPT, "google.golang.org/grpc.clientStream", "attempt")                            \
	X(CS_FIRST, "google.golang.org/grpc.clientStream", "firstAttempt")                         \
	X(ATTEMPT_CTX, "google.golang.org/grpc.csAttempt", "ctx")                                  \
	X(ATTEMPT_T, "google.golang.org/grpc.csAttempt", "t") /* < 1.71, since: */                 \
	X(ATTEMPT_TRANSPORT, "google.golang.org/grpc.csAttempt", "transport")                      \
	X(ATTEMPT_S, "google.golang.org/grpc.csAttempt", "s")                                      \
	X(ATTEMPT_STREAM, "google.golang.org/grpc.csAttempt", "transportStream")                   \
	X(HDR_METHOD, GRPC_T "CallHdr", "Method")                                                  \
	X(CC_TARGET, "google.golang.org/grpc.ClientConn", "target")                                \
	X(DESC_SERVER_STREAMS, "google.golang.org/grpc.StreamDesc", "ServerStreams")               \
	X(DESC_CLIENT_STREAMS, "google.golang.org/grpc.StreamDesc", "ClientStreams")               \
	X(CLIENT_REMOTE, GRPC_T "http2Client", "remoteAddr")                                       \
	/* outbound trace context */                                                               \
	X(LOOPY_FRAMER, GRPC_T "loopyWriter", "framer")                                            \
	X(FRAMER_FR, GRPC_T "framer", "fr")                                                        \
	X(H2_FRAMER_W, "golang.org/x/net/http2.Framer", "w")                                       \
	X(BUF_BUF, GRPC_T "bufWriter", "buf")          /* a []byte; since 1.85: */                 \
	X(BUF_HANDLE, GRPC_T "bufWriter", "bufHandle") /* a *[]byte */                             \
	X(BUF_OFFSET, GRPC_T "bufWriter", "offset")

#define X(id, type, field) F_##id,
enum grpc_field { GRPC_FIELDS(X) GRPC_NFIELDS };
#undef X

/* go_slot.parts: clients put a traceparent onto the wire. */
#define GRPC_PART_WRITE 0x10

/* Longest strings that are sent. */
#define GRPC_PEER_MAX   64
#define GRPC_STATE_MAX  512
#define GRPC_SERVER_MAX 256
#define GRPC_METHOD_MAX 256
#define GRPC_DATA_MAX   (GRPC_PEER_MAX + GRPC_STATE_MAX + GRPC_SERVER_MAX + GRPC_METHOD_MAX)

/* struct event.kind */
#define GRPC_OF_SERVER 0
#define GRPC_OF_CLIENT 1

#define GRPC_LITERAL 0x01 /* the method lies in the program's read-only data, at method_at */
#define GRPC_UNKNOWN 0x02 /* the server has no such method */

/* The record. The strings follow, without gaps: peer ("host:port", instead of ip), state
 * (tracestate), server (a client's target, a server's :authority), method ("/package.Service/
 * Method"). An operation that is not sampled has only the method. */
struct grpc_event {
	struct event ev;
	__u32 code; /* google.golang.org/grpc/codes */
	__u32 method_at;
	__u16 method_len, server_len, state_len, port;
	__u8 peer_len;
	__u8 ip_len; /* 0, 4 or 16 bytes of ip are the peer's address, with port */
	__u8 bits;   /* GRPC_* */
	__u8 pad[5];
	__u8 ip[16];
};
_Static_assert(sizeof(struct grpc_event) == 112, "wire layout changed");
_Static_assert(GRPC_NFIELDS <= GO_FIELDS_MAX, "struct go_slot has no room for more fields");
