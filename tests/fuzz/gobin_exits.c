/* Any bytes as the code of a function whose ends are looked for. */
#include "gobin/exits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gobin_exit exits[GOBIN_RETS_MAX];
	const uint64_t barriers[] = { 0x1000, 0x1080 };
	const struct exits_code code = { .bytes = data + 1,
					 .size = size - 1,
					 .addr = 0x1000,
					 .barriers = barriers,
					 .nbarriers = ARRAY_SIZE(barriers) };
	size_t n;

	if (!size ||
	    exits_find(&code, data[0] % (GO_RESULTS_MAX + 1), exits, ARRAY_SIZE(exits), &n))
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (exits[i].offset >= code.size || (i && exits[i].offset <= exits[i - 1].offset))
			abort();
		for (int k = 0; k < GO_RESULTS_MAX; k++)
			if (exits[i].exit.kinds[k] == GO_IN_REGISTER &&
			    (uint64_t)exits[i].exit.values[k] > 15)
				abort();
	}
	return 0;
}
