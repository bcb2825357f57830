/* config.h - the configuration: defaults < file < environment < flags. Made once in main, read-only after. */
#pragma once
#include "base/base.h"
#include "base/options.h"

struct list {
	char **v; /* NULL-terminated */
	size_t n;
};

/* C type of each option type. DURATION is in ms, SIZE in bytes, MAP a list of "key=value". ENUM is the text itself. */
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
	bool url_query, health_probes;
};

/* Parses the flags of a sub-command (argv[0] is its name), reads the file (--config FILE or $SPOOR_CONFIG) and the environment. Bad
 * values are logged with file, line, key, value and what is allowed. 0; -EINVAL; 1: --help was asked for and printed. *rest: index
 * of the first argument that is no option. */
int config_load(struct config **out, int argc, char **argv, int *rest) must_check;
void config_free(struct config **cfg);
/* Prints key = value with the source of each value. */
void config_print(const struct config *cfg, bool json);
struct privacy config_privacy(const struct config *cfg);
