/* credential.h - a small file that others replace while we run: token, certificate. CONTROL thread.
 */
#pragma once
#include "base/base.h"
#include <time.h>

struct credential {
	char *text; /* NUL-terminated; NULL: not read yet */
	size_t size;
	/* Of the file that a symlink leads to, so that the swap of ..data is seen. */
	uint64_t dev, ino, file_size;
	struct timespec mtime, ctime;
};

/* Reads path when it is not what was read before, or when force is set. 1: it was read; 0: it is as
 * it was; -EFBIG: more than max bytes; -errno. On failure the old text is gone. */
int credential_read(struct credential *c, const char *path, size_t max, bool force) must_check;
/* Wipes and frees. */
void credential_clear(struct credential *c);
