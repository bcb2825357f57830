/* plans.h - what was learnt of executables, so that each is analysed once however many processes
 * run it. WORKER thread only. */
#pragma once
#include "base/base.h"
#include "gobin/gobin.h"
#include "runtime/runtime.h"

struct plan;

/* Of one executable. Owned by the cache, valid until the next plans_get(). */
struct analysed {
	enum gobin_why why; /* GOBIN_OK: the rest is filled */
	const struct plan *plan;
	char go_version[48];
	bool pie;
	uint64_t ro_offset, ro_size; /* see struct gobin_info */
	struct runtime_plan runtime; /* layout NULL: nothing of it can be read, or is asked for */
};

struct plans;

/* Remembers at most n executables, the last used ones; with `runtime` also where the variables of
 * Go's runtime lie in them. */
int plans_new(struct plans **out, size_t n, uint32_t features, bool runtime) must_check;
void plans_free(struct plans **p);
/* An analysis that takes longer is given up: GOBIN_TIMEOUT. */
#define PLANS_TIMEOUT_MS 5000
/* Analyses the executable behind fd (which stays the caller's; O_PATH will do) or remembers it, by
 * device, inode, times and size: never by the inode alone, which five containers of one image
 * share. Never NULL.
 */
const struct analysed *plans_get(struct plans *p, int fd);
