/* buildinfo.h - Go version and modules as the linker wrote them (debug/buildinfo), or at least the
 * version. */
#pragma once
#include "gobin/exe.h"

struct buildinfo {
	char *version; /* "" unknown; owned, as the rest */
	char *text;    /* the module lines; main_path and modules point into it */
	const char *main_path;
	struct gobin_module *modules; /* the main module first */
	size_t nmodules;
	size_t memory;
};

/* Always fills out; a program without build info has empty strings. 0 or -ENOMEM, or the error of a
 * failed read. */
int buildinfo_read(struct exe *e, struct buildinfo *out) must_check;
void buildinfo_clear(struct buildinfo *b);
/* The N of "go1.N...", also of "devel go1.N-..."; -1: unknown. */
int buildinfo_minor(const char *version);
