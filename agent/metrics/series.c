#include "metrics/series.h"

#include "trace/lib.h"

#define BUCKETS_MIN 16

int table_new(struct table **out, const struct meters *m)
{
	struct table *t = calloc(1, sizeof(*t) + m->n * sizeof(t->chains[0]));

	if (!t)
		return -ENOMEM;
	t->nbuckets = BUCKETS_MIN;
	t->buckets = calloc(t->nbuckets, sizeof(struct series *));
	if (!t->buckets) {
		free(t);
		return -ENOMEM;
	}
	for (size_t i = 0; i < m->n; i++)
		t->chains[i].last = &t->chains[i].first;
	*out = t;
	return 0;
}

void table_free(struct table **p)
{
	struct table *t = take(*p);

	if (!t)
		return;
	for (size_t i = 0; i < t->nbuckets; i++) {
		while (t->buckets[i]) {
			struct series *s = t->buckets[i];

			t->buckets[i] = s->same;
			free(s->exemplars);
			free(s);
		}
	}
	free(t->buckets);
	free(t);
}

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
	const uint8_t *b = p;
	uint64_t v;

	for (; n >= sizeof(v); n -= sizeof(v), b += sizeof(v)) {
		memcpy(&v, b, sizeof(v));
		h = (h ^ v) * 0x9fb21c651e98df25ull;
		h ^= h >> 32;
	}
	v = n;
	memcpy(&v, b, n);
	h = (h ^ v ^ (uint64_t)n << 56) * 0x9fb21c651e98df25ull;
	return h ^ h >> 29;
}

/* Equal keys are mostly equal pointers: the linker merges strings. */
static const struct attr *find_attr(const struct span *span, const char *key)
{
	for (size_t i = 0; i < span->nattrs; i++)
		if (span->attrs[i].key == key)
			return &span->attrs[i];
	return span_attr(span, key);
}

static uint64_t hash_of(size_t meter, const struct attr *attrs, size_t n)
{
	uint64_t h = 0x2545f4914f6cdd1dull + meter;

	for (size_t i = 0; i < n; i++) {
		h = mix(h, &attrs[i].key, sizeof(attrs[i].key));
		if (attrs[i].type == ATTR_STR)
			h = mix(h, attrs[i].s.p, attrs[i].s.n);
		else
			h = mix(h, &attrs[i].i, sizeof(attrs[i].i));
	}
	return h;
}

static bool same_attrs(const struct series *s, const struct attr *attrs, size_t n)
{
	if (s->nattrs != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		const struct attr *a = &s->attrs[i], *b = &attrs[i];

		if (a->key != b->key || a->type != b->type)
			return false;
		if (a->type == ATTR_STR ? !str_same(a->s, b->s) : a->i != b->i)
			return false;
	}
	return true;
}

/* With twice the room. Without memory for that it goes on with what there is. */
static void grow(struct table *t)
{
	size_t n = 2 * t->nbuckets;
	struct series **to = calloc(n, sizeof(struct series *));

	if (!to)
		return;
	for (size_t i = 0; i < t->nbuckets; i++) {
		while (t->buckets[i]) {
			struct series *s = t->buckets[i];

			t->buckets[i] = s->same;
			s->same = to[s->hash % n];
			to[s->hash % n] = s;
		}
	}
	free(t->buckets);
	t->buckets = to;
	t->nbuckets = n;
}

/* The series, its attributes, their texts and its counts are one allocation. */
static struct series *make(const struct meters *m, const struct meter *meter,
			   const struct attr *attrs, size_t n, uint64_t now_ns)
{
	size_t room = histogram_room(meter->bounds, meter->nbounds);
	size_t counts = (m->delta ? 2 : 1) * room * sizeof(uint64_t), size;
	struct series *s;
	uint64_t *numbers;
	char *text;

	size = sizeof(*s) + n * sizeof(s->attrs[0]) + counts;
	for (size_t i = 0; i < n; i++)
		size += attrs[i].type == ATTR_STR ? attrs[i].s.n : 0;
	s = calloc(1, size);
	if (!s)
		return NULL;
	numbers = (uint64_t *)(s->attrs + n);
	text = (char *)numbers + counts;
	for (size_t i = 0; i < n; i++) {
		s->attrs[i] = attrs[i];
		if (attrs[i].type != ATTR_STR)
			continue;
		if (attrs[i].s.n)
			memcpy(text, attrs[i].s.p, attrs[i].s.n);
		s->attrs[i].s.p = text;
		text += attrs[i].s.n;
	}
	s->nattrs = n;
	s->size = size;
	s->start_ns = s->since_ns = now_ns;
	histogram_clear(&s->total, meter->bounds, meter->nbounds, numbers);
	if (m->delta)
		histogram_clear(&s->since, meter->bounds, meter->nbounds, numbers + room);
	return s;
}

static struct series *get(struct table *t, const struct meters *m, size_t meter,
			  const struct attr *attrs, size_t n, uint64_t now_ns, bool full,
			  size_t *fresh)
{
	uint64_t hash = hash_of(meter, attrs, n);
	struct chain *chain = &t->chains[meter];
	struct series *s;

	for (s = t->buckets[hash % t->nbuckets]; s; s = s->same)
		if (s->hash == hash && same_attrs(s, attrs, n))
			return s;
	if (full)
		return NULL;
	s = make(m, &m->v[meter], attrs, n, now_ns);
	if (!s)
		return NULL;
	if (t->n >= t->nbuckets)
		grow(t);
	s->hash = hash;
	s->same = t->buckets[hash % t->nbuckets];
	t->buckets[hash % t->nbuckets] = s;
	*chain->last = s;
	chain->last = &s->next;
	chain->n++;
	t->n++;
	*fresh = s->size;
	return s;
}

struct series *table_find(struct table *t, const struct meters *m, size_t meter,
			  const struct span *span, uint64_t now_ns, bool full, size_t *fresh,
			  bool *over)
{
	static const struct attr others = { .key = "otel.metric.overflow",
					    .type = ATTR_BOOL,
					    .i = 1 };
	struct chain *chain = &t->chains[meter];
	struct attr attrs[METER_KEYS_MAX];
	struct series *s;
	size_t n = 0;

	*fresh = 0;
	*over = false;
	for (size_t i = 0; i < m->v[meter].nkeys; i++) {
		const struct attr *a = find_attr(span, m->v[meter].keys[i]);

		if (!a)
			continue;
		attrs[n] = *a;
		attrs[n++].key = m->v[meter].keys[i];
	}
	full = full || chain->n + !chain->overflow >= m->limit;
	s = get(t, m, meter, attrs, n, now_ns, full, fresh);
	if (s || !full)
		return s;
	*over = true;
	if (!chain->overflow)
		chain->overflow = get(t, m, meter, &others, 1, now_ns, false, fresh);
	return chain->overflow;
}

void series_exemplar(struct series *s, size_t bucket, const struct exemplar *e)
{
	size_t room = s->total.bounds ? s->total.nbounds + 1 : EXEMPLARS;

	if (!s->exemplars) {
		s->exemplars = calloc(room, sizeof(*s->exemplars));
		s->nexemplars = s->exemplars ? room : 0;
	}
	if (s->exemplars)
		s->exemplars[s->total.bounds ? bucket : s->total.count % room] = *e;
}
