#include "metrics/series.h"

#include "base/config.h"
#include "base/log.h"
#include "metrics/derived.h"
#include "trace/lib.h"

void meters_free(struct meters **p)
{
	struct meters *m = take(*p);

	if (!m)
		return;
	for (size_t i = 0; m->v && i < m->n; i++) {
		struct meter *meter = &m->v[i];

		for (; meter->nown; meter->nown--)
			free((void *)meter->keys[--meter->nkeys]);
		free((void *)meter->keys);
	}
	free(m->v);
	free(m->first);
	free(m);
}

/* The words of `words`, one after the other; *n 0 at the end. */
static const char *next_word(const char *words, size_t *n)
{
	words += *n;
	words += strspn(words, " ");
	*n = strcspn(words, " ");
	return words;
}

/* "instrument=key key": its value for that instrument, or NULL. The last one counts. */
static const char *keys_for(const struct list *map, const char *instrument)
{
	size_t n = strlen(instrument);

	for (size_t i = map->n; i-- > 0;)
		if (strncmp(map->v[i], instrument, n) == 0 && map->v[i][n] == '=')
			return map->v[i] + n + 1;
	return NULL;
}

static bool has_word(const char *words, const char *key)
{
	size_t n = 0, size = strlen(key);

	for (const char *w = words ? next_word(words, &n) : NULL; w && n; w = next_word(w, &n))
		if (n == size && memcmp(w, key, n) == 0)
			return true;
	return false;
}

/* What the library says, without those dropped, and those added. */
static int set_keys(struct meter *m, const struct config *cfg)
{
	const char *add = keys_for(&cfg->metrics_add, m->of->is.name);
	const char *drop = keys_for(&cfg->metrics_drop, m->of->is.name);
	size_t n = 0;

	m->keys = calloc(METER_KEYS_MAX + 1, sizeof(*m->keys));
	if (!m->keys)
		return -ENOMEM;
	for (const char *const *k = m->of->attrs; *k; k++)
		if (!has_word(drop, *k))
			m->keys[m->nkeys++] = *k;
	for (const char *w = add ? next_word(add, &n) : NULL; w && n; w = next_word(w, &n)) {
		char *key;

		if (m->nkeys == METER_KEYS_MAX)
			return fail(-EINVAL,
				    "metrics.add_attributes: more than %d attributes for %s",
				    METER_KEYS_MAX, m->of->is.name);
		key = strndup(w, n);
		if (!key)
			return -ENOMEM;
		m->keys[m->nkeys++] = key;
		m->nown++;
	}
	return 0;
}

static bool is_named(const struct lib_metric *of, const char *entry)
{
	size_t n = strcspn(entry, "=");

	return strlen(of->is.name) == n && memcmp(of->is.name, entry, n) == 0;
}

static bool is_instrument(const char *entry, const struct config *cfg)
{
	lib_foreach (l)
		for (size_t i = 0; i < (*l)->nmetrics; i++)
			if (is_named(&(*l)->metrics[i], entry))
				return true;
	for (enum derived_id id = 0; id < DERIVED_COUNT; id++) {
		const struct lib_metric *of = derived_metric(cfg, id);

		if (of && derived_extends(id) && is_named(of, entry))
			return true;
	}
	return false;
}

static int check_instruments(const struct list *map, const char *option, const struct config *cfg)
{
	for (size_t i = 0; i < map->n; i++)
		if (!is_instrument(map->v[i], cfg))
			return fail(-EINVAL,
				    "%s: '%.*s' is no instrument of a library; "
				    "docs/metrics.md lists them",
				    option, (int)strcspn(map->v[i], "="), map->v[i]);
	return 0;
}

/* wide: exponential, if the configuration says so. */
static int add(struct meters *m, const char *scope, const struct lib_metric *of, bool wide,
	       const struct config *cfg)
{
	struct meter *meter = &m->v[m->n++];

	if (of->nbounds >= HISTOGRAM_BUCKETS)
		return fail(-EINVAL, "metrics: %s: too many bounds", of->is.name);
	*meter = (struct meter){ .of = of,
				 .scope = scope,
				 .bounds = wide ? NULL : of->bounds,
				 .nbounds = wide ? 0 : of->nbounds };
	return set_keys(meter, cfg);
}

static int add_all(struct meters *m, const struct config *cfg)
{
	bool wide = strcmp(cfg->metrics_histogram, "base2_exponential_bucket_histogram") == 0;
	int err = 0;

	lib_foreach (l) {
		m->first[l - __start_libs] = m->n;
		for (size_t i = 0; !err && i < (*l)->nmetrics; i++)
			err = add(m, (*l)->scope, &(*l)->metrics[i], wide, cfg);
	}
	m->first[lib_count()] = m->n;
	/* Dashboards expect their bounds. */
	for (enum derived_id id = 0; !err && id < DERIVED_COUNT; id++)
		if (derived_metric(cfg, id))
			err = add(m, DERIVED_SCOPE, derived_metric(cfg, id), false, cfg);
	return err;
}

int meters_new(struct meters **out, const struct config *cfg)
{
	__attribute__((cleanup(meters_free))) struct meters *m = calloc(1, sizeof(*m));
	size_t n = 0;
	int err;

	lib_foreach (l)
		n += (*l)->nmetrics;
	if (!m)
		return -ENOMEM;
	m->v = calloc(n + DERIVED_COUNT, sizeof(*m->v));
	m->first = calloc(lib_count() + 1, sizeof(*m->first));
	if (!m->v || !m->first)
		return -ENOMEM;
	m->limit = cfg->metrics_limit;
	m->delta = strcmp(cfg->metrics_temporality, "cumulative") != 0;
	err = check_instruments(&cfg->metrics_add, "metrics.add_attributes", cfg);
	if (!err)
		err = check_instruments(&cfg->metrics_drop, "metrics.drop_attributes", cfg);
	if (!err)
		err = add_all(m, cfg);
	if (!err)
		*out = take(m);
	return err;
}
