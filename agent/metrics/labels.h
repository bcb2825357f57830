/* labels.h - attributes as labels of Prometheus: names that it takes, each once, values that it can
 * read. One that it cannot take costs the whole page, everybody's. ("Prometheus and OpenMetrics
 * Compatibility", "Metric Attributes"; exposition format 0.0.4.) Any one thread. */
#pragma once
#include "base/base.h"

#include <stdio.h>

/* As many as a resource has, and a point. */
#define LABELS_MAX 384

struct labels {
	size_t n, used;
	struct label {
		const char *name;
		struct str key, value;
	} v[LABELS_MAX];
	char names[32768];
};

/* Takes back all but the first n: 0, or as many as there were at labels_sort(). */
void labels_cut(struct labels *l, size_t n);
/* key and value are not copied. False: there is no room. */
bool labels_add(struct labels *l, struct str key, struct str value);
/* In the order of keys, which is that of values that share a name. */
void labels_sort(struct labels *l);
/* Writes all, with a comma before each. Keys that become one name are one label, values with ";"
 * between them. */
void labels_write(const struct labels *l, FILE *f);

/* A name has letters, digits and single _ alone, and does not begin with a digit. Cut where it does
 * not fit; returns its length. */
size_t label_name(char *out, size_t size, struct str key);
/* In quotes. */
void label_value(FILE *f, struct str value);
