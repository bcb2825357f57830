/* The configuration for people: `spoor config`, its --defaults and --json, and what --help says. */
#include "base/settings.h"

#include <ctype.h>
#include <jansson.h>

static void print_lines(const struct settings *s)
{
	char origin[512];

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		auto_free char *text = NULL;
		union option_value value;
		size_t n = 0;
		FILE *f = open_memstream(&text, &n);

		if (!f)
			return;
		value = option_value(&options[i], &s->cfg);
		option_print(f, &options[i], &value);
		(void)fclose(f);
		settings_origin(s, &options[i], origin, sizeof(origin));
		printf("%-34s = %-40s # %s\n", options[i].key, n ? text : "\"\"", origin);
	}
}

static json_t *list_json(const struct list *l)
{
	json_t *a = json_array();

	for (size_t i = 0; i < l->n; i++)
		json_array_append_new(a, json_string_nocheck(l->v[i]));
	return a;
}

static json_t *map_json(const struct list *l, bool secret)
{
	json_t *m = json_object();

	for (size_t i = 0; i < l->n; i++) {
		size_t n = strcspn(l->v[i], "=");
		auto_free char *key = strndup(l->v[i], n);

		if (key)
			json_object_set_new_nocheck(
				m, key, json_string_nocheck(secret ? "***" : l->v[i] + n + 1));
	}
	return m;
}

static json_t *value_json(const struct option *o, const union option_value *v)
{
	char text[64];

	switch (o->type) {
	case OPTION_STRING:
	case OPTION_ENUM:
		return json_string_nocheck(v->text);
	case OPTION_UINT:
		return json_integer(v->uint);
	case OPTION_DURATION:
		option_print_duration(text, sizeof(text), v->number);
		return json_string(text);
	case OPTION_SIZE:
		option_print_size(text, sizeof(text), v->number);
		return json_string(text);
	case OPTION_BOOL:
		return json_boolean(v->flag);
	case OPTION_LIST:
		return list_json(&v->list);
	case OPTION_MAP:
		return map_json(&v->list, strcmp(o->allowed, "secret") == 0);
	}
	return json_null();
}

static void print_json(const struct settings *s)
{
	json_t *root = json_object();
	char origin[512];

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const union option_value value = option_value(&options[i], &s->cfg);

		settings_origin(s, &options[i], origin, sizeof(origin));
		json_object_set_new(root, options[i].key,
				    json_pack("{s:o, s:s}", "value",
					      value_json(&options[i], &value), "source", origin));
	}
	(void)json_dumpf(root, stdout, JSON_INDENT(2));
	(void)putchar('\n');
	json_decref(root);
}

void config_print(const struct config *cfg, bool json)
{
	(json ? print_json : print_lines)((const struct settings *)cfg);
}

/* Length of what a and b begin with, in whole parts of a key: 11 for "kubelet.tls." */
static size_t shared_groups(const char *a, const char *b)
{
	size_t n = 0;

	for (size_t i = 0; a[i] && a[i] == b[i]; i++)
		if (a[i] == '.')
			n = i + 1;
	return n;
}

static void indent(FILE *f, const char *key, size_t upto)
{
	for (size_t i = 0; i < upto; i++)
		if (key[i] == '.')
			(void)fputs("  ", f);
}

static bool plain_scalar(const struct option *o)
{
	return o->type == OPTION_UINT || o->type == OPTION_BOOL || o->type == OPTION_DURATION ||
	       o->type == OPTION_SIZE;
}

static void print_yaml_default(FILE *f, const struct option *o)
{
	struct list items = { 0 };

	if (o->type == OPTION_MAP) {
		(void)fputs("{}", f);
	} else if (o->type == OPTION_LIST) {
		(void)fputc('[', f);
		if (list_split(o->def, &items) == 0)
			for (size_t i = 0; i < items.n; i++)
				(void)fprintf(f, "%s\"%s\"", i ? ", " : "", items.v[i]);
		(void)fputc(']', f);
		list_clear(&items);
	} else {
		(void)fprintf(f, plain_scalar(o) ? "%s" : "\"%s\"", o->def);
	}
}

void config_defaults(FILE *f)
{
	const char *before = "";

	(void)fputs("# Every option of spoor, at its default. Order of precedence: this file, then "
		    "environment variables, then flags.\n",
		    f);
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct option *o = &options[i];
		size_t at = shared_groups(before, o->key);
		char allowed[OPTION_WHY], env[OPTION_NAME];

		if (at == 0)
			(void)fputc('\n', f);
		for (const char *dot; (dot = strchr(o->key + at, '.')) != NULL;
		     at = (size_t)(dot - o->key) + 1) {
			indent(f, o->key, at);
			(void)fprintf(f, "%.*s:\n", (int)(dot - o->key - (ptrdiff_t)at),
				      o->key + at);
		}
		option_allowed(o, allowed);
		option_env(o, env);
		indent(f, o->key, at);
		(void)fprintf(f, "# %s%s%s%s [%s%s%s]\n", o->help, *allowed ? " (" : "", allowed,
			      *allowed ? ")" : "", env, *o->also ? " " : "", o->also);
		indent(f, o->key, at);
		(void)fprintf(f, "%s: ", o->key + at);
		print_yaml_default(f, o);
		(void)fputc('\n', f);
		before = o->key;
	}
}

static void usage_row(FILE *f, const struct option *o)
{
	static const char *const kinds[] = {
		[OPTION_STRING] = "TEXT",   [OPTION_ENUM] = "WORD",
		[OPTION_UINT] = "N",        [OPTION_SIZE] = "SIZE",
		[OPTION_DURATION] = "TIME", [OPTION_BOOL] = "[=true|false]",
		[OPTION_LIST] = "A,B",      [OPTION_MAP] = "K=V,..."
	};
	char flag[OPTION_NAME], allowed[OPTION_WHY], left[OPTION_NAME * 2];

	option_flag(o, flag);
	option_allowed(o, allowed);
	(void)snprintf(left, sizeof(left), "%s%s%s", flag, o->type == OPTION_BOOL ? "" : " ",
		       kinds[o->type]);
	(void)fprintf(f, "  %-40s %s\n", left, o->help);
	if (*allowed && o->type != OPTION_BOOL)
		(void)fprintf(f, "  %-40s   %s\n", "", allowed);
	if (*o->def)
		(void)fprintf(f, "  %-40s   default: %s\n", "", o->def);
	if (*o->also)
		(void)fprintf(f, "  %-40s   also: $%s\n", "", o->also);
}

void config_usage(FILE *f)
{
	const char *before = "";

	(void)fputs("Options. Each is also a key of the YAML file (--config FILE or $SPOOR_CONFIG) "
		    "and an environment variable:\n"
		    "--kubelet-tls-mode ca, SPOOR_KUBELET_TLS_MODE=ca, and `kubelet: {tls: {mode: "
		    "ca}}` are the same. A flag wins over\n"
		    "the environment, the environment over the file. `spoor config` shows what is "
		    "in effect, and why;\n"
		    "`spoor config --defaults` prints a file with all of them.\n\n"
		    "  --config FILE                            YAML file with options\n"
		    "  -h, --help                               this text\n",
		    f);
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const char *key = options[i].key;
		size_t n = strcspn(key, ".");

		if (strncmp(before, key, n) != 0 || (before[n] != '.' && before[n] != '\0') ||
		    i == 0) {
			(void)fprintf(f, "\n%.*s\n", (int)n, key);
		}
		usage_row(f, &options[i]);
		before = key;
	}
}
