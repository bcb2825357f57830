/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * toy.h - contract of the halves of `toy`, a library that traces two C functions of the attach test
 * itself. */
#pragma once
#include "bpf/event.h"

#define TOY_FIELDS(X)                                                                              \
	GO_RUNTIME_FIELDS(X)                                                                       \
	X(TOY_FOUND, "toy.T", "found")                                                             \
	X(TOY_MISSING, "toy.T", "missing")

#define X(id, type, field) id,
enum toy_field { TOY_FIELDS(X) TOY_NFIELDS };
#undef X

struct toy_event {
	struct event head;
	__u32 found, missing; /* offsets as the probe saw them */
	__u32 parts;
	__u32 calls_before; /* counted by the leave program */
	__u64 argument;
	__u64 ro_lo, ro_hi;
};
