/* The configuration file: YAML, read event by event so that every complaint has its line. */
#include "base/settings.h"

#include <errno.h>
#include <stdio.h>
#include <yaml.h>

#define FILE_MAX (1 << 20)
#define GROUPS   64 /* more than there are groups of options */
#define ITEMS_MAX                                                                                  \
	4096         /* of one list or mapping; each key of a mapping is compared with the others */
#define DEPTH_MAX 32 /* libyaml takes quadratic time for more and more of it */

struct reader {
	yaml_parser_t parser;
	struct settings *s;
	int seen[OPTION_COUNT]; /* line of each option that was given */
	struct {
		char path[OPTION_NAME];
		int line;
	} groups[GROUPS];
	size_t ngroups, depth;
	bool broken; /* the parser has given up */
};

#define auto_event __attribute__((cleanup(yaml_event_delete)))

#define error_at(r, at_line, ...)                                                                  \
	do {                                                                                       \
		const struct place place_ = { .from = FROM_FILE, .line = (at_line) };              \
		settings_error((r)->s, &place_, __VA_ARGS__);                                      \
	} while (0)

static int line_of(const yaml_event_t *e)
{
	return (int)e->start_mark.line + 1;
}

static bool starts(const yaml_event_t *e)
{
	return e->type == YAML_MAPPING_START_EVENT || e->type == YAML_SEQUENCE_START_EVENT;
}

static bool ends(const yaml_event_t *e)
{
	return e->type == YAML_MAPPING_END_EVENT || e->type == YAML_SEQUENCE_END_EVENT;
}

/* The next event, or false at a syntax error or where it nests too deep, which is reported. */
static bool next(struct reader *r, yaml_event_t *e)
{
	memset(e, 0, sizeof(*e));
	if (r->broken)
		return false;
	if (yaml_parser_parse(&r->parser, e)) {
		r->depth += starts(e);
		r->depth -= ends(e);
		if (r->depth <= DEPTH_MAX)
			return true;
		error_at(r, line_of(e), "nested deeper than %d", DEPTH_MAX);
		yaml_event_delete(e);
		r->broken = true;
		return false;
	}
	r->broken = true;
	error_at(r, (int)r->parser.problem_mark.line + 1, "not YAML: %s%s%s",
		 r->parser.problem ? r->parser.problem : "unreadable",
		 r->parser.context ? ", " : "", r->parser.context ? r->parser.context : "");
	return false;
}

/* Skips the rest of the node that e begins. */
static void skip(struct reader *r, const yaml_event_t *e)
{
	size_t depth = starts(e);

	while (depth > 0) {
		auto_event yaml_event_t inner;

		if (!next(r, &inner))
			return;
		depth += starts(&inner);
		depth -= ends(&inner);
	}
}

/* Aliases, anchors and tags: a configuration of sixty plain values needs none, and they hide what
 * is set. */
static bool plain(struct reader *r, const yaml_event_t *e, const char *path)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;

	if (e->type == YAML_ALIAS_EVENT) {
		error_at(r, line_of(e), "%s: aliases (*name) are not allowed, write the value",
			 path);
		return false;
	}
	if (e->type == YAML_SCALAR_EVENT) {
		anchor = e->data.scalar.anchor;
		tag = e->data.scalar.tag;
	} else if (e->type == YAML_MAPPING_START_EVENT) {
		anchor = e->data.mapping_start.anchor;
		tag = e->data.mapping_start.tag;
	} else if (e->type == YAML_SEQUENCE_START_EVENT) {
		anchor = e->data.sequence_start.anchor;
		tag = e->data.sequence_start.tag;
	}
	if (anchor || tag)
		error_at(r, line_of(e), "%s: %s are not allowed, write the value", path,
			 anchor ? "anchors (&name)" : "tags (!name)");
	return !anchor && !tag;
}

/* "", ~, null without quotes: the key stands there and says nothing. */
static bool is_null(const yaml_event_t *e)
{
	const char *v = (const char *)e->data.scalar.value;

	return e->type == YAML_SCALAR_EVENT && e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (!*v || strcmp(v, "~") == 0 || strcmp(v, "null") == 0);
}

/* The text of a scalar, or NULL, reported. */
static const char *text_of(struct reader *r, const yaml_event_t *e, const char *path,
			   const char *wanted)
{
	if (e->type != YAML_SCALAR_EVENT) {
		error_at(r, line_of(e), "%s: a %s is not allowed here, must be %s", path,
			 e->type == YAML_MAPPING_START_EVENT ? "mapping" : "sequence", wanted);
		return NULL;
	}
	if (strlen((const char *)e->data.scalar.value) != e->data.scalar.length) {
		error_at(r, line_of(e), "%s: a NUL byte is not allowed", path);
		return NULL;
	}
	return (const char *)e->data.scalar.value;
}

static void add_item(struct reader *r, const yaml_event_t *e, const char *path, struct list *items)
{
	const char *text = plain(r, e, path) ? text_of(r, e, path, "a plain value") : NULL;

	if (!text)
		skip(r, e);
	else if (list_add(items, text, strlen(text)) != 0)
		error_at(r, line_of(e), "%s: out of memory", path);
}

static bool has_key(const struct list *items, const char *key)
{
	size_t n = strlen(key);

	for (size_t i = 0; i < items->n; i++)
		if (strncmp(items->v[i], key, n) == 0 && items->v[i][n] == '=')
			return true;
	return false;
}

/* One `key: value` of a MAP option, as "key=value". */
static void add_pair(struct reader *r, const yaml_event_t *e, const char *path, struct list *items)
{
	auto_event yaml_event_t v;
	const char *key = plain(r, e, path) ? text_of(r, e, path, "a plain key") : NULL, *value;
	auto_free char *pair = NULL;

	if (!key)
		skip(r, e);
	if (!next(r, &v))
		return;
	value = plain(r, &v, path) ? text_of(r, &v, path, "a plain value") : NULL;
	if (!value)
		skip(r, &v);
	if (!key || !value)
		return;
	if (!*key || strchr(key, '='))
		error_at(r, line_of(e), "%s: '%.60s' cannot be a key", path, key);
	else if (has_key(items, key))
		error_at(r, line_of(e), "%s: '%.60s' is given twice", path, key);
	else if (asprintf(&pair, "%s=%s", key, value) < 0 ||
		 list_add(items, pair, strlen(pair)) != 0)
		error_at(r, line_of(e), "%s: out of memory", path);
}

static void read_items(struct reader *r, const struct option *o, int line)
{
	const struct place at = { .from = FROM_FILE, .line = line };
	size_t errors = r->s->errors;
	struct list items = { 0 };
	bool full = false;

	for (;;) {
		auto_event yaml_event_t e;

		if (!next(r, &e) || ends(&e))
			break;
		if (items.n == ITEMS_MAX) {
			if (!full)
				error_at(r, line_of(&e), "%s: more than %d entries", o->key,
					 ITEMS_MAX);
			full = true;
			skip(r, &e);
			continue;
		}
		(o->type == OPTION_MAP ? add_pair : add_item)(r, &e, o->key, &items);
	}
	if (errors == r->s->errors)
		settings_set_items(r->s, o, &items, &at);
	list_clear(&items);
}

/* line: of the key. */
static void read_option(struct reader *r, const struct option *o, int line, const yaml_event_t *e)
{
	const struct place at = { .from = FROM_FILE, .line = line };
	char allowed[OPTION_WHY];
	const char *text;

	if (is_null(e))
		return;
	if ((o->type == OPTION_LIST && e->type == YAML_SEQUENCE_START_EVENT) ||
	    (o->type == OPTION_MAP && e->type == YAML_MAPPING_START_EVENT)) {
		read_items(r, o, line);
		return;
	}
	option_allowed(o, allowed);
	text = text_of(r, e, o->key,
		       o->type == OPTION_LIST ? "a sequence or a comma list"
		       : *allowed             ? allowed
					      : "a plain value");
	if (text)
		settings_set(r->s, o, text, &at);
	else
		skip(r, e);
}

/* True when options lie below path. */
static bool is_group(const char *path)
{
	size_t n = strlen(path);

	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (strncmp(options[i].key, path, n) == 0 && options[i].key[n] == '.')
			return true;
	return false;
}

/* The line in which the group was given before, 0: now for the first time. */
static int group_seen(struct reader *r, const char *path, int line)
{
	for (size_t i = 0; i < r->ngroups; i++)
		if (strcmp(r->groups[i].path, path) == 0)
			return r->groups[i].line;
	if (r->ngroups < GROUPS) {
		(void)snprintf(r->groups[r->ngroups].path, OPTION_NAME, "%s", path);
		r->groups[r->ngroups++].line = line;
	}
	return 0;
}

static void read_mapping(struct reader *r, const char *prefix);

static void read_group(struct reader *r, const char *path, int line, const yaml_event_t *e)
{
	int before = group_seen(r, path, line);

	if (before) {
		error_at(r, line, "%s: given twice, first in line %d", path, before);
		skip(r, e);
	} else if (e->type == YAML_MAPPING_START_EVENT) {
		read_mapping(r, path);
	} else if (!is_null(e)) {
		error_at(r, line_of(e), "%s: is a group of options, must be a mapping", path);
		skip(r, e);
	}
}

static void unknown_key(struct reader *r, const char *path, const yaml_event_t *key,
			const yaml_event_t *value)
{
	char near[OPTION_NAME];

	option_nearest_key(path, near);
	if (*near)
		error_at(r, line_of(key), "unknown key '%.80s', did you mean '%s'?", path, near);
	else
		error_at(r, line_of(key),
			 "unknown key '%.80s'; `spoor config --defaults` lists them all", path);
	skip(r, value);
}

static void read_pair(struct reader *r, const char *prefix, const yaml_event_t *key)
{
	char path[256];
	const struct option *o;
	auto_event yaml_event_t value;
	const char *name = plain(r, key, *prefix ? prefix : "key")
				   ? text_of(r, key, *prefix ? prefix : "key", "a plain key")
				   : NULL;

	if (!name)
		skip(r, key);
	if (!next(r, &value))
		return;
	if (!name) {
		skip(r, &value);
		return;
	}
	(void)snprintf(path, sizeof(path), "%s%s%s", prefix, *prefix ? "." : "", name);
	o = option_find(path);
	if (!o && !is_group(path)) {
		unknown_key(r, path, key, &value);
	} else if (!plain(r, &value, path)) {
		skip(r, &value);
	} else if (!o) {
		read_group(r, path, line_of(key), &value);
	} else if (r->seen[o - options]) {
		error_at(r, line_of(key), "%s: given twice, first in line %d", path,
			 r->seen[o - options]);
		skip(r, &value);
	} else {
		r->seen[o - options] = line_of(key);
		read_option(r, o, line_of(key), &value);
	}
}

/* Keys nest no deeper than the table's: what lies below an unknown one is skipped, not entered. */
static void read_mapping(struct reader *r, const char *prefix)
{
	for (;;) {
		auto_event yaml_event_t e;

		if (!next(r, &e) || e.type == YAML_MAPPING_END_EVENT)
			return;
		read_pair(r, prefix, &e);
	}
}

static void read_document(struct reader *r)
{
	auto_event yaml_event_t e;

	if (!next(r, &e) || !plain(r, &e, "the file"))
		return;
	if (e.type == YAML_MAPPING_START_EVENT) {
		read_mapping(r, "");
	} else if (!is_null(&e)) {
		error_at(r, line_of(&e), "the file must be a mapping of keys to values");
		skip(r, &e);
	}
}

void settings_yaml(struct settings *s, const char *name, const char *text, size_t len)
{
	struct reader r = { .s = s };
	size_t documents = 0;
	bool go_on = true;

	free(s->file);
	s->file = strdup(name);
	if (!s->file || !yaml_parser_initialize(&r.parser)) {
		error_at(&r, 0, "out of memory");
		return;
	}
	yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
	while (go_on) {
		auto_event yaml_event_t e;

		if (!next(&r, &e) || e.type == YAML_STREAM_END_EVENT)
			break;
		if (e.type == YAML_DOCUMENT_START_EVENT && documents++ == 0) {
			read_document(&r);
		} else if (e.type == YAML_DOCUMENT_START_EVENT) {
			error_at(&r, line_of(&e), "a second document is not allowed");
			go_on = false;
		}
	}
	yaml_parser_delete(&r.parser);
}

void settings_file(struct settings *s, const char *path)
{
	const struct place at = { .from = FROM_FILE };
	auto_free char *text = malloc(FILE_MAX + 1);
	FILE *f = fopen(path, "re");
	size_t n;
	int err;

	free(s->file);
	s->file = strdup(path);
	if (!s->file || !text || !f) {
		settings_error(s, &at, "cannot be read: %s", strerror(f ? ENOMEM : errno));
		if (f)
			(void)fclose(f);
		return;
	}
	n = fread(text, 1, FILE_MAX + 1, f);
	err = ferror(f) ? errno : 0;
	(void)fclose(f);
	if (err)
		settings_error(s, &at, "cannot be read: %s", strerror(err));
	else if (n > FILE_MAX)
		settings_error(s, &at, "larger than 1 MiB");
	else
		settings_yaml(s, path, text, n);
}
