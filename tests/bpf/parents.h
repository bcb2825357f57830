/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * parents.h - what the unit test of bpf/parent.bpf.h asks of its BPF program: one call of one of
 * its functions, on memory of the test itself. */
#pragma once
#include "bpf/event.h"

#define PARENTS_LEND     1
#define PARENTS_UNLEND   2
#define PARENTS_ENTER    3
#define PARENTS_LEAVE    4
#define PARENTS_PARENT   5
#define PARENTS_COVER    6
#define PARENTS_IDENTIFY 7

struct parents_op {
	__u32 active;
	__u8 flags, covered;
	__u16 pad;
	__u64 ctx, depth;
	__u8 trace_id[16], span_id[8], parent_id[8];
};

struct parents_call {
	struct event ev; /* in and out */
	__u32 what, how; /* PARENTS_*; LEND_*, or whether to keep */
	__u64 goid, parent, depth;
	__u64 itab, data;
	__u64 result;
	struct go_slot slot;
	struct {
		struct parents_op before;
		__u64 depth;
	} entered;
};
