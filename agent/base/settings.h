/* settings.h - what config_load() makes: the configuration, and where each value came from. Config
 * files only; main's thread. */
#pragma once
#include "base/option.h"

enum origin { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_FLAG };

struct place {
	enum origin from;
	const char *name; /* of the variable or flag; the file is settings.file */
	int line;
};

struct settings {
	struct config cfg; /* first: struct config * and struct settings * convert */
	char *file;        /* NULL: none was read */
	struct {
		enum origin from;
		char name[OPTION_NAME];
		int line;
	} origin[OPTION_COUNT];
	size_t errors; /* logged so far */
};

/* Logs "config: PLACE: ..." and counts it. */
void settings_error(struct settings *s, const struct place *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Sets an option from text; what is wrong is logged and counted. */
void settings_set(struct settings *s, const struct option *o, const char *text,
		  const struct place *at);
/* The same of the items of a list or map. */
void settings_set_items(struct settings *s, const struct option *o, const struct list *items,
			const struct place *at);
/* Moves a parsed value in. */
void settings_take(struct settings *s, const struct option *o, union option_value *value,
		   const struct place *at);
/* Where a value came from: "default", "/etc/spoor.yaml:3", "environment X", "flag --x". */
void settings_origin(const struct settings *s, const struct option *o, char *out, size_t n);
/* Reads a YAML file. What is wrong is logged and counted. */
void settings_file(struct settings *s, const char *path);
/* The same of bytes; `name` stands in messages. For tests and the fuzzer. */
void settings_yaml(struct settings *s, const char *name, const char *text, size_t len);
/* SPOOR_* and the variables of `also`. */
void settings_environment(struct settings *s);
