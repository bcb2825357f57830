/* ways.h - the instructions of a Go function, what can follow each, and what of the results is
 * known before its RETs. Of exits.c alone. */
#pragma once
#include "gobin/exits.h"
#include <Zydis/Zydis.h>

/* Larger functions are not looked at. */
#define INSNS_MAX (1u << 14)
#define NONE      UINT32_MAX

enum kind { FALL, JUMP, BRANCH, CALL, CALL_FAR, RETURN, STOP };

struct insn {
	uint32_t at;
	uint32_t target; /* JUMP, BRANCH: index */
	uint8_t length, kind, cc;
	bool emulated;
	bool barrier; /* CALL of a write barrier */
	bool ends;    /* nothing but RETs can follow, and soon */
	bool chosen;
	bool open;       /* there is a way from here to a RET that passes no place chosen so far */
	bool mixed;      /* and there is one that does */
	uint8_t covered; /* chosen for one side only: bit 0 what is behind, bit 1 where it jumps */
};

struct ways {
	const struct exits_code *code;
	ZydisDecoder decoder;
	struct insn *insns;
	uint32_t n;
	uint32_t *order; /* those that end, each behind all that can follow it */
	uint32_t norder;
	uint32_t *stack; /* n, scratch */
	size_t want;
	struct gobin_exit *places; /* n: what a chosen one knows; at its index */
};

/* Decodes the whole function. f->insns has room. 0; -ENOTSUP: something that we do not understand.
 */
int ways_read(struct ways *f) must_check;
/* The instruction at that offset. */
bool ways_decode(const struct ways *f, uint32_t at, ZydisDecodedInstruction *d,
		 ZydisDecodedOperand *ops) must_check;
/* What can follow instruction k: next[0] the one behind it, next[1] where it jumps; NONE: not. */
void ways_next(const struct ways *f, uint32_t k, uint32_t next[2]);
/* Follows all ways of the set `from` (bit 0: behind instruction k, bit 1: where it jumps) to their
 * RETs, which all of them have. False: the results are not known at k. */
bool ways_follow(const struct ways *f, uint32_t k, unsigned from,
		 struct gobin_exit *out) must_check;
