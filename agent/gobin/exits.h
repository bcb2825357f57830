/* exits.h - where a Go function ends, at instructions that the kernel emulates, and where its
 * results are there. Pure: bytes in, places out.
 *
 * A RET is single-stepped and costs as much as five probes elsewhere. But on most ways to a RET
 * there is a jump or a call from which nothing but that RET can follow, and at which the results
 * are known: in registers, in slots of the frame, or constants. Such a place is as good as the RET.
 * Where there is none, the RET is taken: together they are passed exactly once by each call that
 * returns. */
#pragma once
#include "gobin/gobin.h"

struct exits_code {
	const uint8_t *bytes;
	size_t size;
	uint64_t addr;            /* of bytes, as linked */
	const uint64_t *barriers; /* entries of runtime.gcWriteBarrier*, which change no register */
	size_t nbarriers;
};

/* x86-64 only. want: how many results, in words. Offsets in out are from the function's start. 0;
 * -ENOTSUP: an instruction or a way through the function that we do not understand: take its RETs;
 * -E2BIG: more than max. */
int exits_find(const struct exits_code *code, size_t want, struct gobin_exit *out, size_t max,
	       size_t *n) must_check;
