/* moduledata.h - finds runtime.firstmoduledata by its shape: it leads to everything else in a Go
 * program. */
#pragma once
#include "gobin/exe.h"
#include "gobin/pclntab.h"

#define MODULEDATA_WORDS 64

struct moduledata {
	uint64_t addr; /* 0: the function table was found in another way, no words are known */
	uint64_t
		word[MODULEDATA_WORDS]; /* pointers relocated; words past the segment's end are 0 */
	struct pclntab pclntab;
	uint64_t text, etext;
};

/* 0; -ENOENT: none; -E2BIG or another -errno: a bound was reached. */
int moduledata_find(struct exe *e, struct moduledata *out) must_check;
/* True: the file has the function table of a Go before 1.18. */
bool moduledata_is_old(struct exe *e);
