/* field.h - answers "where in a struct is that field": from type metadata; what that lacks from
 * DWARF, then from a table. */
#pragma once
#include "gobin/gotype.h"

struct field_sources {
	struct exe *exe;
	struct gotypes *types;         /* types->types 0: there are none */
	const struct pclntab *pclntab; /* tells which types are in use at all */
	size_t memory;                 /* out: what DWARF took */
};

/* Fills out[i] for each want[i]; GOBIN_NOWHERE where nobody knows it. 0 or -errno. */
int field_find(struct field_sources *from, const struct gobin_want *want, size_t n,
	       struct gobin_field *out) must_check;
