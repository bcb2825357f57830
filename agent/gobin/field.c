#include "gobin/field.h"
#include "gobin/dwarf.h"
#include "gobin/names.h"
#include "gobin/table.h"

/* The next of "a|b|c": *list moves past it. False: no more. */
static bool alternative(struct str *list, struct str *out)
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
		*out = (struct gobin_field){ (uint32_t)t.size, GOBIN_TYPES, 0 };
		return t.size <= UINT32_MAX;
	}
	while (alternative(&list, &one)) {
		offset = 0;
		if (path_find(ts, t, one, &offset) && offset <= UINT32_MAX) {
			*out = (struct gobin_field){ (uint32_t)offset, GOBIN_TYPES, 0 };
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

/* All types that are asked for, each once. */
struct wanted {
	struct gotype_want *types;
	size_t n;
};

static struct gotype_want *type_get(struct wanted *w, struct str full)
{
	struct str package, name;

	if (!gotype_split(full, &package, &name))
		return NULL;
	for (size_t i = 0; i < w->n; i++)
		if (w->types[i].name.n == name.n && w->types[i].package.n == package.n &&
		    memcmp(w->types[i].name.p, name.p, name.n) == 0 &&
		    memcmp(w->types[i].package.p, package.p, package.n) == 0)
			return &w->types[i];
	w->types[w->n] = (struct gotype_want){ .package = package, .name = name };
	return &w->types[w->n++];
}

/* The first alternative that exists wins, whatever its fields. False: none does. */
static bool from_types(const struct gotypes *ts, struct wanted *w, const struct gobin_want *want,
		       struct gobin_field *out)
{
	struct str list = str_of(want->type), one;
	uint8_t rank = 0;

	for (; alternative(&list, &one); rank++) {
		const struct gotype_want *t = type_get(w, one);

		if (!t || !t->found)
			continue;
		if (find_in(ts, t->found, want->field, out))
			out->alternative = rank;
		return true;
	}
	return false;
}

/* ---- DWARF ---- */

struct receivers {
	const struct names *set;
	struct gotype_want **list;
	bool *used;
};

/* Function names are package.T.method or package.(*T).method. */
static bool receiver(void *arg, uint64_t at, const char *name, size_t n)
{
	const struct receivers *r = arg;
	size_t slash = n, dot, from, to;

	(void)at;
	while (slash && name[slash - 1] != '/')
		slash--;
	for (dot = slash; dot < n && name[dot] != '.';)
		dot++;
	from = dot + 1;
	if (from + 2 < n && name[from] == '(' && name[from + 1] == '*')
		from += 2;
	for (to = from; to < n && name[to] != '.' && name[to] != ')';)
		to++;
	if (to >= n || to == from)
		return false;
	for (long i = names_find(r->set, name + from, to - from, -1); i >= 0;
	     i = names_find(r->set, name + from, to - from, i))
		/* The last element of the path is escaped here: its part before the '/' is
		 * compared, that is enough. */
		if (slash <= r->list[i]->package.n &&
		    memcmp(name, r->list[i]->package.p, slash) == 0)
			r->used[i] = true;
	return false;
}

/* Debug information of a large program takes 100 ms and 30 MB to search, and most types without a
 * descriptor are not there because nothing uses them: only those whose methods are linked are
 * looked for. */
static int in_use(const struct field_sources *from, struct wanted *w, struct dwarf_want *out,
		  struct gotype_want **of, size_t *n)
{
	auto_free bool *used = calloc(w->n + 1, sizeof(*used));
	auto_free struct gotype_want **list = calloc(w->n + 1, sizeof(*list));
	auto_names struct names set = { 0 };
	struct receivers r = { &set, list, used };
	int err;

	if (!used || !list || names_init(&set, w->n))
		return -ENOMEM;
	for (size_t i = 0; i < w->n; i++)
		if (!w->types[i].found)
			list[names_add(&set, w->types[i].name)] = &w->types[i];
	err = from->types->types ? pclntab_names(from->exe, from->pclntab, receiver, &r) : 0;
	if (err)
		return err;
	for (size_t i = 0; i < set.n; i++) {
		if (!list[i] || (from->types->types && !used[i]))
			continue;
		of[*n] = list[i];
		out[(*n)++] = (struct dwarf_want){ list[i]->package, list[i]->name, 0 };
	}
	return 0;
}

static void from_dwarf(struct dwarf *d, struct wanted *w, const struct gobin_want *want,
		       struct gobin_field *out)
{
	struct str list = str_of(want->type), one;
	uint64_t offset;
	uint8_t rank = 0;

	for (; alternative(&list, &one); rank++) {
		const struct gotype_want *t = type_get(w, one);
		struct str fields = str_of(want->field), path = { "", 0 };

		if (!t || !t->found)
			continue;
		do {
			(void)alternative(&fields, &path);
			if (dwarf_field(d, t->found, path, &offset) && offset <= UINT32_MAX) {
				*out = (struct gobin_field){ (uint32_t)offset, GOBIN_DWARF, rank };
				return;
			}
		} while (fields.n);
		return;
	}
}

/* Looks up in DWARF what w->types has not found; their `found` is then that of DWARF. */
static int dwarf_fill(struct field_sources *from, struct wanted *w, const struct gobin_want *want,
		      const bool *missing, size_t n, struct gobin_field *out)
{
	auto_free struct dwarf_want *types = calloc(w->n + 1, sizeof(*types));
	auto_free struct gotype_want **of = calloc(w->n + 1, sizeof(*of));
	auto_dwarf struct dwarf *d = NULL;
	size_t ntypes = 0;
	int err;

	if (!types || !of)
		return -ENOMEM;
	err = in_use(from, w, types, of, &ntypes);
	if (err || !ntypes)
		return err;
	err = dwarf_new(&d, from->exe, &from->memory);
	if (!err)
		err = dwarf_lookup(d, types, ntypes);
	if (err)
		return err == -ENOMEM ? err : 0; /* no debug information, or none that is usable:
						    fields stay absent */
	for (size_t i = 0; i < ntypes; i++)
		of[i]->found = types[i].found;
	for (size_t i = 0; i < n; i++)
		if (missing[i])
			from_dwarf(d, w, &want[i], &out[i]);
	return 0;
}

static void from_table(const struct gobin_want *want, struct gobin_field *out)
{
	struct str list = str_of(want->type), one;
	uint32_t offset;
	uint8_t rank = 0;

	for (; alternative(&list, &one); rank++)
		if (table_field(one, str_of(want->field), &offset)) {
			*out = (struct gobin_field){ offset, GOBIN_TABLE, rank };
			return;
		}
}

int field_find(struct field_sources *from, const struct gobin_want *want, size_t n,
	       struct gobin_field *out)
{
	auto_free bool *missing = calloc(n + 1, sizeof(*missing));
	auto_free struct gotype_want *types = NULL;
	struct wanted w = { 0 };
	size_t all = 0, nmissing = 0;
	struct str list, one;
	int err = 0;

	for (size_t i = 0; i < n; i++)
		all += alternatives(want[i].type);
	types = w.types = calloc(all + 1, sizeof(*types));
	if (!types || !missing)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		for (list = str_of(want[i].type); alternative(&list, &one);)
			(void)type_get(&w, one);
	if (from->types->types)
		err = gotypes_lookup(from->types, w.types, w.n);
	for (size_t i = 0; !err && i < n; i++) {
		out[i] = (struct gobin_field){ 0, GOBIN_NOWHERE, 0 };
		missing[i] = !from_types(from->types, &w, &want[i], &out[i]);
		nmissing += missing[i];
	}
	if (!err && nmissing && dwarf_exists(from->exe))
		err = dwarf_fill(from, &w, want, missing, n, out);
	for (size_t i = 0; !err && i < n; i++)
		if (missing[i] && out[i].source == GOBIN_NOWHERE)
			from_table(&want[i], &out[i]);
	return err ? err : from->exe->err;
}
