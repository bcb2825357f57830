#include "metrics/labels.h"

/* Labels that say something else: an attribute of that name is told as Prometheus tells labels of a
 * target that are its own. */
static const char *const taken[] = { "job", "instance", "otel_scope_name", "le", "quantile" };
#define RENAMED "exported_"

size_t label_name(char *out, size_t size, struct str key)
{
	size_t n = 0;

	if (key.n && key.p[0] >= '0' && key.p[0] <= '9' && size > 1)
		out[n++] = '_';
	for (size_t i = 0; i < key.n && n + 1 < size; i++) {
		char c = key.p[i];
		bool word =
			(c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

		if (word || !n || out[n - 1] != '_')
			out[n++] = (char)(word ? c : '_');
	}
	out[n] = '\0';
	return n;
}

static bool is_taken(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(taken); i++)
		if (strcmp(name, taken[i]) == 0)
			return true;
	return false;
}

void labels_cut(struct labels *l, size_t n)
{
	if (n < l->n)
		l->used = n ? (size_t)(l->v[n].name - l->names) : 0;
	l->n = n;
}

bool labels_add(struct labels *l, struct str key, struct str value)
{
	char *name = l->names + l->used;
	size_t room = sizeof(l->names) - l->used, prefix = strlen(RENAMED), n;

	if (key.n == 0)
		return true;
	/* Not one name that was cut: it might be another's. */
	if (l->n == LABELS_MAX || room < key.n + prefix + 2)
		return false;
	n = label_name(name, room, key);
	if (is_taken(name)) {
		memmove(name + prefix, name, n + 1);
		for (size_t i = 0; i < prefix; i++)
			name[i] = RENAMED[i];
		n += prefix;
	}
	l->v[l->n++] = (struct label){ .name = name, .key = key, .value = value };
	l->used += n + 1;
	return true;
}

static int by_key(const void *one, const void *other)
{
	const struct label *a = one, *b = other;
	size_t n = a->key.n < b->key.n ? a->key.n : b->key.n;
	int differ = memcmp(a->key.p, b->key.p, n);

	return differ ? differ : (a->key.n > b->key.n) - (a->key.n < b->key.n);
}

void labels_sort(struct labels *l)
{
	qsort(l->v, l->n, sizeof(l->v[0]), by_key);
}

/* U+FFFD stands for NUL, at which readers written in C end. */
static void put_escaped(FILE *f, struct str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '\0') {
			(void)fputs("\xef\xbf\xbd", f);
			continue;
		}
		if (c == '\n' || c == '"' || c == '\\')
			(void)putc_unlocked('\\', f);
		(void)putc_unlocked(c == '\n' ? 'n' : c, f);
	}
}

void label_value(FILE *f, struct str value)
{
	(void)putc_unlocked('"', f);
	put_escaped(f, value);
	(void)putc_unlocked('"', f);
}

static bool was_before(const struct labels *l, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (strcmp(l->v[i].name, l->v[at].name) == 0)
			return true;
	return false;
}

void labels_write(const struct labels *l, FILE *f)
{
	for (size_t i = 0; i < l->n; i++) {
		if (was_before(l, i))
			continue;
		(void)fprintf(f, ",%s=\"", l->v[i].name);
		put_escaped(f, l->v[i].value);
		for (size_t k = i + 1; k < l->n; k++) {
			if (strcmp(l->v[k].name, l->v[i].name) != 0)
				continue;
			(void)putc_unlocked(';', f);
			put_escaped(f, l->v[k].value);
		}
		(void)putc_unlocked('"', f);
	}
}
