#include "gobin/field.h"

bool field_alternative(struct str *list, struct str *out)
{
	const char *bar;

	if (!list->p || !list->n)
		return false;
	bar = memchr(list->p, '|', list->n);
	out->p = list->p;
	out->n = bar ? (size_t)(bar - list->p) : list->n;
	list->p += bar ? out->n + 1 : out->n;
	list->n -= bar ? out->n + 1 : out->n;
	return true;
}

/* "a.b" in embedded struct values; adds to *offset. */
static bool path_find(const struct gotypes *ts, struct gotype t, struct str path, uint64_t *offset)
{
	struct gotype_field f;
	const char *dot = memchr(path.p, '.', path.n);
	size_t n = dot ? (size_t)(dot - path.p) : path.n;

	for (size_t i = 0; gotype_field(ts, &t, i, &f) == 0; i++) {
		if (!n || strlen(f.name) != n || memcmp(f.name, path.p, n) != 0)
			continue;
		if (!gotype_sound(ts, &t))
			return false;
		*offset += f.offset;
		if (!dot)
			return true;
		return gotype_read(ts, f.type, &t) && t.kind == GOTYPE_STRUCT &&
		       path_find(ts, t, (struct str){ dot + 1, path.n - n - 1 }, offset);
	}
	return false;
}

static bool find_in(const struct gotypes *ts, uint64_t addr, const char *field,
		    struct gobin_field *out)
{
	struct str list = str_of(field), one;
	struct gotype t;
	uint64_t offset;

	if (!addr || !gotype_read(ts, addr, &t))
		return false;
	if (!list.n) {
		*out = (struct gobin_field){ (uint32_t)t.size, GOBIN_TYPES };
		return t.size <= UINT32_MAX;
	}
	while (field_alternative(&list, &one)) {
		offset = 0;
		if (path_find(ts, t, one, &offset) && offset <= UINT32_MAX) {
			*out = (struct gobin_field){ (uint32_t)offset, GOBIN_TYPES };
			return true;
		}
	}
	return false;
}

static size_t alternatives(const char *type)
{
	size_t n = 1;

	for (; *type; type++)
		n += *type == '|';
	return n;
}

/* Index in types of that name; added when it is new. */
static size_t type_index(struct gotype_want *types, size_t *n, struct str package, struct str name)
{
	size_t i;

	for (i = 0; i < *n; i++)
		if (types[i].name.n == name.n && types[i].package.n == package.n &&
		    memcmp(types[i].name.p, name.p, name.n) == 0 &&
		    memcmp(types[i].package.p, package.p, package.n) == 0)
			return i;
	types[(*n)++] = (struct gotype_want){ package, name, 0 };
	return i;
}

int field_find(struct gotypes *ts, const struct gobin_want *want, size_t n, struct gobin_field *out)
{
	auto_free struct gotype_want *types = NULL;
	struct str list, one, package, name;
	size_t all = 0, ntypes = 0;
	int err;

	for (size_t i = 0; i < n; i++) {
		all += alternatives(want[i].type);
		out[i] = (struct gobin_field){ 0, GOBIN_NOWHERE };
	}
	types = calloc(all + 1, sizeof(*types));
	if (!types)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		for (list = str_of(want[i].type); field_alternative(&list, &one);)
			if (gotype_split(one, &package, &name))
				(void)type_index(types, &ntypes, package, name);
	err = gotypes_lookup(ts, types, ntypes);
	if (err)
		return err;
	for (size_t i = 0; i < n; i++)
		for (list = str_of(want[i].type); field_alternative(&list, &one);) {
			uint64_t addr =
				gotype_split(one, &package, &name)
					? types[type_index(types, &ntypes, package, name)].found
					: 0;

			if (!addr)
				continue;
			(void)find_in(ts, addr, want[i].field, &out[i]);
			break; /* the first type that exists wins, whatever its fields */
		}
	return ts->exe->err;
}
