#include "base/option.h"

#include <ctype.h>

#define X(t, m, k, a, d, al, h)                                                                    \
	[OPT_##m] = { .type = OPTION_##t,                                                          \
		      .offset = offsetof(struct config, m),                                        \
		      .key = (k),                                                                  \
		      .also = (a),                                                                 \
		      .def = (d),                                                                  \
		      .allowed = (al),                                                             \
		      .help = (h) },
const struct option options[OPTION_COUNT] = { OPTIONS(X) };
#undef X

void option_env(const struct option *o, char out[OPTION_NAME])
{
	size_t n = (size_t)snprintf(out, OPTION_NAME, "SPOOR_%s", o->key);

	for (size_t i = 0; i < n && out[i]; i++)
		out[i] = (char)(out[i] == '.' ? '_' : toupper((unsigned char)out[i]));
}

void option_flag(const struct option *o, char out[OPTION_NAME])
{
	size_t n = (size_t)snprintf(out, OPTION_NAME, "--%s", o->key);

	for (size_t i = 0; i < n && out[i]; i++)
		if (out[i] == '.' || out[i] == '_')
			out[i] = '-';
}

const struct option *option_find(const char *key)
{
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (strcmp(options[i].key, key) == 0)
			return &options[i];
	return NULL;
}

size_t option_distance(const char *a, const char *b)
{
	size_t row[3][OPTION_NAME + 1]; /* the last three lines of the edit table */
	size_t la = strnlen(a, OPTION_NAME), lb = strnlen(b, OPTION_NAME);

	for (size_t j = 0; j <= lb; j++)
		row[0][j] = j;
	for (size_t i = 1; i <= la; i++) {
		size_t *now = row[i % 3], *up = row[(i - 1) % 3], *up2 = row[(i + 1) % 3];

		now[0] = i;
		for (size_t j = 1; j <= lb; j++) {
			size_t best = up[j - 1] + (a[i - 1] != b[j - 1]);

			if (up[j] + 1 < best)
				best = up[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    up2[j - 2] + 1 < best)
				best = up2[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[la % 3][lb];
}

/* How many edits still look like a slip, for a word of that length. */
static size_t slip(const char *word)
{
	size_t n = strlen(word);

	return n < 4 ? 1 : n < 9 ? 2 : n / 3;
}

const char *option_nearest(const char *word, const char *const *words)
{
	const char *best = NULL;
	size_t least = slip(word) + 1;

	for (; *words; words++) {
		size_t d = option_distance(word, *words);

		if (d < least) {
			least = d;
			best = *words;
		}
	}
	return best;
}

/* Edits from key to the first `dots + 1` parts of known, copied to out; a key given without its
 * group counts two. */
static size_t key_distance(const char *key, const char *known, char out[OPTION_NAME])
{
	size_t parts = 1, n = 0, d;
	const char *tail = strrchr(known, '.');

	for (const char *p = key; *p; p++)
		parts += *p == '.';
	for (; known[n] && n < OPTION_NAME - 1; n++)
		if (known[n] == '.' && --parts == 0)
			break;
	(void)snprintf(out, OPTION_NAME, "%.*s", (int)n, known);
	d = option_distance(key, out);
	if (tail && !strchr(key, '.') && d > 2 && option_distance(key, tail + 1) == 0) {
		(void)snprintf(out, OPTION_NAME, "%s", known);
		return 2;
	}
	return d;
}

void option_nearest_key(const char *key, char out[OPTION_NAME])
{
	size_t least = slip(key) + 1;

	out[0] = '\0';
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		char candidate[OPTION_NAME];
		size_t d = key_distance(key, options[i].key, candidate);

		if (d < least) {
			least = d;
			memcpy(out, candidate, OPTION_NAME);
		}
	}
}

int list_add(struct list *l, const char *item, size_t len)
{
	char **v = realloc(l->v, (l->n + 2) * sizeof(*v));
	char *copy;

	if (!v)
		return -ENOMEM;
	l->v = v;
	l->v[l->n] = NULL;
	copy = strndup(item, len);
	if (!copy)
		return -ENOMEM;
	l->v[l->n++] = copy;
	l->v[l->n] = NULL;
	return 0;
}

void list_clear(struct list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct list){ 0 };
}

int list_split(const char *text, struct list *out)
{
	struct list l = { 0 };

	while (*text) {
		size_t n = strcspn(text, ",");
		const char *from = text, *to = text + n;

		while (from < to && isspace((unsigned char)*from))
			from++;
		while (to > from && isspace((unsigned char)to[-1]))
			to--;
		if (to > from && list_add(&l, from, (size_t)(to - from)) != 0) {
			list_clear(&l);
			return -ENOMEM;
		}
		text += n + (text[n] == ',');
	}
	*out = l;
	return 0;
}

union option_value option_value(const struct option *o, const struct config *cfg)
{
	static const size_t sizes[] = {
		[OPTION_STRING] = sizeof(CONFIG_STRING),     [OPTION_ENUM] = sizeof(CONFIG_ENUM),
		[OPTION_UINT] = sizeof(CONFIG_UINT),         [OPTION_SIZE] = sizeof(CONFIG_SIZE),
		[OPTION_DURATION] = sizeof(CONFIG_DURATION), [OPTION_BOOL] = sizeof(CONFIG_BOOL),
		[OPTION_LIST] = sizeof(CONFIG_LIST),         [OPTION_MAP] = sizeof(CONFIG_MAP),
	};
	union option_value v = { 0 };

	memcpy(&v, (const char *)cfg + o->offset, sizes[o->type]);
	return v;
}

void option_clear(const struct option *o, struct config *cfg)
{
	void *at = (char *)cfg + o->offset;

	switch (o->type) {
	case OPTION_STRING:
	case OPTION_ENUM:
		free(*(char **)at);
		*(char **)at = NULL;
		break;
	case OPTION_LIST:
	case OPTION_MAP:
		list_clear(at);
		break;
	default:
		break;
	}
}

void option_store(const struct option *o, struct config *cfg, union option_value *value)
{
	void *at = (char *)cfg + o->offset;

	option_clear(o, cfg);
	switch (o->type) {
	case OPTION_STRING:
	case OPTION_ENUM:
		*(char **)at = value->text;
		break;
	case OPTION_UINT:
		*(uint32_t *)at = value->uint;
		break;
	case OPTION_DURATION:
	case OPTION_SIZE:
		*(uint64_t *)at = value->number;
		break;
	case OPTION_BOOL:
		*(bool *)at = value->flag;
		break;
	case OPTION_LIST:
	case OPTION_MAP:
		*(struct list *)at = value->list;
		break;
	}
	*value = (union option_value){ 0 };
}
