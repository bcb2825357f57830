#include "gobin/insn.h"
#include <Zydis/Zydis.h>

/* Stack checks at function entries, as the Go compiler has written them since 1.17
 * (cmd/internal/obj/x86/obj6.go: stacksplit). A function whose stack must grow runs its first
 * instruction twice, so probes go behind. -1 stands for any byte. */
struct recipe {
	int16_t bytes[32];
	uint8_t n;
};

#define ANY4    -1, -1, -1, -1
#define CMP_SP  0x49, 0x3b, 0x66, 0x10 /* cmp 0x10(%r14),%rsp: small frames */
#define CMP_R12 0x4d, 0x3b, 0x66, 0x10 /* cmp 0x10(%r14),%r12 */
#define JBE8    0x76, -1
#define JBE32   0x0f, 0x86, ANY4

static const struct recipe recipes[] = {
	{ { CMP_SP, JBE8 }, 6 },
	{ { CMP_SP, JBE32 }, 10 },
	/* large: lea -N(%rsp),%r12 */
	{ { 0x4c, 0x8d, 0x64, 0x24, -1, CMP_R12, JBE8 }, 11 },
	{ { 0x4c, 0x8d, 0x64, 0x24, -1, CMP_R12, JBE32 }, 15 },
	{ { 0x4c, 0x8d, 0xa4, 0x24, ANY4, CMP_R12, JBE8 }, 14 },
	{ { 0x4c, 0x8d, 0xa4, 0x24, ANY4, CMP_R12, JBE32 }, 18 },
	/* huge: mov %rsp,%r12; sub $N,%r12; jb */
	{ { 0x49, 0x89, 0xe4, 0x49, 0x81, 0xec, ANY4, 0x72, -1, CMP_R12, JBE8 }, 18 },
	{ { 0x49, 0x89, 0xe4, 0x49, 0x81, 0xec, ANY4, 0x72, -1, CMP_R12, JBE32 }, 22 },
	{ { 0x49, 0x89, 0xe4, 0x49, 0x81, 0xec, ANY4, 0x0f, 0x82, ANY4, CMP_R12, JBE8 }, 22 },
	{ { 0x49, 0x89, 0xe4, 0x49, 0x81, 0xec, ANY4, 0x0f, 0x82, ANY4, CMP_R12, JBE32 }, 26 },
};

/* What stands behind every stack check: push %rbp since Go 1.21, before it a sub (or the add of
 * -128). */
static const struct recipe behind[] = {
	{ { 0x55 }, 1 },
	{ { 0x48, 0x83, 0xec }, 3 },
	{ { 0x48, 0x81, 0xec }, 3 },
	{ { 0x48, 0x83, 0xc4, 0x80 }, 4 },
};

static bool matches(const struct recipe *r, const uint8_t *code, size_t n)
{
	if (n < r->n)
		return false;
	for (size_t i = 0; i < r->n; i++)
		if (r->bytes[i] >= 0 && r->bytes[i] != code[i])
			return false;
	return true;
}

/* arch/x86/kernel/uprobes.c, push_setup_xol_ops() and branch_setup_xol_ops(). */
static bool is_emulated(const uint8_t *code, size_t n)
{
	if (n && code[0] == 0x41)
		return n > 1 && code[1] >= 0x50 && code[1] <= 0x57;
	if (n > 1 && code[0] == 0x0f)
		return code[1] >= 0x80 && code[1] <= 0x8f;
	return n && ((code[0] >= 0x50 && code[0] <= 0x57) || (code[0] >= 0x70 && code[0] <= 0x7f) ||
		     code[0] == 0x90 || code[0] == 0xe8 || code[0] == 0xe9 || code[0] == 0xeb);
}

/* True: the first bytes look at the stack bound in a way that no recipe knows. */
static bool checks_stack(const uint8_t *code, size_t n)
{
	static const uint8_t sp[] = { CMP_SP }, r12[] = { CMP_R12 };

	for (size_t i = 0; i + 4 <= n && i + 4 <= 36; i++)
		if (memcmp(code + i, sp, 4) == 0 || memcmp(code + i, r12, 4) == 0)
			return true;
	return false;
}

static enum gobin_place enter_x86(const uint8_t *code, size_t n, uint32_t *enter, bool *emulated)
{
	for (size_t i = 0; i < ARRAY_SIZE(recipes); i++) {
		if (!matches(&recipes[i], code, n))
			continue;
		for (size_t j = 0; j < ARRAY_SIZE(behind); j++)
			if (matches(&behind[j], code + recipes[i].n, n - recipes[i].n)) {
				*enter = recipes[i].n;
				*emulated = is_emulated(code + *enter, n - *enter);
				return GOBIN_PLACE_CHECKED;
			}
		return GOBIN_PLACE_REFUSED;
	}
	if (!n || checks_stack(code, n))
		return GOBIN_PLACE_REFUSED;
	*enter = 0;
	*emulated = is_emulated(code, n);
	return GOBIN_PLACE_ENTRY;
}

/* ldr x16,[x28,#16]; then sp (or x17, what sp will be) is compared and b.ls taken: obj7.go,
 * stacksplit. */
static enum gobin_place enter_arm64(const uint8_t *code, size_t n, uint32_t *enter, bool *emulated)
{
	uint32_t op[INSN_HEAD / 4];
	size_t count = n / 4 < ARRAY_SIZE(op) ? n / 4 : ARRAY_SIZE(op);

	memcpy(op, code, count * 4);
	*emulated = false;
	if (!count)
		return GOBIN_PLACE_REFUSED;
	if (op[0] != 0xf9400b90) {
		for (size_t i = 1; i < count; i++)
			if (op[i] == 0xf9400b90)
				return GOBIN_PLACE_REFUSED;
		*enter = 0;
		return GOBIN_PLACE_ENTRY;
	}
	for (size_t i = 1; i + 1 < count && i < 8; i++)
		if ((op[i] & 0xff00001f) == 0x54000009) {
			*enter = (uint32_t)(4 * (i + 1));
			return GOBIN_PLACE_CHECKED;
		}
	return GOBIN_PLACE_REFUSED;
}

enum gobin_place insn_enter(bool arm64, const uint8_t *code, size_t n, uint32_t *enter,
			    bool *emulated)
{
	if (n > INSN_HEAD)
		n = INSN_HEAD;
	return arm64 ? enter_arm64(code, n, enter, emulated) : enter_x86(code, n, enter, emulated);
}

static int rets_arm64(const uint8_t *code, size_t size, uint64_t *offsets, size_t max, size_t *n)
{
	for (size_t at = 0; at + 4 <= size; at += 4) {
		uint32_t op;

		memcpy(&op, code + at, sizeof(op));
		if ((op & 0xfffffc1f) != 0xd65f0000)
			continue;
		if (*n == max)
			return -E2BIG;
		offsets[(*n)++] = at;
	}
	return 0;
}

static int rets_x86(const uint8_t *code, size_t size, uint64_t *offsets, size_t max, size_t *n)
{
	ZydisDecodedInstruction insn;
	ZydisDecoder decoder;

	if (!ZYAN_SUCCESS(
		    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return -ENOTSUP;
	for (size_t at = 0; at < size; at += insn.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code + at,
								size - at, &insn)))
			return -ENOTSUP;
		if (insn.mnemonic != ZYDIS_MNEMONIC_RET)
			continue;
		if (*n == max)
			return -E2BIG;
		offsets[(*n)++] = at;
	}
	return 0;
}

int insn_rets(bool arm64, const uint8_t *code, size_t size, uint64_t *offsets, size_t max,
	      size_t *n)
{
	*n = 0;
	return arm64 ? rets_arm64(code, size, offsets, max, n)
		     : rets_x86(code, size, offsets, max, n);
}

/* So many instructions lie between a call and its place, at most. */
#define RETURNED_STEPS 16

static bool decode(const uint8_t *code, size_t size, size_t at, ZydisDecodedInstruction *insn,
		   ZydisDecodedOperand *operands)
{
	ZydisDecoder decoder;

	return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
					     ZYDIS_STACK_WIDTH_64)) &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, size - at, insn, operands));
}

/* Where a direct jump or call goes: offset from the function's start, wrapping around; false: it is
 * none. */
static bool branches_to(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operands,
			size_t at, uint64_t *to)
{
	for (size_t i = 0; i < insn->operand_count_visible; i++)
		if (operands[i].type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
		    operands[i].imm.is_relative) {
			*to = at + insn->length + (uint64_t)operands[i].imm.value.s;
			return true;
		}
	return false;
}

/* Whether the instruction changes the register of one of the results. */
static bool overwrites(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operands,
		       uint32_t results)
{
	static const ZydisRegister order[] = {
		ZYDIS_REGISTER_RAX, ZYDIS_REGISTER_RBX, ZYDIS_REGISTER_RCX,
		ZYDIS_REGISTER_RDI, ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_R8,
		ZYDIS_REGISTER_R9,  ZYDIS_REGISTER_R10, ZYDIS_REGISTER_R11,
	};

	for (size_t i = 0; i < insn->operand_count; i++) {
		ZydisRegister whole;

		if (operands[i].type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    !(operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
							 operands[i].reg.value);
		for (size_t r = 0; r < ARRAY_SIZE(order); r++)
			if (results >> r & 1 && whole == order[r])
				return true;
	}
	return false;
}

/* The place behind the call that returns to `from`. */
static int find_place(const uint8_t *code, size_t size, size_t from, uint32_t results,
		      uint64_t *place)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	size_t at = from;

	for (int i = 0; i < RETURNED_STEPS && at < size; i++, at += insn.length) {
		if (is_emulated(code + at, size - at)) {
			*place = at;
			return 0;
		}
		if (!decode(code, size, at, &insn, operands) ||
		    insn.meta.category == ZYDIS_CATEGORY_CALL ||
		    insn.meta.category == ZYDIS_CATEGORY_RET ||
		    insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR ||
		    overwrites(&insn, operands, results))
			return -ENOTSUP;
	}
	return -ENOTSUP;
}

/* Calls pass over the whole function twice: first the calls and their places, then the jumps, none
 * of which may lead to between them. */
struct returned {
	const uint8_t *code;
	size_t size;
	const struct insn_call *call;
	uint64_t *from, *places;
	size_t max, n;
};

static int see_call(struct returned *r, const ZydisDecodedInstruction *insn, size_t at, uint64_t to)
{
	if (insn->meta.category != ZYDIS_CATEGORY_CALL || to != r->call->callee - r->call->caller)
		return 0;
	if (r->n == r->max)
		return -E2BIG;
	r->from[r->n] = at + insn->length;
	return find_place(r->code, r->size, at + insn->length, r->call->results,
			  &r->places[r->n++]);
}

static int see_jump(struct returned *r, const ZydisDecodedInstruction *insn, size_t at, uint64_t to)
{
	(void)insn;
	(void)at;
	for (size_t i = 0; i < r->n; i++)
		if (to >= r->from[i] && to <= r->places[i])
			return -ENOTSUP;
	return 0;
}

static int each_branch(struct returned *r,
		       int (*see)(struct returned *r, const ZydisDecodedInstruction *insn,
				  size_t at, uint64_t to))
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	uint64_t to;
	int err = 0;

	for (size_t at = 0; at < r->size && !err; at += insn.length) {
		if (!decode(r->code, r->size, at, &insn, operands))
			return -ENOTSUP;
		if (branches_to(&insn, operands, at, &to))
			err = see(r, &insn, at, to);
		else if (insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR)
			err = -ENOTSUP; /* a jump table: to anywhere */
	}
	return err;
}

int insn_returned(bool arm64, const uint8_t *code, size_t size, const struct insn_call *call,
		  uint64_t *offsets, size_t max, size_t *n)
{
	uint64_t from[GOBIN_RETS_MAX];
	struct returned r = { .code = code,
			      .size = size,
			      .call = call,
			      .from = from,
			      .places = offsets,
			      .max = max < GOBIN_RETS_MAX ? max : GOBIN_RETS_MAX };
	int err = arm64 ? -ENOTSUP : each_branch(&r, see_call);

	if (!err)
		err = each_branch(&r, see_jump);
	*n = err ? 0 : r.n;
	return err;
}
