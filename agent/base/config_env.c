/* The environment as a source of options: our own variables are strict, everybody else's follow
 * their owner's rules. */
#include "base/log.h"
#include "base/settings.h"

#include <ctype.h>
#include <strings.h>

extern char **environ;

/* An empty variable counts as not set (OpenTelemetry's rule, and the only sane one for our own). */
static const char *variable(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place. 0; -EINVAL: an escape is broken, or hides a NUL. */
static int percent_decode(char *text)
{
	char *to = text;

	for (; *text; text++, to++) {
		*to = *text;
		if (*text != '%')
			continue;
		if (hex(text[1]) < 0 || hex(text[2]) < 0 || (text[1] == '0' && text[2] == '0'))
			return -EINVAL;
		*to = (char)(hex(text[1]) * 16 + hex(text[2]));
		text += 2;
	}
	*to = '\0';
	return 0;
}

/* OTEL_*_HEADERS, OTEL_RESOURCE_ATTRIBUTES: percent-encoded pairs; one broken pair discards them
 * all, as specified. */
static int parse_pairs(const struct option *o, const char *text, union option_value *out,
		       char why[OPTION_WHY])
{
	struct list items = { 0 };
	int err = list_split(text, &items);

	for (size_t i = 0; i < items.n && !err; i++)
		err = percent_decode(items.v[i]);
	if (err == -EINVAL)
		(void)snprintf(why, OPTION_WHY, "a percent escape in it is broken");
	if (!err)
		err = option_parse_items(o, (const char *const *)items.v, items.n, out, why);
	list_clear(&items);
	return err;
}

/* OTEL_PROPAGATORS: what we cannot read is no reason to read nothing. Baggage carries no ids, and
 * passes by us. */
static int parse_propagators(const struct option *o, const char *text, union option_value *out,
			     char why[OPTION_WHY])
{
	struct list items = { 0 };
	size_t n = 0;
	int err = list_split(text, &items);

	for (size_t i = 0; i < items.n && !err; i++) {
		char *item = items.v[i];

		if (strcmp(item, "tracecontext") == 0 || strcmp(item, "b3") == 0 ||
		    strcmp(item, "b3multi") == 0) {
			items.v[i] = items.v[n];
			items.v[n++] = item;
		} else if (strcmp(item, "baggage") != 0) {
			log_warn("config: environment OTEL_PROPAGATORS: '%.60s' is not read, "
				 "traceparent always is",
				 item);
		}
	}
	if (!err && !n)
		err = option_parse(o, o->def, out, why);
	else if (!err)
		err = option_parse_items(o, (const char *const *)items.v, n, out, why);
	list_clear(&items);
	return err;
}

/* OpenTelemetry's spelling of a value in ours: durations are bare milliseconds, enums know no case,
 * console is our stdout. */
static int parse_foreign(const struct option *o, const char *text, union option_value *out,
			 char why[OPTION_WHY])
{
	bool exporters = strcmp(o->key, "exporters") == 0;
	char own[1024];

	if (o->type == OPTION_MAP)
		return parse_pairs(o, text, out, why);
	if (o->offset == options[OPT_propagators].offset)
		return parse_propagators(o, text, out, why);
	if (o->type == OPTION_DURATION && text[strspn(text, "0123456789")]) {
		(void)snprintf(why, OPTION_WHY, "'%.60s' is not a whole number of milliseconds",
			       text);
		return -EINVAL;
	}
	(void)snprintf(own, sizeof(own), "%s%s", text, o->type == OPTION_DURATION ? "ms" : "");
	for (char *p = own; *p && (o->type == OPTION_ENUM || exporters); p++)
		*p = (char)tolower((unsigned char)*p);
	if (exporters && (strcmp(own, "console") == 0 || strcmp(own, "otlp/stdout") == 0))
		return option_parse(o, "stdout", out, why);
	return option_parse(o, o->type == OPTION_STRING ? text : own, out, why);
}

/* True when the variable set the option. A bad value is a warning, but for an endpoint that is
 * nonsense. */
static bool set_foreign(struct settings *s, const struct option *o, const char *name)
{
	const struct place at = { .from = FROM_ENVIRONMENT, .name = name };
	const char *text = variable(name);
	union option_value value = { 0 };
	char why[OPTION_WHY] = "";
	int err;

	if (!text)
		return false;
	if (strcmp(o->allowed, "URL") == 0) {
		settings_set(s, o, text, &at);
		return true;
	}
	err = parse_foreign(o, text, &value, why);
	if (err) {
		log_warn("config: environment %s: %s: %s; the variable is ignored", name, o->key,
			 err == -ENOMEM ? "out of memory" : why);
		return false;
	}
	settings_take(s, o, &value, &at);
	return true;
}

static void set_also(struct settings *s, const struct option *o)
{
	char names[256], *save = NULL;

	(void)snprintf(names, sizeof(names), "%s", o->also);
	for (char *name = strtok_r(names, " ", &save); name; name = strtok_r(NULL, " ", &save))
		if (set_foreign(s, o, name))
			return;
}

/* OTEL_SDK_DISABLED=true: no signals; the agent's own metrics stay. */
static void sdk_disabled(struct settings *s)
{
	const struct place at = { .from = FROM_ENVIRONMENT, .name = "OTEL_SDK_DISABLED" };
	const char *text = variable(at.name);

	if (text && strcasecmp(text, "true") == 0) {
		settings_set(s, &options[OPT_exporters], "none", &at);
		settings_set(s, &options[OPT_metrics_exporters], "none", &at);
	} else if (text && strcasecmp(text, "false") != 0) {
		log_warn("config: environment OTEL_SDK_DISABLED: '%.60s' is neither true nor "
			 "false; taken as false",
			 text);
	}
}

/* What Kubernetes sets for a Service that is named spoor: SPOOR_SERVICE_HOST,
 * SPOOR_PORT_9464_TCP_ADDR. */
static bool service_link(const char *name)
{
	return strstr(name, "_SERVICE_HOST") || strstr(name, "_SERVICE_PORT") ||
	       strstr(name, "_PORT_") || strcmp(name, "SPOOR_PORT") == 0 || strstr(name, "_TCP") ||
	       strstr(name, "_UDP");
}

static bool known(const char *name)
{
	char env[OPTION_NAME];

	if (strcmp(name, "SPOOR_CONFIG") == 0)
		return true;
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		option_env(&options[i], env);
		if (strcmp(env, name) == 0)
			return true;
	}
	return false;
}

/* A variable that is nearly one of ours is a slip and refused; the environment is shared, so others
 * only get a warning. */
static void unknown_variable(struct settings *s, const char *name)
{
	const struct place at = { .from = FROM_ENVIRONMENT, .name = name };
	char env[OPTION_NAME], near[OPTION_NAME] = "";
	size_t least = 3;

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		size_t d;

		option_env(&options[i], env);
		d = option_distance(name, env);
		if (d < least) {
			least = d;
			memcpy(near, env, sizeof(near));
		}
	}
	if (*near)
		settings_error(s, &at, "no such variable, did you mean %s?", near);
	else
		log_warn("config: environment %s: spoor has no such variable; it is ignored", name);
}

static void unknown_variables(struct settings *s)
{
	for (char **e = environ; e && *e; e++) {
		char name[OPTION_NAME];
		size_t n = strcspn(*e, "=");

		if (strncmp(*e, "SPOOR_", 6) != 0 || !(*e)[n] || !(*e)[n + 1] || n >= sizeof(name))
			continue;
		(void)snprintf(name, sizeof(name), "%.*s", (int)n, *e);
		if (!known(name) && !service_link(name))
			unknown_variable(s, name);
	}
}

/* True when one of the rows names the variable in `also`. */
static bool understood(const char *name)
{
	size_t n = strlen(name);

	if (strcmp(name, "OTEL_SDK_DISABLED") == 0)
		return true;
	for (size_t i = 0; i < OPTION_COUNT; i++)
		for (const char *p = options[i].also; (p = strstr(p, name)) != NULL; p += n)
			if ((p == options[i].also || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\0'))
				return true;
	return false;
}

/* OpenTelemetry has many variables more; who set one ought to know that it changes nothing here. */
static void unused_variables(void)
{
	char names[512] = "";
	size_t at = 0;

	for (char **e = environ; e && *e; e++) {
		char name[OPTION_NAME * 2];
		size_t n = strcspn(*e, "=");

		if (strncmp(*e, "OTEL_", 5) != 0 || !(*e)[n] || !(*e)[n + 1] || n >= sizeof(name))
			continue;
		(void)snprintf(name, sizeof(name), "%.*s", (int)n, *e);
		if (!understood(name) && at < sizeof(names))
			at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s",
					       at ? ", " : "", name);
	}
	if (at)
		log_warn("config: environment: spoor does not use %s", names);
}

void settings_environment(struct settings *s)
{
	char env[OPTION_NAME];

	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct place at = { .from = FROM_ENVIRONMENT, .name = env };

		option_env(&options[i], env);
		if (variable(env))
			settings_set(s, &options[i], variable(env), &at);
		else
			set_also(s, &options[i]);
	}
	sdk_disabled(s);
	unknown_variables(s);
	unused_variables();
}
