/* config.h - the configuration: defaults < file < environment < flags. Made once in main, read-only
 * after. */
#pragma once
#include "base/base.h"
#include "base/options.h"

#include <stdio.h>

struct list {
	char **v; /* NULL-terminated */
	size_t n;
};

/* C type of each option type. DURATION is in ms, SIZE in bytes, MAP a list of "key=value". ENUM is
 * the text itself. */
#define CONFIG_STRING   char *
#define CONFIG_ENUM     char *
#define CONFIG_UINT     uint32_t
#define CONFIG_DURATION uint64_t
#define CONFIG_SIZE     uint64_t
#define CONFIG_BOOL     bool
#define CONFIG_LIST     struct list
#define CONFIG_MAP      struct list

#define X(type, member, key, also, def, allowed, help) CONFIG_##type member;
struct config {
	OPTIONS(X)
};
#undef X

/* What a library's decode() needs of it. */
struct privacy {
	const struct list *redact_query_keys, *known_methods;
	bool url_query, body_sizes, no_routes;
};

/* A flag of one sub-command alone, such as --json: no value, sets *value to true. A list ends with
 * flag NULL. */
struct config_switch {
	const char *flag;
	bool *value;
	const char *help;
};

/* Parses the flags of a sub-command (argv[0] is its name), reads the file (--config FILE or
 * $SPOOR_CONFIG) and the environment. Bad values are logged, all of them, with file, line, key,
 * value and what is allowed. 0; -EINVAL; 1: --help was asked for, and the options were printed.
 * *rest (may be NULL): index of the first argument that is no option. */
int config_load(struct config **out, int argc, char **argv, int *rest) must_check;
/* The same for a sub-command that has flags of its own. */
int config_load_with(struct config **out, int argc, char **argv, int *rest,
		     const struct config_switch *switches) must_check;
void config_free(struct config **cfg);
#define auto_config __attribute__((cleanup(config_free)))

/* Prints key = value with the source of each value; values of secret maps are hidden. */
void config_print(const struct config *cfg, bool json);
/* Prints a YAML file with every option at its default, its help beside it; reading it changes
 * nothing. */
void config_defaults(FILE *f);
/* Prints what --help says about the options. */
void config_usage(FILE *f);
/* Whether the list has that item. */
bool config_has(const struct list *list, const char *item);
struct privacy config_privacy(const struct config *cfg);
