/* field.h - answers "where in a struct is that field" from type metadata. */
#pragma once
#include "gobin/gotype.h"

/* Fills out[i] where the metadata knows want[i]; the others get GOBIN_NOWHERE. 0 or -errno. */
int field_find(struct gotypes *ts, const struct gobin_want *want, size_t n,
	       struct gobin_field *out) must_check;
/* The next of "a|b|c": *list moves past it. False: no more. */
bool field_alternative(struct str *list, struct str *out);
