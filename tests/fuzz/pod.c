/* The kubelet's answer: parsed or refused with a reason; what is parsed can be looked at. */
#include "discover/pod.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pods *pods = NULL;
	char err[160];
	int res = pods_parse(&pods, (const char *)data, size, err, sizeof(err));

	if (res != 0) {
		if (pods || !err[0])
			abort();
		return 0;
	}
	for (size_t i = 0; i < pods_count(pods); i++) {
		const struct pod *p = pods_at(pods, i), *found = NULL;

		if (!*p->uid || !*p->name || !*p->namespace_)
			abort();
		for (size_t c = 0; c < p->ncontainers; c++)
			if (*p->containers[c].id && !pods_find(pods, p->containers[c].id, &found))
				abort();
	}
	pods_free(&pods);
	return 0;
}
