/* Places where functions end: on code written for it, and on all functions of a real Go program. */
#include "gobin/exits.h"
#include "gobin/moduledata.h"
#include "tests/unit/go_bins.h"
#include <Zydis/Zydis.h>

#define CODE(name, text)                                                                           \
	__asm__(".pushsection .text\n" #name "_begin:\n" text "\n" #name "_end:\n.popsection\n");  \
	extern const uint8_t name##_begin[] __attribute__((visibility("hidden")));                 \
	extern const uint8_t name##_end[] __attribute__((visibility("hidden")))

#define FRAME "push %rbp\nmov %rsp, %rbp\nsub $0x20, %rsp\n"
#define END   "add $0x20, %rsp\npop %rbp\nret\n"

static struct gobin_exit exits[GOBIN_RETS_MAX];
static size_t nexits;

static int find(const uint8_t *begin, const uint8_t *end, size_t want, const uint8_t *barrier)
{
	const uint64_t barriers[] = { 0x1000 + (uint64_t)(barrier - begin) };
	const struct exits_code code = { .bytes = begin,
					 .size = (size_t)(end - begin),
					 .addr = 0x1000,
					 .barriers = barriers,
					 .nbarriers = barrier != NULL };

	nexits = 0;
	return exits_find(&code, want, exits, GOBIN_RETS_MAX, &nexits);
}

static void expect(size_t i, int k, uint8_t kind, int64_t value)
{
	cr_assert_eq(exits[i].exit.kinds[k], kind, "result %d is of kind %u", k,
		     exits[i].exit.kinds[k]);
	cr_assert_eq(exits[i].exit.values[k], value, "result %d is %ld", k,
		     (long)exits[i].exit.values[k]);
}

CODE(slots, FRAME "call slots_end\n"
		  "xor %eax, %eax\nmov 0x8(%rsp), %rbx\nmov 0x10(%rsp), %rcx\n" END);

Test(exits, a_call_before_the_ret_is_a_place_with_the_results_in_the_frame)
{
	cr_assert_eq(find(slots_begin, slots_end, 3, NULL), 0);
	cr_assert_eq(nexits, 1);
	cr_assert(!exits[0].ret);
	cr_assert_eq(slots_begin[exits[0].offset], 0xe8);
	cr_assert_eq(exits[0].exit.when, GO_ALWAYS);
	cr_assert_eq(exits[0].exit.frame, 0x28);
	expect(0, 0, GO_CONSTANT, 0);
	expect(0, 1, GO_ON_STACK, 8);
	expect(0, 2, GO_ON_STACK, 16);
}

/* As the compiler writes a pointer: AX is kept by the barrier. */
CODE(barrier, FRAME "cmpl $0, 0x1000(%rip)\njne 1f\nmov %rdx, 0x80(%rax)\njmp 2f\n"
		    "1: call barrier_end\nmov %rdx, (%r11)\n"
		    "2: xor %ebx, %ebx\nxor %ecx, %ecx\n" END);

Test(exits, a_write_barrier_keeps_the_registers_and_any_other_call_does_not)
{
	cr_assert_eq(find(barrier_begin, barrier_end, 3, barrier_end), 0);
	cr_assert_eq(nexits, 2);
	for (size_t i = 0; i < 2; i++) {
		cr_assert(!exits[i].ret);
		expect(i, 0, GO_IN_REGISTER, 0);
		expect(i, 1, GO_CONSTANT, 0);
		expect(i, 2, GO_CONSTANT, 0);
	}
	cr_assert_eq(find(barrier_begin, barrier_end, 3, NULL), 0);
	cr_assert_eq(nexits, 1);
	cr_assert(exits[0].ret, "what the call leaves in AX is not known before it");
}

CODE(result, FRAME "call *%rcx\n" END);

Test(exits, results_that_come_out_of_the_last_call_are_taken_at_the_ret)
{
	cr_assert_eq(find(result_begin, result_end, 1, NULL), 0);
	cr_assert_eq(nexits, 1);
	cr_assert(exits[0].ret);
	cr_assert_eq(result_begin[exits[0].offset], 0xc3);
}

CODE(branch,
     FRAME "test %rbx, %rbx\nje 1f\nlea 0x100(%rip), %rax\n" END "1: call *%rcx\ncall *%rdx\n" END);

Test(exits, a_branch_is_a_place_for_the_side_that_ends)
{
	cr_assert_eq(find(branch_begin, branch_end, 1, NULL), 0);
	cr_assert_eq(nexits, 2);
	cr_assert(!exits[0].ret && exits[1].ret);
	cr_assert_eq(branch_begin[exits[0].offset], 0x74);
	cr_assert_eq(exits[0].exit.when, 5, "when it is not taken: JNE");
	cr_assert(exits[0].constant_is_address[0]);
}

CODE(loop,
     FRAME "1: call *%rcx\nmov 0x8(%rsp), %rdx\ntest %rdx, %rdx\nje 2f\ncmp $7, %rdx\njne 1b\n"
	   "mov 0x10(%rsp), %rax\n" END "2: mov 0x18(%rsp), %rax\n" END);

Test(exits, a_branch_that_is_passed_again_and_again_is_no_place)
{
	cr_assert_eq(find(loop_begin, loop_end, 1, NULL), 0);
	cr_assert_eq(nexits, 2);
	cr_assert(exits[0].ret && exits[1].ret);
}

CODE(changed, FRAME "call changed_end\nmov %rax, 0x8(%rsp)\nmov 0x8(%rsp), %rbx\n"
		    "movq $7, 0x10(%rsp)\nmov 0x10(%rsp), %rax\nmovl $1, 0x14(%rsp)\n" END);

Test(exits, slots_that_are_written_on_the_way_have_what_was_written)
{
	cr_assert_eq(find(changed_begin, changed_end, 1, NULL), 0);
	cr_assert_eq(nexits, 1);
	cr_assert(!exits[0].ret);
	expect(0, 0, GO_CONSTANT, 7);
	cr_assert_eq(find(changed_begin, changed_end, 2, NULL), 0);
	cr_assert(exits[0].ret, "the call's own result");
}

CODE(table, FRAME "jmp *%rax\ncall table_end\n" END);
CODE(endless, FRAME "call endless_end\nud2\n");
CODE(outside, FRAME "call outside_end\nje outside_end + 64\n" END);

Test(exits, code_whose_ways_are_not_all_seen_is_left_to_its_rets)
{
	cr_assert_eq(find(table_begin, table_end, 0, NULL), -ENOTSUP);
	cr_assert_eq(find(outside_begin, outside_end, 0, NULL), -ENOTSUP);
	cr_assert_eq(find(endless_begin, endless_end, 1, NULL), 0);
	cr_assert_eq(nexits, 0, "no RET, no end");
	cr_assert_eq(find(slots_begin, slots_end, GO_RESULTS_MAX + 1, NULL), -ENOTSUP);
}

/* ---- real code ---- */

static uint32_t chance(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(state >> 33);
}

static bool passes(uint64_t at, int cc, bool taken)
{
	for (size_t i = 0; i < nexits; i++)
		if (exits[i].offset == at)
			return exits[i].ret || exits[i].exit.when == GO_ALWAYS ||
			       taken == (exits[i].exit.when == cc);
	return false;
}

/* One way through the function, chosen at random. How many places it passes until its RET; -1: it
 * does not come to one. */
static int walk(const ZydisDecoder *decoder, const uint8_t *code, size_t size)
{
	ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction d;
	int passed = 0;

	for (size_t at = 0, steps = 0; at < size && steps < 20000; steps++) {
		bool jump, branch, taken;

		if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(decoder, code + at, size - at, &d, ops)))
			return -1;
		branch = d.meta.category == ZYDIS_CATEGORY_COND_BR;
		jump = d.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
		taken = jump || (branch && chance() & 1);
		passed += passes(at, branch ? d.opcode & 15 : 16, taken);
		if (d.meta.category == ZYDIS_CATEGORY_RET)
			return passed;
		if (d.mnemonic == ZYDIS_MNEMONIC_UD2 || d.mnemonic == ZYDIS_MNEMONIC_INT3)
			return -1;
		at += d.length + (taken ? (size_t)ops[0].imm.value.s : 0);
	}
	return -1;
}

static size_t functions, ways, cheap;

static void try_function(struct exe *e, const ZydisDecoder *decoder, uint64_t entry, size_t size)
{
	static uint8_t code[1 << 14];
	const struct exits_code c = { .bytes = code, .size = size, .addr = entry };

	if (!size || size > sizeof(code) || !exe_read(e, entry, code, size) ||
	    exits_find(&c, chance() % 3, exits, GOBIN_RETS_MAX, &nexits))
		return;
	functions++;
	for (size_t i = 0; i < nexits; i++)
		cheap += !exits[i].ret;
	for (int i = 0; i < 20; i++) {
		int passed = walk(decoder, code, size);

		cr_assert(passed == -1 || passed == 1, "%d places on a way through 0x%lx", passed,
			  (unsigned long)entry);
		ways += passed == 1;
	}
}

Test(exits, every_way_through_every_function_of_a_go_program_passes_exactly_one_place,
     .timeout = 120)
{
	struct exe e;
	struct moduledata m;
	ZydisDecoder decoder;
	enum gobin_why why;

	cr_assert_eq(exe_open(&e, bin_fd("go1.26"), &why), 0);
	cr_assert_eq(moduledata_find(&e, &m), 0);
	cr_assert(ZYAN_SUCCESS(
		ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)));
	for (uint64_t i = 0; i < m.pclntab.nfunc; i++) {
		uint32_t from, to;

		exe_budget(&e);
		from = exe_u32(&e, m.pclntab.functab + 8 * i);
		to = exe_u32(&e, m.pclntab.functab + 8 * i + 8);
		try_function(&e, &decoder, m.text + from, to - from);
	}
	cr_assert_gt(functions, 1000);
	cr_assert_gt(ways, 10000);
	cr_assert_gt(cheap, 1000);
	exe_close(&e);
}
