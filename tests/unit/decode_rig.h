/* decode_rig.h - one record of a library, decoded into one span. Before it is included: LIBRARY
 * (its name), RECORD (its event struct) and RECORD_DATA (bytes that may follow it). */
#pragma once
#include "base/config.h"
#include "trace/lib.h"
#include "trace/span.h"

#include <criterion/criterion.h>

static union {
	RECORD ev;
	char bytes[sizeof(RECORD) + RECORD_DATA];
} record;

static struct arena arena;
static struct privacy privacy;
static struct decode with;
static struct attr attrs[SPAN_ATTRS_MAX];
static struct span span;
static const struct lib *lib;

static void set_up(void)
{
	static char *secret_names[] = { "sig", NULL };
	static char *method_names[] = { "GET", "POST", NULL };
	static const struct list secrets = { secret_names, 1 }, methods = { method_names, 2 };

	privacy = (struct privacy){ .redact_query_keys = &secrets,
				    .known_methods = &methods,
				    .url_query = true };
	cr_assert_eq(arena_init(&arena, 1 << 16), 0);
	with = (struct decode){ .arena = &arena, .privacy = &privacy };
	lib_foreach (it)
		if (strcmp((*it)->name, LIBRARY) == 0)
			lib = *it;
	cr_assert(lib);
}

static void tear_down(void)
{
	arena_clear(&arena);
}

/* Writes text at *at of the record; returns its length. */
static size_t put(const char *text, size_t *at)
{
	size_t n = text ? strlen(text) : 0;

	if (n)
		memcpy(record.bytes + *at, text, n);
	*at += n;
	return n;
}

static int decode_record(void)
{
	span = (struct span){ .attrs = attrs };
	return lib->decode(&record.ev.ev, &with, &span);
}

/* value NULL: the attribute is absent. */
static inline void expect(const char *key, const char *value)
{
	const struct attr *a = span_attr(&span, key);

	if (!value)
		cr_assert(!a, "%s is '%.*s'", key, a ? (int)a->s.n : 0, a ? a->s.p : "");
	else
		cr_assert(a && a->type == ATTR_STR && str_eq(a->s, value), "%s is '%.*s', not '%s'",
			  key, a ? (int)a->s.n : 0, a ? a->s.p : "", value);
}

static inline void expect_int(const char *key, int64_t value)
{
	const struct attr *a = span_attr(&span, key);

	cr_assert(a && a->type == ATTR_INT && a->i == value, "%s is %ld, not %ld", key,
		  a ? (long)a->i : -1, (long)value);
}
