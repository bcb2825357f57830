#include "gobin/insn.h"
#include <criterion/criterion.h>

struct head {
	const char *what;
	const char *code; /* hexadecimal */
	enum gobin_place place;
	uint32_t enter;
	bool emulated;
};

static size_t bytes(const char *hex, uint8_t *out, size_t cap)
{
	size_t n = 0;

	for (; hex[0] && n < cap; hex += 2) {
		char two[3] = { hex[0], hex[1], 0 };

		out[n++] = (uint8_t)strtoul(two, NULL, 16);
	}
	return n;
}

static void check(bool arm64, const struct head *h, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint8_t code[128];
		size_t n = bytes(h[i].code, code, sizeof(code));
		uint32_t enter = 99;
		bool emulated = false;

		cr_assert_eq(insn_enter(arm64, code, n, &enter, &emulated), h[i].place, "%s",
			     h[i].what);
		if (h[i].place == GOBIN_PLACE_REFUSED)
			continue;
		cr_assert_eq(enter, h[i].enter, "%s: %u", h[i].what, enter);
		cr_assert_eq(emulated, h[i].emulated, "%s", h[i].what);
	}
}

#define OK    GOBIN_PLACE_CHECKED
#define ENTRY GOBIN_PLACE_ENTRY
#define NO    GOBIN_PLACE_REFUSED

/* The ways in which Go checks the stack, and what stands behind. */
static const struct head stack_checks[] = {
	{ "small, short jump",
	  "493b6610"
	  "7622"
	  "55"
	  "4889e5",
	  OK, 6, true },
	{ "small, long jump",
	  "493b6610"
	  "0f8601020304"
	  "55"
	  "4889e5",
	  OK, 10, true },
	{ "large, byte",
	  "4c8d642480"
	  "4d3b6610"
	  "7601"
	  "55",
	  OK, 11, true },
	{ "large, byte, long jump",
	  "4c8d642480"
	  "4d3b6610"
	  "0f8601020304"
	  "55",
	  OK, 15, true },
	{ "large, word",
	  "4c8da42400ffffff"
	  "4d3b6610"
	  "7601"
	  "55",
	  OK, 14, true },
	{ "large, word, long jump",
	  "4c8da42400ffffff"
	  "4d3b6610"
	  "0f8601020304"
	  "55",
	  OK, 18, true },
	{ "huge",
	  "4989e4"
	  "4981ec00001000"
	  "7210"
	  "4d3b6610"
	  "7608"
	  "55",
	  OK, 18, true },
	{ "huge, long jumps",
	  "4989e4"
	  "4981ec00001000"
	  "0f8210000000"
	  "4d3b6610"
	  "0f8608000000"
	  "55",
	  OK, 26, true },
	{ "Go 1.19: sub",
	  "493b6610"
	  "7622"
	  "4883ec18",
	  OK, 6, false },
	{ "Go 1.19: sub, word",
	  "493b6610"
	  "7622"
	  "4881ec00010000",
	  OK, 6, false },
	{ "Go 1.19: add of -128",
	  "493b6610"
	  "7622"
	  "4883c480",
	  OK, 6, false },
};

Test(insn, probes_enter_behind_every_stack_check_that_go_writes)
{
	check(false, stack_checks, sizeof(stack_checks) / sizeof(stack_checks[0]));
}

Test(insn, bytes_that_no_recipe_knows_are_refused)
{
	static const struct head heads[] = {
		{ "a pop behind the check",
		  "493b6610"
		  "7622"
		  "5d"
		  "c3",
		  NO, 0, false },
		{ "nothing behind the check",
		  "493b6610"
		  "7622",
		  NO, 0, false },
		{ "another jump",
		  "493b6610"
		  "7722"
		  "55",
		  NO, 0, false },
		{ "the check comes late",
		  "90909090909090909090"
		  "493b6610"
		  "7622"
		  "55",
		  NO, 0, false },
		{ "empty", "", NO, 0, false },
	};
	uint8_t code[1] = { 0x55 };
	uint32_t enter;
	bool emulated;

	check(false, heads, sizeof(heads) / sizeof(heads[0]));
	cr_assert_eq(insn_enter(false, code, 0, &enter, &emulated), NO);
}

Test(insn, a_function_without_a_stack_check_is_entered_at_its_entry)
{
	static const struct head heads[] = {
		{ "push", "554889e5", ENTRY, 0, true },
		{ "push of a high register", "4154", ENTRY, 0, true },
		{ "call", "e800000000", ENTRY, 0, true },
		{ "jump", "eb10", ENTRY, 0, true },
		{ "conditional jump", "7410", ENTRY, 0, true },
		{ "far conditional jump", "0f8400000000", ENTRY, 0, true },
		{ "return", "c3", ENTRY, 0, false },
		{ "xor", "31c0c3", ENTRY, 0, false },
		{ "sub", "4883ec18", ENTRY, 0, false },
		{ "high register, no push", "4189c0", ENTRY, 0, false },
	};

	check(false, heads, sizeof(heads) / sizeof(heads[0]));
}

Test(insn, stack_checks_of_arm64_are_known)
{
	/* ldr x16,[x28,#16]; cmp sp,x16; b.ls; str x30,[sp,#-32]! - with sub x17,sp,#n before cmp
	 * for large frames. */
	static const struct head heads[] = {
		{ "small",
		  "900b40f9"
		  "ff6330eb"
		  "69000054"
		  "fe0f1ef8",
		  OK, 12, false },
		{ "large",
		  "900b40f9"
		  "f14303d1"
		  "3f0210eb"
		  "69000054"
		  "fe0f1ef8",
		  OK, 16, false },
		{ "no check",
		  "e0031faa"
		  "c0035fd6",
		  ENTRY, 0, false },
		{ "no branch",
		  "900b40f9"
		  "e0031faa"
		  "e0031faa"
		  "c0035fd6",
		  NO, 0, false },
		{ "late check",
		  "e0031faa"
		  "900b40f9"
		  "69000054"
		  "fe0f1ef8",
		  NO, 0, false },
	};

	check(true, heads, sizeof(heads) / sizeof(heads[0]));
}

Test(insn, returns_are_found_by_decoding_and_not_by_their_byte)
{
	uint64_t at[4];
	uint8_t code[64];
	size_t n = 0, size = bytes("b8c3c3c3c3"
				   "c3"
				   "488d05c3000000"
				   "c20800"
				   "f3c3"
				   "cccc",
				   code, sizeof(code));

	cr_assert_eq(insn_rets(false, code, size, at, 4, &n), 0);
	cr_assert_eq(n, 3);
	cr_assert_eq(at[0], 5);
	cr_assert_eq(at[1], 13);
	cr_assert_eq(at[2], 16);
	cr_assert_eq(insn_rets(false, code, size, at, 2, &n), -E2BIG);
}

Test(insn, an_instruction_that_cannot_be_decoded_costs_the_function)
{
	uint64_t at[4];
	uint8_t code[16];
	size_t n = 0, size = bytes("55"
				   "06"
				   "c3",
				   code, sizeof(code));

	cr_assert_eq(insn_rets(false, code, size, at, 4, &n), -ENOTSUP);
	size = bytes("55"
		     "e800",
		     code, sizeof(code));
	cr_assert_eq(insn_rets(false, code, size, at, 4, &n), -ENOTSUP, "cut in the middle");
}

Test(insn, returns_of_arm64_are_found)
{
	uint64_t at[4];
	uint8_t code[16];
	size_t n = 0, size = bytes("e0031faa"
				   "c0035fd6"
				   "c0035fd6",
				   code, sizeof(code));

	cr_assert_eq(insn_rets(true, code, size, at, 4, &n), 0);
	cr_assert_eq(n, 2);
	cr_assert_eq(at[1], 8);
	cr_assert_eq(insn_rets(true, code, size, at, 1, &n), -E2BIG);
}

/* ---- where a call has returned ---- */

#define CALLER  0x1000
#define CALLEE  0x2000
/* call CALLEE, as the first instruction of the function at CALLER */
#define CALL_IT "e8fb0f0000"
#define RESULTS (1u << 2 | 1u << 3 | 1u << 4) /* rcx, rdi, rsi */

static int returned(const char *code, uint64_t *places, size_t *n)
{
	const struct insn_call call = { CALLER, CALLEE, RESULTS };
	uint8_t raw[128];

	return insn_returned(false, raw, bytes(code, raw, sizeof(raw)), &call, places, 4, n);
}

Test(insn, a_call_has_returned_at_the_next_emulated_instruction)
{
	static const struct {
		const char *what, *code;
		uint64_t at;
	} codes[] = {
		{ "at once", CALL_IT "7400c3", 5 },
		{ "Go 1.22", CALL_IT "833db2012e00007507488b7c2468c3", 12 },
		{ "Go 1.23 to 1.26", CALL_IT "488b5424684889baf0000000833d288a3900007434c3", 24 },
		{ "Go 1.27", CALL_IT "488b5424684889baf0000000833d81ae3a0000907434c3", 24 },
		{ "another call", CALL_IT "48897c2438e800000000c3", 10 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		uint64_t places[4];
		size_t n = 9;

		cr_assert_eq(returned(codes[i].code, places, &n), 0, "%s", codes[i].what);
		cr_assert_eq(n, 1, "%s: %zu", codes[i].what, n);
		cr_assert_eq(places[0], codes[i].at, "%s: %lu", codes[i].what,
			     (unsigned long)places[0]);
	}
}

Test(insn, where_results_may_be_gone_or_another_way_leads_there_is_no_such_place)
{
	static const struct {
		const char *what, *code;
	} codes[] = {
		{ "its results are overwritten", CALL_IT "4889c77400c3" },
		{ "half of one is", CALL_IT "31f67400c3" },
		{ "the function returns", CALL_IT "c3" },
		{ "it calls through a register", CALL_IT "ffd27400c3" },
		{ "it goes on elsewhere", CALL_IT "ffe07400c3" },
		{ "somewhere is a jump table", CALL_IT "7400ffe0c3" },
		{ "a jump leads to the place", CALL_IT "740090ebfbc3" },
		{ "a jump leads before the place", CALL_IT "89d07400ebfac3" },
		{ "not decodable", CALL_IT "7400060606" },
		{ "nothing follows", CALL_IT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		uint64_t places[4];
		size_t n = 9;

		cr_assert_eq(returned(codes[i].code, places, &n), -ENOTSUP, "%s", codes[i].what);
		cr_assert_eq(n, 0, "%s", codes[i].what);
	}
}

Test(insn, calls_of_others_are_none_and_too_many_are_told)
{
	uint64_t places[4];
	size_t n = 9;

	cr_assert_eq(returned("e800000000e80000000090c3", places, &n), 0);
	cr_assert_eq(n, 0);
	cr_assert_eq(returned(CALL_IT "90"
				      "e8f50f000090"
				      "e8ef0f000090"
				      "e8e90f000090"
				      "e8e30f000090",
			      places, &n),
		     -E2BIG);
	cr_assert_eq(n, 0);
}
