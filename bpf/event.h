/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * event.h - the wire contract between bpf/ and agent/. Included by both sides, so: fixed-width
 * types, explicit padding, no pointer, enum or bool members. */
#pragma once
#include <linux/types.h>

/* Written by the agent at attach time, handed back by the kernel on every hit, copied into every
 * event: the only identity that crosses the boundary. */
struct cookie {
	__u16 slot; /* which traced process: index into the target table and each library's slots
		       map */
	__u8 lib;   /* index of the library in the agent's list */
	__u8 probe; /* index in the library's probe table */
	__u32 generation; /* of the slot: it is reused only with a new one */
};

/* Every library has this many places in the dispatcher's PROG_ARRAY: enter programs, then leave
 * programs. */
#define LIB_PROBES_MAX 16
#define LIBS_MAX       32

#define EVENT_SAMPLED  0x01 /* W3C trace flag "sampled", as decided */
#define EVENT_REMOTE   0x02 /* trace and parent ids came from a header */
#define EVENT_BAD_TP   0x04 /* there was a header with a trace's ids, and it was malformed */
#define EVENT_PANICKED 0x08 /* the handler panicked */
#define EVENT_CUT      0x10 /* at least one string was longer than its limit */
#define EVENT_LOCAL    0x20 /* trace and parent ids are those of a live operation of this process */
#define EVENT_STARTED  0x40 /* of the one whose goroutine started this one: an inference */
#define EVENT_HEALTH   0x80 /* a health probe of the kubelet's, or done for one */

/* Head of every record on the ring. What follows is the library's. */
struct event {
	__u32 size; /* of the whole record, this header included */
	__u16 kind; /* the library's own; 0 when it has one kind only */
	__u8 flags; /* EVENT_* */
	__u8 sdk;   /* SDK_* */
	struct cookie cookie;
	__u64 start_ns, end_ns; /* CLOCK_BOOTTIME */
	__u64 goid;
	__u8 trace_id[16];
	__u8 span_id[8];
	__u8 parent_id[8]; /* zero: a root */
};

/* What a tracing SDK that the program brings along has to do with an operation. */
#define SDK_PARENT 0x01 /* its span is the parent */
#define SDK_LEFT   0x02 /* it sends a span of this very operation: ours is not sent */

/* How a Go map[string][]string is laid out in this binary. */
#define GO_MAP_NONE  0 /* unknown: headers are not read */
#define GO_MAP_OLD   1 /* buckets, Go <= 1.23 */
#define GO_MAP_SWISS 2 /* groups, Go >= 1.24 */

#define GO_FIELDS_MAX 64
#define GO_ABSENT     0xffff
/* Structs are read as a whole, and no more of them than this: a field that begins in its last 16
 * bytes (a string takes them) or later is as good as absent. */
#define GO_STRUCT_MAX 336

/* Fields that every library may use; they come first in each library's own list. */
#define GO_RUNTIME_FIELDS(X)                                                                       \
	X(G_GOID, "runtime.g", "goid")                                                             \
	X(G_PANIC, "runtime.g", "_panic")                                                          \
	X(G_PARENT_GOID, "runtime.g", "parentGoid")

/* How the root and the parent decide (agent/trace/sampler.h fills it). */
#define SAMPLE_ROOT        0 /* decide as if there were no parent, by the ratio */
#define SAMPLE_LIKE_PARENT 1 /* follow the inbound sampled flag */

/* Spans of an OpenTelemetry SDK in the memory of this process. A context.Context that holds one is
 * made by context.WithValue: its value's type is one of these two. */
struct go_sdk {
	__u64 span; /* address of the type *sdk/trace.recordingSpan as loaded; 0: there is none, or
		       its spans are of no interest */
	__u64 none; /* of sdk/trace.nonRecordingSpan */
	__u16 span_at, none_at; /* where its SpanContext lies: trace id 0, span id 16, flags 24 */
	__u16 kind_at;          /* spanKind of a recordingSpan */
	__u8 leave; /* operations of which the SDK sends a span of its own are left to it */
	__u8 pad;
};

/* Trace headers besides traceparent. */
#define INBOUND_B3 0x01

/* struct go_slot.options */
#define GO_OPTION_STARTED 0x01 /* parents.starting_goroutine */
#define GO_OPTION_METRICS 0x02 /* operations are measured: also those that are not sampled */
#define GO_OPTION_BLIND                                                                            \
	0x04 /* the program serves requests that no probe sees: ids that it puts onto the wire may \
	      * be those that one of them came with                                                \
	      */
#define GO_OPTION_LEND 0x08 /* operations may have parents, or be covered, in this program */

/* One entry of a library's "slots" ARRAY map: all that its probes must know of one process. */
struct go_slot {
	__u32 generation; /* 0: the slot is not in use, the probe does nothing */
	__u32 parts; /* bit n: part n of the library is whole in this binary, see struct go_part */
	__u64 sample_below;  /* a root is sampled when the last 8 bytes of its trace id, big-endian,
				are below; ~0: always */
	__u8 sample_inbound; /* SAMPLE_* */
	__u8 map_kind;       /* GO_MAP_* */
	__u16 map_group;     /* GO_MAP_SWISS: bytes of a group, and in it: */
	__u16 map_key, map_key_stride, map_elem, map_elem_stride;
	__u8 inbound; /* INBOUND_*: headers that are read besides traceparent */
	__u8 options; /* GO_OPTION_* */
	__u8 pad[2];
	struct go_sdk sdk;
	__u64 ro_lo, ro_hi; /* read-only data as loaded: a string in here is a literal, sent as its
			       offset; 0: none */
	__u64 types;        /* as loaded: names of types are offsets from here; 0: not known */
	__u16 at[GO_FIELDS_MAX]; /* byte offsets of the library's fields, GO_ABSENT where unknown */
};

/* Where the words of a function's results are at a place where it ends, see agent/gobin/exits.h.
 * The entry of a library's "exits" map that has the slot and the instruction's address as its key;
 * a place without one is a RET. */
#define GO_RESULTS_MAX 4
#define GO_IN_REGISTER 1 /* value: its number as instructions have it, 0: RAX */
#define GO_ON_STACK    2 /* value: offset from SP */
#define GO_CONSTANT    3
#define GO_ALWAYS      16

struct go_exit {
	__u8 when; /* condition code of the jump, true where the function ends from here; GO_ALWAYS
		    */
	__u8 kinds[GO_RESULTS_MAX]; /* GO_IN_REGISTER... */
	__u8 pad[3];
	__s64 values[GO_RESULTS_MAX];
	__u64 frame; /* from SP here to SP at the RET */
};

/* Key of every hash map in which a library remembers something of one process: the agent purges by
 * the slot. Values of operations begin with a __u32 that is not 0 while one is open. */
struct op_key {
	__u32 slot, pad;
	__u64 id; /* the library's: address of g, goid, a pointer */
};

/* Bytes of a slot's entry in a library's "shares" map, see share.h. */
#define SHARE_SIZE 64

/* Entries of a library's "write_rooms" map where FEATURE_WRITE is on. A power of 2. */
#define WRITE_ROOMS 32

/* The one entry of the mmapped `control` map. */
struct control {
	__u32 sleeping; /* the events thread sleeps: the next record wakes it and clears this */
	__u32 pad;
};

/* cookie.probe of a leave place has this bit. */
#define COOKIE_LEAVE 0x80

/* Place of a probe's program in the dispatcher's PROG_ARRAY; probe as in the cookie. */
#define PROGS_MAX (LIBS_MAX * 2 * LIB_PROBES_MAX)
static inline __u32 progs_index(__u8 lib, __u8 probe)
{
	return (__u32)lib * 2 * LIB_PROBES_MAX + (probe & COOKIE_LEAVE ? LIB_PROBES_MAX : 0) +
	       (probe & (LIB_PROBES_MAX - 1));
}

/* One record of the exec ring: a process has called execve. pid and tgid of the initial PID
 * namespace. */
struct exec_event {
	__u32 pid, pad;
	__u64 time_ns; /* CLOCK_BOOTTIME */
};

/* What the self-test's program saw; the only global variable of core.bpf.c. */
struct selftest_seen {
	__u32 hits;
	__u32 pid; /* of the last one, in the initial PID namespace */
};

_Static_assert(sizeof(struct cookie) == 8, "the cookie is the kernel's u64");
_Static_assert(sizeof(struct event) == 72, "wire layout changed");
_Static_assert(sizeof(struct go_slot) == 208, "wire layout changed");
_Static_assert(sizeof(struct go_exit) == 48, "wire layout changed");
_Static_assert(sizeof(struct op_key) == 16, "wire layout changed");
_Static_assert(sizeof(struct control) == 8, "wire layout changed");
_Static_assert(sizeof(struct exec_event) == 16, "wire layout changed");
