#include "base/config.h"

#include "base/log.h"
#include "base/settings.h"

#include <stdarg.h>

void settings_origin(const struct settings *s, const struct option *o, char *out, size_t n)
{
	size_t i = (size_t)(o - options);

	switch (s->origin[i].from) {
	case FROM_DEFAULT:
		(void)snprintf(out, n, "default");
		break;
	case FROM_FILE:
		(void)snprintf(out, n, "%s:%d", s->file ? s->file : "?", s->origin[i].line);
		break;
	case FROM_ENVIRONMENT:
		(void)snprintf(out, n, "environment %s", s->origin[i].name);
		break;
	case FROM_FLAG:
		(void)snprintf(out, n, "flag %s", s->origin[i].name);
		break;
	}
}

void settings_error(struct settings *s, const struct place *at, const char *fmt, ...)
{
	char text[768], where[512] = "";
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (at->from == FROM_FILE)
		(void)snprintf(where, sizeof(where), at->line ? "%s:%d: " : "%s: ", s->file,
			       at->line);
	else if (at->from != FROM_DEFAULT)
		(void)snprintf(where, sizeof(where),
			       "%s%s: ", at->from == FROM_ENVIRONMENT ? "environment " : "",
			       at->name);
	log_error("config: %s%s", where, text);
	s->errors++;
}

void settings_take(struct settings *s, const struct option *o, union option_value *value,
		   const struct place *at)
{
	size_t i = (size_t)(o - options);

	option_store(o, &s->cfg, value);
	s->origin[i].from = at->from;
	s->origin[i].line = at->line;
	(void)snprintf(s->origin[i].name, OPTION_NAME, "%s", at->name ? at->name : "");
}

static void finish(struct settings *s, const struct option *o, int err, union option_value *value,
		   const char *why, const struct place *at)
{
	if (err == -ENOMEM)
		settings_error(s, at, "%s: out of memory", o->key);
	else if (err)
		settings_error(s, at, "%s: %s", o->key, why);
	else
		settings_take(s, o, value, at);
}

void settings_set(struct settings *s, const struct option *o, const char *text,
		  const struct place *at)
{
	union option_value value = { 0 };
	char why[OPTION_WHY] = "";
	int err = option_parse(o, text, &value, why);

	finish(s, o, err, &value, why, at);
}

void settings_set_items(struct settings *s, const struct option *o, const struct list *items,
			const struct place *at)
{
	union option_value value = { 0 };
	char why[OPTION_WHY] = "";
	int err = option_parse_items(o, (const char *const *)items->v, items->n, &value, why);

	finish(s, o, err, &value, why, at);
}

static void unknown_flag(struct settings *s, const char *name, const struct config_switch *sw)
{
	const char *known[OPTION_COUNT + 16];
	char flags[OPTION_COUNT][OPTION_NAME];
	const struct place at = { .from = FROM_FLAG, .name = name };
	const char *near;
	size_t n = 0;

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		option_flag(&options[i], flags[i]);
		known[n++] = flags[i];
	}
	known[n++] = "--config";
	known[n++] = "--help";
	for (; sw && sw->flag && n < ARRAY_SIZE(known) - 1; sw++)
		known[n++] = sw->flag;
	known[n] = NULL;
	near = option_nearest(name, known);
	settings_error(s, &at,
		       near ? "unknown flag, did you mean %s?"
			    : "unknown flag%s; --help lists them all",
		       near ? near : "");
}

static const struct option *find_flag(const char *name)
{
	char flag[OPTION_NAME];

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		option_flag(&options[i], flag);
		if (strcmp(flag, name) == 0)
			return &options[i];
	}
	return NULL;
}

struct flags {
	int argc, next;
	char **argv;
	const struct config_switch *switches;
	const char *file; /* of --config */
	bool help;
};

static bool set_switch(const struct config_switch *sw, const char *name)
{
	for (; sw && sw->flag; sw++)
		if (strcmp(sw->flag, name) == 0) {
			*sw->value = true;
			return true;
		}
	return false;
}

/* One flag and, where it has one, its value. Options are set in the second pass only (s is NULL in
 * the first, which finds --config). */
static void one_flag(struct flags *f, struct settings *s, struct settings *errors)
{
	char name[OPTION_NAME];
	const char *arg = f->argv[f->next++], *equals = strchr(arg, '='),
		   *value = equals ? equals + 1 : NULL;
	const struct place at = { .from = FROM_FLAG, .name = name };
	const struct option *o;

	(void)snprintf(name, sizeof(name), "%.*s", equals ? (int)(equals - arg) : (int)strlen(arg),
		       arg);
	if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0) {
		f->help = true;
		return;
	}
	if (!value && set_switch(f->switches, name))
		return;
	o = find_flag(name);
	if (!o && strcmp(name, "--config") != 0) {
		if (s)
			unknown_flag(errors, name, f->switches);
		if (!value && f->next < f->argc && f->argv[f->next][0] != '-')
			f->next++; /* likely its value: go on to the next flag, so that all mistakes
				      are told at once */
		return;
	}
	if (!value && o && o->type == OPTION_BOOL)
		value = "true";
	if (!value && f->next < f->argc)
		value = f->argv[f->next++];
	if (!value) {
		if (s)
			settings_error(errors, &at, "the value is missing");
	} else if (!o) {
		f->file = value;
	} else if (s) {
		settings_set(s, o, value, &at);
	}
}

static void read_flags(struct flags *f, struct settings *s, struct settings *errors)
{
	f->next = 1;
	while (f->next < f->argc && f->argv[f->next][0] == '-' && f->argv[f->next][1]) {
		if (strcmp(f->argv[f->next], "--") == 0) {
			f->next++;
			break;
		}
		one_flag(f, s, errors);
	}
}

static void defaults(struct settings *s)
{
	const struct place at = { .from = FROM_DEFAULT };

	for (size_t i = 0; i < OPTION_COUNT; i++)
		settings_set(s, &options[i], options[i].def, &at);
}

/* Values that are good alone and make no sense together. */
static void check_together(struct settings *s)
{
	const struct place nowhere = { .from = FROM_DEFAULT };
	struct config *c = &s->cfg;
	uint64_t size = 4096;

	while (size < c->ring_size)
		size *= 2;
	c->ring_size = size;
	if (c->kubelet_min_refresh > c->kubelet_refresh)
		settings_error(s, &nowhere,
			       "kubelet.min_refresh must not be longer than kubelet.refresh");
	if (s->origin[OPT_ring_wakeup].from == FROM_DEFAULT && c->ring_wakeup > c->ring_size / 4)
		c->ring_wakeup = c->ring_size / 4;
	if (c->ring_wakeup > c->ring_size / 2)
		settings_error(s, &nowhere,
			       "ring.wakeup must not be more than half of ring.size: events would "
			       "be lost before the agent is woken");
	if (strcmp(c->discovery_mode, "selector") == 0 &&
	    !(c->select_namespaces.n || c->select_labels.n || c->select_executables.n ||
	      c->select_pids.n))
		settings_error(s, &nowhere,
			       "discovery.mode is selector, but none of discovery.namespaces, "
			       ".labels, .executables, .pids is given");
	if (strcmp(c->kubelet_source, "kubelet") == 0 && !*c->kubelet_endpoint && !*c->node_ip)
		settings_error(s, &nowhere,
			       "kubelet.source is kubelet, but neither kubelet.endpoint nor "
			       "node.ip says where it is");
}

int config_load_with(struct config **out, int argc, char **argv, int *rest,
		     const struct config_switch *switches)
{
	struct settings *s = calloc(1, sizeof(*s));
	struct flags f = { .argc = argc, .argv = argv, .switches = switches };
	struct config *cfg = (struct config *)s;
	const char *named = getenv("SPOOR_CONFIG");

	if (!s)
		return fail(-ENOMEM, "config: out of memory");
	read_flags(&f, NULL, s);
	if (f.help) {
		config_free(&cfg);
		config_usage(stdout);
		return 1;
	}
	defaults(s);
	if (!f.file && named && *named)
		f.file = named;
	if (f.file)
		settings_file(s, f.file);
	settings_environment(s);
	read_flags(&f, s, s);
	if (!s->errors)
		check_together(s);
	if (s->errors) {
		config_free(&cfg);
		return -EINVAL;
	}
	*out = cfg;
	if (rest)
		*rest = f.next;
	return 0;
}

int config_load(struct config **out, int argc, char **argv, int *rest)
{
	return config_load_with(out, argc, argv, rest, NULL);
}

void config_free(struct config **cfg)
{
	struct settings *s = (struct settings *)*cfg;

	if (!s)
		return;
	for (size_t i = 0; i < OPTION_COUNT; i++)
		option_clear(&options[i], &s->cfg);
	free(s->file);
	free(s);
	*cfg = NULL;
}

bool config_has(const struct list *list, const char *item)
{
	for (size_t i = 0; i < list->n; i++)
		if (strcmp(list->v[i], item) == 0)
			return true;
	return false;
}

struct privacy config_privacy(const struct config *cfg)
{
	return (struct privacy){ .redact_query_keys = &cfg->redact_query_keys,
				 .known_methods = &cfg->known_methods,
				 .url_query = cfg->url_query,
				 .body_sizes = cfg->body_sizes,
				 .no_routes = strcmp(cfg->routes, "off") == 0 };
}
