/* insn.h - where in a Go function probes go. Pure: bytes in, offsets out. */
#pragma once
#include "gobin/gobin.h"

/* Longest stack check of the recipes, and one instruction behind it. */
#define INSN_HEAD 48

/* code: the first n bytes of a function (those that the file has, at most INSN_HEAD are used).
 * Fills *enter with the offset of the place, *emulated with whether the kernel emulates the
 * instruction there. */
enum gobin_place insn_enter(bool arm64, const uint8_t *code, size_t n, uint32_t *enter,
			    bool *emulated);
/* Offsets of the return instructions in a whole function. *n: how many, at most max. 0; -ENOTSUP:
 * an instruction could not be decoded; -E2BIG: more than max. */
int insn_rets(bool arm64, const uint8_t *code, size_t size, uint64_t *offsets, size_t max,
	      size_t *n) must_check;

/* A call whose results a probe takes from their registers. */
struct insn_call {
	uint64_t caller, callee; /* virtual addresses of the two functions */
	uint32_t results;        /* bit n: result n + 1 of ABIInternal */
};
/* Offsets of the first instructions behind such calls, in the caller's whole code, that the kernel
 * emulates: each is reached only from the call, with the results still in their registers. *n: how
 * many, at most max. 0; -ENOTSUP: a call has no such place, or not for this machine; -E2BIG: more
 * than max. */
int insn_returned(bool arm64, const uint8_t *code, size_t size, const struct insn_call *call,
		  uint64_t *offsets, size_t max, size_t *n) must_check;

/* The first `max` references of a whole function that lies at that address, see gobin_refs(). 0;
 * -ENOTSUP: an instruction could not be decoded, or not for this machine. */
int insn_refs(bool arm64, const uint8_t *code, size_t size, uint64_t addr, struct gobin_ref *out,
	      size_t max, size_t *n) must_check;
