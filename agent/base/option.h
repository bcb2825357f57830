/* option.h - the rows of options.h at run time: names, parsing and printing of values. Used by the
 * config files only. Pure. */
#pragma once
#include "base/config.h"

#include <stdio.h>

enum option_type {
	OPTION_STRING,
	OPTION_ENUM,
	OPTION_UINT,
	OPTION_DURATION,
	OPTION_SIZE,
	OPTION_BOOL,
	OPTION_LIST,
	OPTION_MAP
};

/* One row of options.h. `allowed` is: words (ENUM, LIST), "least-most" (UINT, DURATION, SIZE),
 * "URL", "address", "ratio" (STRING), "pid" (LIST), "secret" (MAP: values are never shown), or "".
 */
struct option {
	enum option_type type;
	size_t offset; /* in struct config */
	const char *key, *also, *def, *allowed, *help;
};

#define X(type, member, key, also, def, allowed, help) OPT_##member,
enum option_id { OPTIONS(X) OPTION_COUNT };
#undef X

extern const struct option options[OPTION_COUNT];

union option_value {
	char *text;
	uint32_t uint;
	uint64_t number; /* DURATION, SIZE */
	bool flag;
	struct list list;
};

#define OPTION_NAME 64  /* longest key, flag or variable, with its NUL */
#define OPTION_WHY  256 /* room for the sentence that says what is allowed */

/* "SPOOR_KUBELET_TLS_MODE" and "--kubelet-tls-mode" for "kubelet.tls.mode". */
void option_env(const struct option *o, char out[OPTION_NAME]);
void option_flag(const struct option *o, char out[OPTION_NAME]);
/* The option with that key, or NULL. */
const struct option *option_find(const char *key);
/* The known word that `word` is most likely meant to be, or NULL; words is NULL-terminated. */
const char *option_nearest(const char *word, const char *const *words);
/* The known key that is nearest, "" when none is near. */
void option_nearest_key(const char *key, char out[OPTION_NAME]);
/* Number of single-character edits (and swaps of neighbours) from a to b; more than 64 bytes are
 * not looked at. */
size_t option_distance(const char *a, const char *b);

/* "one of: auto, ca" ... what is allowed, in words. */
void option_allowed(const struct option *o, char out[OPTION_WHY]);
/* Parses text; lists and maps are split at commas. 0; -EINVAL: why says what is wrong; -ENOMEM.
 * *out untouched on error. */
int option_parse(const struct option *o, const char *text, union option_value *out,
		 char why[OPTION_WHY]) must_check;
/* Makes the value of a LIST or MAP of its items. Same errors. */
int option_parse_items(const struct option *o, const char *const *items, size_t n,
		       union option_value *out, char why[OPTION_WHY]) must_check;
/* Splits at commas, trims, leaves empty parts out. A NULL-terminated list. 0 or -ENOMEM. */
int list_split(const char *text, struct list *out) must_check;
int list_add(struct list *l, const char *item, size_t len) must_check;
void list_clear(struct list *l);
/* Moves the value into cfg and frees what was there. */
void option_store(const struct option *o, struct config *cfg, union option_value *value);
void option_clear(const struct option *o, struct config *cfg);
/* The value in cfg, which stays its owner. */
union option_value option_value(const struct option *o, const struct config *cfg);
/* Writes the value as option_parse() reads it; values of secret maps as "***". */
void option_print(FILE *f, const struct option *o, const union option_value *value);
/* "30s", "1h30m": ms as option_parse() reads them; "4MiB" likewise. */
void option_print_duration(char *out, size_t n, uint64_t ms);
void option_print_size(char *out, size_t n, uint64_t bytes);
