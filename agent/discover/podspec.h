/* podspec.h - one pod of the kubelet's list: its JSON into a struct pod, in memory that is only
 * freed as a whole. CONTROL thread. */
#pragma once
#include "base/base.h"
#include <jansson.h>

struct pod;
struct podspec_chunk;

struct podspec_memory {
	struct podspec_chunk *chunks;
	bool failed; /* an allocation has failed: what was parsed is not to be used */
};

/* n zeroed bytes, or NULL. */
void *podspec_get(struct podspec_memory *m, size_t n);
void podspec_clear(struct podspec_memory *m);
/* True when *pod was filled; false: there is no uid, name or namespace. */
bool podspec_parse(struct podspec_memory *m, const json_t *item, struct pod *pod);
