/* names.h - a small set of wanted names that a long list is filtered by: one probe of a hash over
 * the length and the last eight bytes tells for nearly every name of the list that it is not
 * wanted. */
#pragma once
#include "base/base.h"

struct names {
	struct str *list;
	size_t n, cap;
	uint32_t *head; /* index + 1 into list; 0: none */
	uint32_t *next;
	size_t mask;
};

/* Room for n names. 0 or -ENOMEM. */
int names_init(struct names *s, size_t n) must_check;
void names_clear(struct names *s);
#define auto_names __attribute__((cleanup(names_clear)))
/* The name's bytes stay the caller's. Not more than names_init() was told; one name may be there
 * more than once. Returns its index. */
size_t names_add(struct names *s, struct str name);
/* Index of the first name equal to p[0..n), or of the next one after `from` (an index that it
 * returned before). -1: none. */
long names_find(const struct names *s, const char *p, size_t n, long from);
