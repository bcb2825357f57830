/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * go_exit.bpf.h - the end of a function: whether it ends here, and its results. For libraries with
 * probes that have `results`, see struct go_probe. */
#pragma once
#include "go.h"

/* The agent sets the size, and fills in what it has found before it attaches. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, struct op_key);
	__type(value, struct go_exit);
} exits SEC(".maps");

struct go_results {
	__u64 p[GO_RESULTS_MAX];
	__u64 sp; /* at the RET: what it was at the function's enter place */
	__u64 registers[16];
};

#if defined(__TARGET_ARCH_x86)
#define GO_IP(ctx) ((ctx)->rip)

/* In the order in which instructions number them. Copied one by one, for the verifier allows no
 * other way to choose one. */
static __always_inline void exit_registers(volatile __u64 *to, const struct pt_regs *ctx)
{
	to[0] = ctx->rax;
	to[1] = ctx->rcx;
	to[2] = ctx->rdx;
	to[3] = ctx->rbx;
	to[4] = ctx->rsp;
	to[5] = ctx->rbp;
	to[6] = ctx->rsi;
	to[7] = ctx->rdi;
	to[8] = ctx->r8;
	to[9] = ctx->r9;
	to[10] = ctx->r10;
	to[11] = ctx->r11;
	to[12] = ctx->r12;
	to[13] = ctx->r13;
	to[14] = ctx->r14;
	to[15] = ctx->r15;
}

/* Whether a jump on that condition is taken: Intel SDM, volume 1, appendix B. */
static __always_inline int exit_condition(const struct pt_regs *ctx, __u32 cc)
{
	__u64 f = ctx->eflags, carry = f & 1, parity = f >> 2 & 1, zero = f >> 6 & 1,
	      sign = f >> 7 & 1, overflow = f >> 11 & 1, is;

	switch (cc >> 1) {
	case 0:
		is = overflow;
		break;
	case 1:
		is = carry;
		break;
	case 2:
		is = zero;
		break;
	case 3:
		is = carry | zero;
		break;
	case 4:
		is = sign;
		break;
	case 5:
		is = parity;
		break;
	case 6:
		is = sign ^ overflow;
		break;
	default:
		is = zero | (sign ^ overflow);
	}
	return is != (cc & 1);
}
#else /* there the only ends are RETs */
#define GO_IP(ctx) (GO_ARM64(ctx)->pc)
#define exit_registers(to, ctx)
#define exit_condition(ctx, number) 1
#endif

/* The results of the function that ends here, as many as its probe asked for. 0; 1: it goes on, for
 * the jump here leads elsewhere; -1: they could not be read. r lies in a map: there is not so much
 * stack. */
static __always_inline int go_results(struct go_results *r, struct pt_regs *ctx,
				      const struct cookie *c)
{
	struct op_key k = { .slot = c->slot, .id = GO_IP(ctx) };
	const struct go_exit *e = bpf_map_lookup_elem(&exits, &k);

	if (!e) {
		r->p[0] = GO_P1(ctx);
		r->p[1] = GO_P2(ctx);
		r->p[2] = GO_P3(ctx);
		r->p[3] = GO_P4(ctx);
		r->sp = GO_SP(ctx);
		return 0;
	}
	if (e->when != GO_ALWAYS && !exit_condition(ctx, e->when))
		return 1;
	r->sp = GO_SP(ctx) + e->frame;
	exit_registers(r->registers, ctx);
#pragma clang loop unroll(full)
	for (__u32 i = 0; i < GO_RESULTS_MAX; i++) {
		r->p[i] = e->values[i];
		if (e->kinds[i] == GO_IN_REGISTER)
			r->p[i] = r->registers[e->values[i] & 15];
		else if (e->kinds[i] == GO_ON_STACK &&
			 go_read(&r->p[i], 8, GO_SP(ctx) + e->values[i]))
			return -1;
	}
	return 0;
}
