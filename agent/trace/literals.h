/* literals.h - strings that lie in the read-only data of a traced file, named by their offset on
 * the wire. Read once from the file, then kept. Events thread only. */
#pragma once
#include "base/base.h"

struct arena;
struct literals;

/* fd: the executable, taken over, on failure as well. ro_offset: file offset of what go_slot.ro_lo
 * points to, ro_size its length. 0 or -errno. */
int literals_new(struct literals **out, int fd, uint64_t ro_offset, uint64_t ro_size) must_check;
void literals_free(struct literals **l);
/* Copies n bytes at offset `at` of the read-only data into the arena: a span outlives its target. n
 * <= 1024. 0; -ERANGE: not in the read-only data; -EIO: the file could not be read; -ENOSPC: the
 * arena is full. l may be NULL: -ERANGE. */
int literals_get(struct literals *l, struct arena *arena, uint64_t at, size_t n,
		 struct str *out) must_check;
