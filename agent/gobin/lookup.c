/* lookup.c - finds named types through their pointer type: *pkg.T is in the sorted list of links,
 * its element is T. */
#include "gobin/gotype.h"
#include "gobin/names.h"

#define KEY_MAX 512u
#define ROW_MAX (4u << 20)

static int compare(const char *a, size_t an, const char *key, size_t kn)
{
	int c = memcmp(a, key, an < kn ? an : kn);

	return c ? c : (an > kn) - (an < kn);
}

static bool link_read(const struct gotypes *ts, uint64_t idx, struct gotype *t)
{
	return gotype_read(ts, ts->types + exe_u32(ts->exe, ts->links + 4 * idx), t);
}

/* Index of the first link whose string is not less than key. */
static uint64_t lower_bound(const struct gotypes *ts, const char *key, size_t n)
{
	uint64_t lo = 0, hi = ts->nlinks;
	char buf[KEY_MAX];
	struct gotype t;

	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		size_t len;

		if (!link_read(ts, mid, &t))
			return ts->nlinks;
		len = gotype_string(ts, &t, buf, sizeof(buf));
		if (compare(buf, len < sizeof(buf) ? len : sizeof(buf) - 1, key, n) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/* The element of the pointer type t, if it is the wanted one. */
static bool element_is(const struct gotypes *ts, const struct gotype *t, struct gotype_want *w)
{
	struct gotype elem;

	if (t->kind != GOTYPE_PTR || !gotype_read(ts, exe_ptr(ts->exe, t->addr + 48), &elem) ||
	    !gotype_is(ts, &elem, w->package, w->name))
		return false;
	w->found = elem.addr;
	w->pointer = t->addr;
	return true;
}

static void search(const struct gotypes *ts, struct str package, struct gotype_want *w)
{
	char key[KEY_MAX], buf[KEY_MAX];
	size_t n = 1 + package.n + 1 + w->name.n;
	struct gotype t;

	if (w->found || !package.n || n >= sizeof(key))
		return;
	key[0] = '*';
	memcpy(key + 1, package.p, package.n);
	key[1 + package.n] = '.';
	memcpy(key + 2 + package.n, w->name.p, w->name.n);
	for (uint64_t i = lower_bound(ts, key, n); i < ts->nlinks && link_read(ts, i, &t); i++)
		if (gotype_string(ts, &t, buf, sizeof(buf)) != n || memcmp(buf, key, n) != 0 ||
		    element_is(ts, &t, w))
			return;
}

/* v3, and v1.0.0 as the standard library's crypto has it. */
static bool is_version(struct str s)
{
	if (s.n < 2 || s.p[0] != 'v')
		return false;
	for (size_t i = 1; i < s.n; i++)
		if ((s.p[i] < '0' || s.p[i] > '9') && s.p[i] != '.')
			return false;
	return true;
}

static struct str last_element(struct str path)
{
	size_t i = path.n;

	while (i && path.p[i - 1] != '/')
		i--;
	return (struct str){ path.p + i, path.n - i };
}

static bool ends_with(struct str s, const char *end)
{
	size_t n = strlen(end);

	return s.n > n && memcmp(s.p + s.n - n, end, n) == 0;
}

/* Package names are not in import paths. By custom it is the last element, or the one before a
 * version, without "go": kafka-go, nats.go, go-redis/v9, yaml.v3. */
static void search_guessed(const struct gotypes *ts, struct gotype_want *w)
{
	struct str last = last_element(w->package);

	search(ts, last, w);
	if (is_version(last) && last.n + 1 < w->package.n) {
		last = last_element((struct str){ w->package.p, w->package.n - last.n - 1 });
		search(ts, last, w);
	}
	for (size_t i = last.n; i > 1; i--)
		if (last.p[i - 1] == '.' && is_version((struct str){ last.p + i, last.n - i })) {
			last.n = i - 1;
			search(ts, last, w);
			break;
		}
	if (ends_with(last, "-go") || ends_with(last, ".go"))
		last.n -= 3;
	if (last.n > 3 && memcmp(last.p, "go-", 3) == 0)
		last = (struct str){ last.p + 3, last.n - 3 };
	search(ts, last, w);
}

/* One descriptor of a pass over all: filtered by the last part of its string, which needs no
 * package name. */
static void pass_one(const struct gotypes *ts, const struct gotype *t, const struct names *set,
		     struct gotype_want **list)
{
	char buf[KEY_MAX];
	struct str package, name;
	size_t n;

	if (t->kind != GOTYPE_PTR)
		return;
	n = gotype_string(ts, t, buf, sizeof(buf));
	if (n >= sizeof(buf) || !gotype_split((struct str){ buf, n }, &package, &name))
		return;
	for (long i = names_find(set, name.p, name.n, -1); i >= 0;
	     i = names_find(set, name.p, name.n, i))
		if (!list[i]->found)
			(void)element_is(ts, t, list[i]);
}

static int pass_all(const struct gotypes *ts, const struct names *set, struct gotype_want **list)
{
	uint64_t at = ts->row;
	struct gotype t;

	for (uint64_t i = 0; i < ts->nlinks && !ts->exe->err; i++)
		if (link_read(ts, i, &t))
			pass_one(ts, &t, set, list);
	for (size_t n = 0; at < ts->row_end && n < ROW_MAX && !ts->exe->err; n++) {
		uint64_t extent = gotype_read(ts, at, &t) ? gotype_extent(ts, &t) : 0;

		if (!extent)
			return -EBADMSG; /* not the layout we took it for: better nothing than half
					  */
		pass_one(ts, &t, set, list);
		at += (extent + 7) & ~7ull;
	}
	return ts->exe->err;
}

/* The standard library's package names are its last elements: a search that failed needs no pass to
 * confirm it. */
static bool needs_pass(const struct gotypes *ts, const struct gotype_want *w)
{
	size_t first = 0;

	if (w->found || !w->package.n)
		return false;
	if (ts->row)
		return true;
	while (first < w->package.n && w->package.p[first] != '/')
		first++;
	return memchr(w->package.p, '.', first) != NULL &&
	       (first < 10 || memcmp(w->package.p, "golang.org", 10) != 0);
}

int gotypes_lookup(struct gotypes *ts, struct gotype_want *want, size_t n)
{
	auto_free struct gotype_want **list = calloc(n + 1, sizeof(struct gotype_want *));
	auto_names struct names set = { 0 };
	int err;

	if (!list || names_init(&set, n))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		want[i].found = 0;
		if (ts->links)
			search_guessed(ts, &want[i]);
		if (needs_pass(ts, &want[i]))
			list[names_add(&set, want[i].name)] = &want[i];
	}
	if (ts->exe->err)
		return ts->exe->err;
	err = set.n ? pass_all(ts, &set, list) : 0;
	for (size_t i = 0; err && i < n; i++)
		want[i].found = 0;
	return err == -EBADMSG ? 0 : err;
}

uint64_t gotypes_unnamed(struct gotypes *ts, const char *string)
{
	size_t n = strlen(string);
	char buf[KEY_MAX];
	uint64_t at = ts->row;
	struct gotype t;

	if (ts->links)
		for (uint64_t i = lower_bound(ts, string, n);
		     i < ts->nlinks && link_read(ts, i, &t); i++) {
			if (gotype_string(ts, &t, buf, sizeof(buf)) != n ||
			    memcmp(buf, string, n) != 0)
				return 0;
			if (!(t.tflag & 4))
				return t.addr;
		}
	for (size_t i = 0; at < ts->row_end && i < ROW_MAX && !ts->exe->err; i++) {
		uint64_t extent = gotype_read(ts, at, &t) ? gotype_extent(ts, &t) : 0;

		if (!extent)
			return 0;
		if (t.kind == GOTYPE_MAP && gotype_string(ts, &t, buf, sizeof(buf)) == n &&
		    memcmp(buf, string, n) == 0)
			return t.addr;
		at += (extent + 7) & ~7ull;
	}
	return 0;
}
