/* Any bytes as the code of a function. */
#include "gobin/insn.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct insn_call call = { .caller = 0x1000, .callee = 0x1000, .results = 0x1c };
	uint64_t rets[8];
	struct gobin_ref refs[8];

	for (int arm64 = 0; arm64 < 2; arm64++) {
		enum gobin_place place;
		uint32_t enter = 0;
		bool emulated = false;
		size_t n = 0;

		place = insn_enter(arm64, data, size, &enter, &emulated);
		if (place != GOBIN_PLACE_REFUSED && enter >= size)
			abort();
		if (place == GOBIN_PLACE_ENTRY && enter)
			abort();
		if (insn_rets(arm64, data, size, rets, ARRAY_SIZE(rets), &n) == 0)
			for (size_t i = 0; i < n; i++)
				if (rets[i] >= size || (i && rets[i] <= rets[i - 1]))
					abort();
		if (insn_refs(arm64, data, size, 0x1000, refs, ARRAY_SIZE(refs), &n) == 0 &&
		    n > ARRAY_SIZE(refs))
			abort();
		if (insn_returned(arm64, data, size, &call, rets, ARRAY_SIZE(rets), &n) == 0)
			for (size_t i = 0; i < n; i++)
				if (rets[i] >= size || rets[i] < 5)
					abort();
	}
	return 0;
}
