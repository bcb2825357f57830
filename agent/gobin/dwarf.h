/* dwarf.h - field offsets from debug information, for the few types of which the program has no
 * descriptor. */
#pragma once
#include "gobin/exe.h"

struct dwarf;

/* Reads what is needed of the debug sections, with libdw. *memory: bytes it took. 0; -ENOENT: the
 * file has none (stripped); -E2BIG: more than we are ready to load; -ENOMEM; -EBADMSG. */
int dwarf_new(struct dwarf **out, struct exe *e, size_t *memory) must_check;
void dwarf_free(struct dwarf **d);
#define auto_dwarf __attribute__((cleanup(dwarf_free)))
/* True: the file has debug information. Cheap. */
bool dwarf_exists(struct exe *e);

struct dwarf_want {
	struct str package, name; /* "net/http", "Request" */
	uint64_t found;           /* for dwarf_field(); 0: none */
};

/* One pass over all types for those wanted. 0 or -EBADMSG. */
int dwarf_lookup(struct dwarf *d, struct dwarf_want *want, size_t n) must_check;
/* Offset of the field ("a.b" goes into struct values), or the size of the type for an empty path.
 */
bool dwarf_field(struct dwarf *d, uint64_t type, struct str path, uint64_t *out);
