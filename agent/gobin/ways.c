#include "gobin/ways.h"

#define PATHS_MAX 64 /* so many ways from a place to RETs are followed */
#define SLOTS_MAX 24

/* ---- instructions ---- */

static bool is_barrier(const struct exits_code *code, uint64_t target)
{
	for (size_t i = 0; i < code->nbarriers; i++)
		if (code->barriers[i] == target)
			return true;
	return false;
}

/* Direct jumps and calls have one immediate operand, relative to what follows. */
static bool relative(const ZydisDecodedInstruction *d, const ZydisDecodedOperand *ops, uint32_t at,
		     int64_t *target)
{
	if (!d->operand_count_visible || ops[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
	    !ops[0].imm.is_relative)
		return false;
	*target = (int64_t)at + d->length + ops[0].imm.value.s;
	return true;
}

/* False: control may go where we do not see. target: an offset for now. */
static bool classify(const struct exits_code *code, const uint8_t *bytes,
		     const ZydisDecodedInstruction *d, const ZydisDecodedOperand *ops,
		     struct insn *i)
{
	int64_t target;

	i->length = d->length;
	i->kind = FALL;
	switch (d->meta.category) {
	case ZYDIS_CATEGORY_RET:
		i->kind = RETURN;
		return true;
	case ZYDIS_CATEGORY_CALL:
		i->kind = CALL_FAR;
		if (!relative(d, ops, i->at, &target))
			return true;
		i->kind = CALL;
		i->emulated = bytes[0] == 0xe8;
		i->barrier = is_barrier(code, code->addr + (uint64_t)target);
		return true;
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_COND_BR:
		if (!relative(d, ops, i->at, &target))
			return false;
		i->kind = d->meta.category == ZYDIS_CATEGORY_COND_BR ? BRANCH : JUMP;
		if (target < 0 || (uint64_t)target >= code->size) {
			if (i->kind == BRANCH)
				return false;
			i->kind = STOP; /* a tail call: no RET of ours */
			return true;
		}
		i->target = (uint32_t)target;
		if (i->kind == JUMP) {
			i->emulated = bytes[0] == 0xe9 || bytes[0] == 0xeb;
		} else {
			i->emulated = (bytes[0] & 0xf0) == 0x70 ||
				      (bytes[0] == 0x0f && (bytes[1] & 0xf0) == 0x80);
			i->cc = (bytes[0] == 0x0f ? bytes[1] : bytes[0]) & 15;
		}
		return true;
	default:
		break;
	}
	if (d->mnemonic == ZYDIS_MNEMONIC_UD2 || d->mnemonic == ZYDIS_MNEMONIC_INT3 ||
	    d->mnemonic == ZYDIS_MNEMONIC_HLT)
		i->kind = STOP;
	return true;
}

bool ways_decode(const struct ways *f, uint32_t at, ZydisDecodedInstruction *d,
		 ZydisDecodedOperand *ops)
{
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&f->decoder, f->code->bytes + at,
						   f->code->size - at, d, ops));
}

static uint32_t index_of(const struct ways *f, uint32_t at)
{
	uint32_t lo = 0, hi = f->n;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;

		if (f->insns[mid].at < at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < f->n && f->insns[lo].at == at ? lo : NONE;
}

int ways_read(struct ways *f)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction d;

	for (uint32_t at = 0; at < f->code->size; at += d.length) {
		struct insn *i = &f->insns[f->n];

		if (f->n == INSNS_MAX || !ways_decode(f, at, &d, ops))
			return -ENOTSUP;
		*i = (struct insn){ .at = at, .target = NONE };
		if (!classify(f->code, f->code->bytes + at, &d, ops, i))
			return -ENOTSUP;
		f->n++;
	}
	for (uint32_t k = 0; k < f->n; k++) {
		struct insn *i = &f->insns[k];

		if (i->target == NONE)
			continue;
		i->target = index_of(f, i->target);
		if (i->target == NONE)
			return -ENOTSUP;
	}
	return 0;
}

void ways_next(const struct ways *f, uint32_t k, uint32_t next[2])
{
	const struct insn *i = &f->insns[k];

	next[0] = next[1] = NONE;
	if (i->kind != JUMP && i->kind != RETURN && i->kind != STOP && k + 1 < f->n)
		next[0] = k + 1;
	if (i->kind == JUMP || i->kind == BRANCH)
		next[1] = i->target;
}

/* ---- what is where ---- */

struct value {
	uint8_t kind; /* GO_*, 0: not known */
	bool address;
	int64_t v;
};

struct slot {
	int64_t at;
	struct value value;
};

struct state {
	uint32_t next;
	int64_t sp; /* against SP at the place */
	struct value regs[16];
	struct slot slots[SLOTS_MAX];
	uint32_t nslots;
};

static const struct value unknown;

static int reg_number(ZydisRegister r)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);

	if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15)
		return -1;
	return (int)(whole - ZYDIS_REGISTER_RAX);
}

#define SP_NUMBER 4

/* False: too many slots to keep in mind. */
static bool slot_set(struct state *s, int64_t at, struct value v)
{
	for (uint32_t i = 0; i < s->nslots; i++) {
		if (s->slots[i].at == at) {
			s->slots[i].value = v;
			return true;
		}
		if (s->slots[i].at > at - 8 && s->slots[i].at < at + 8)
			s->slots[i].value = unknown; /* overlaps */
	}
	if (s->nslots == SLOTS_MAX)
		return false;
	s->slots[s->nslots++] = (struct slot){ at, v };
	return true;
}

static struct value slot_get(const struct state *s, int64_t at)
{
	for (uint32_t i = 0; i < s->nslots; i++) {
		if (s->slots[i].at == at)
			return s->slots[i].value;
		if (s->slots[i].at > at - 8 && s->slots[i].at < at + 8)
			return unknown;
	}
	return (struct value){ .kind = GO_ON_STACK, .v = at };
}

static bool on_stack(const ZydisDecodedOperand *op)
{
	return op->type == ZYDIS_OPERAND_TYPE_MEMORY && op->mem.base == ZYDIS_REGISTER_RSP &&
	       op->mem.index == ZYDIS_REGISTER_NONE;
}

/* The value of a source operand. */
static struct value source(const struct ways *f, const struct insn *i, const struct state *s,
			   const ZydisDecodedInstruction *d, const ZydisDecodedOperand *op)
{
	int r;

	switch (op->type) {
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		return (struct value){ .kind = GO_CONSTANT, .v = op->imm.value.s };
	case ZYDIS_OPERAND_TYPE_REGISTER:
		r = reg_number(op->reg.value);
		return r >= 0 && op->size == 64 ? s->regs[r] : unknown;
	case ZYDIS_OPERAND_TYPE_MEMORY:
		if (d->mnemonic == ZYDIS_MNEMONIC_LEA) {
			if (op->mem.base != ZYDIS_REGISTER_RIP)
				return unknown;
			return (struct value){ .kind = GO_CONSTANT,
					       .address = true,
					       .v = (int64_t)(f->code->addr + i->at + i->length) +
						    op->mem.disp.value };
		}
		return on_stack(op) && op->size == 64 ? slot_get(s, s->sp + op->mem.disp.value)
						      : unknown;
	default:
		return unknown;
	}
}

/* Go keeps X15 zero. */
static bool stores_zeros(const ZydisDecodedInstruction *d, const ZydisDecodedOperand *ops)
{
	return d->mnemonic == ZYDIS_MNEMONIC_MOVUPS && ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ops[1].reg.value == ZYDIS_REGISTER_XMM15;
}

static bool is_zeroing(const ZydisDecodedInstruction *d, const ZydisDecodedOperand *ops)
{
	return d->mnemonic == ZYDIS_MNEMONIC_XOR && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER && ops[0].reg.value == ops[1].reg.value &&
	       ops[0].size >= 32;
}

/* What is written to: memory of the frame, or a register. */
static bool write_to(struct state *s, const ZydisDecodedOperand *op, struct value v)
{
	int r;

	if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		if (op->mem.base != ZYDIS_REGISTER_RSP)
			return true; /* not our frame: what is spilled there has no address */
		if (op->mem.index != ZYDIS_REGISTER_NONE)
			return false;
		for (int64_t k = 0; k < (op->size + 63) / 64; k++)
			if (!slot_set(s, s->sp + op->mem.disp.value + 8 * k,
				      op->size == 64 || v.kind == GO_CONSTANT ? v : unknown))
				return false;
		return true;
	}
	r = op->type == ZYDIS_OPERAND_TYPE_REGISTER ? reg_number(op->reg.value) : -1;
	if (r == SP_NUMBER)
		return false; /* only ways that step() knows */
	if (r >= 0)
		s->regs[r] = v;
	return true;
}

/* add and sub of constants, lea, pop: how SP moves. 1: done, 0: SP stays, -1: we cannot tell. */
static int step_sp(struct state *s, const ZydisDecodedInstruction *d,
		   const ZydisDecodedOperand *ops)
{
	bool to_sp = ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		     ops[0].reg.value == ZYDIS_REGISTER_RSP;
	int r;

	switch (d->mnemonic) {
	case ZYDIS_MNEMONIC_POP:
		r = ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER ? reg_number(ops[0].reg.value) : -1;
		if (r < 0 || r == SP_NUMBER)
			return -1;
		s->regs[r] = slot_get(s, s->sp);
		s->sp += 8;
		return 1;
	case ZYDIS_MNEMONIC_PUSH:
		return -1;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
		if (!to_sp)
			return 0;
		if (ops[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
			return -1;
		s->sp += d->mnemonic == ZYDIS_MNEMONIC_ADD ? ops[1].imm.value.s
							   : -ops[1].imm.value.s;
		return 1;
	default:
		return 0;
	}
}

/* Calls keep nothing in registers; the write barriers keep all but R11. */
static void step_call(struct state *s, const struct insn *i)
{
	for (int r = 0; r < 16; r++)
		if (!i->barrier || r == 11)
			s->regs[r] = unknown;
}

/* Runs one instruction that is no jump. False: beyond us. */
static bool step(const struct ways *f, const struct insn *i, struct state *s)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction d;
	struct value v = unknown;
	int sp;

	if (i->kind == CALL || i->kind == CALL_FAR) {
		step_call(s, i);
		return true;
	}
	if (!ways_decode(f, i->at, &d, ops))
		return false;
	sp = step_sp(s, &d, ops);
	if (sp)
		return sp > 0;
	if (d.mnemonic == ZYDIS_MNEMONIC_MOV || d.mnemonic == ZYDIS_MNEMONIC_LEA) {
		v = source(f, i, s, &d, &ops[1]);
		if (ops[0].size < 32 || (ops[0].size < 64 && v.kind != GO_CONSTANT))
			v = unknown;
		if (ops[0].size == 32)
			v.v = (uint32_t)v.v;
	} else if (stores_zeros(&d, ops) || is_zeroing(&d, ops)) {
		v = (struct value){ .kind = GO_CONSTANT };
	}
	for (int k = 0; k < d.operand_count; k++)
		if (ops[k].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE && !write_to(s, &ops[k], v))
			return false;
	return true;
}

static const uint8_t result_regs[GO_RESULTS_MAX] = { 0, 3, 1, 7 }; /* RAX RBX RCX RDI */

/* At a RET: the results, or that they differ from those of another way. */
static bool conclude(const struct ways *f, const struct state *s, struct gobin_exit *out,
		     bool first)
{
	for (size_t k = 0; k < f->want; k++) {
		const struct value *v = &s->regs[result_regs[k]];

		if (!v->kind)
			return false;
		if (first) {
			out->exit.kinds[k] = v->kind;
			out->exit.values[k] = v->v;
			out->constant_is_address[k] = v->address;
		} else if (out->exit.kinds[k] != v->kind || out->exit.values[k] != v->v ||
			   out->constant_is_address[k] != v->address) {
			return false;
		}
	}
	if (first)
		out->exit.frame = (uint64_t)s->sp;
	return out->exit.frame == (uint64_t)s->sp && s->sp >= 0;
}

bool ways_follow(const struct ways *f, uint32_t k, unsigned from, struct gobin_exit *out)
{
	auto_free struct state *ways = calloc(PATHS_MAX, sizeof(*ways));
	uint32_t next[2], n = 0, steps = 0;
	bool first = true;
	struct state start = { 0 };

	if (!ways)
		return false;
	for (int r = 0; r < 16; r++)
		start.regs[r] = (struct value){ .kind = GO_IN_REGISTER, .v = r };
	start.regs[SP_NUMBER] = unknown;
	if (f->insns[k].kind == CALL)
		step_call(&start, &f->insns[k]);
	ways_next(f, k, next);
	for (int side = 0; side < 2; side++)
		if (from >> side & 1) {
			ways[n] = start;
			ways[n++].next = next[side];
		}
	while (n) {
		struct state *s = &ways[n - 1];
		const struct insn *i = &f->insns[s->next];

		if (++steps > INSNS_MAX)
			return false;
		if (i->kind == RETURN) {
			if (!conclude(f, s, out, first))
				return false;
			first = false;
			n--;
			continue;
		}
		if (i->kind != JUMP && i->kind != BRANCH && !step(f, i, s))
			return false;
		ways_next(f, s->next, next);
		if (i->kind == BRANCH) {
			if (n == PATHS_MAX)
				return false;
			ways[n] = *s;
			ways[n++].next = next[1];
		}
		s->next = i->kind == JUMP ? next[1] : next[0];
	}
	return !first;
}
