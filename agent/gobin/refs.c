/* What a function's code says of fixed addresses: operands relative to the instruction pointer. */
#include "gobin/insn.h"
#include <Zydis/Zydis.h>

/* The memory operand at a fixed address, or NULL. */
static const ZydisDecodedOperand *fixed(const ZydisDecodedInstruction *insn,
					const ZydisDecodedOperand *operands)
{
	for (size_t i = 0; i < insn->operand_count_visible; i++)
		if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    operands[i].mem.base == ZYDIS_REGISTER_RIP)
			return &operands[i];
	return NULL;
}

/* False: the instruction says nothing of a fixed address. */
static bool ref_of(const ZydisDecodedInstruction *insn, const ZydisDecodedOperand *operands,
		   uint64_t next, struct gobin_ref *out)
{
	const ZydisDecodedOperand *mem = fixed(insn, operands);

	if (insn->meta.category == ZYDIS_CATEGORY_CALL) {
		const ZydisDecodedOperand *to = &operands[0];

		*out = (struct gobin_ref){ .kind = GOBIN_REF_CALL };
		if (insn->operand_count_visible && to->type == ZYDIS_OPERAND_TYPE_IMMEDIATE &&
		    to->imm.is_relative)
			out->addr = next + (uint64_t)to->imm.value.s;
		return true;
	}
	if (!mem)
		return false;
	*out = (struct gobin_ref){ .addr = next + (uint64_t)mem->mem.disp.value,
				   .size = (uint8_t)(mem->size / 8) };
	if (mem->mem.type == ZYDIS_MEMOP_TYPE_AGEN) {
		out->kind = GOBIN_REF_ADDRESS;
		out->size = 0;
	} else {
		out->kind = mem->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE ? GOBIN_REF_WRITE
									   : GOBIN_REF_READ;
	}
	return true;
}

int insn_refs(bool arm64, const uint8_t *code, size_t size, uint64_t addr, struct gobin_ref *out,
	      size_t max, size_t *n)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction insn;
	ZydisDecoder decoder;

	*n = 0;
	if (arm64 || !ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
						    ZYDIS_STACK_WIDTH_64)))
		return -ENOTSUP;
	for (size_t at = 0; at < size && *n < max; at += insn.length) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code + at, size - at, &insn,
							 operands)))
			return -ENOTSUP;
		if (ref_of(&insn, operands, addr + at + insn.length, &out[*n]))
			++*n;
	}
	return 0;
}
