#include "metrics/delta.h"

#include "pipeline/resource.h"

#include <stdio.h>

#define BUCKETS  1024 /* some ten series a process, some hundred processes */
#define KEY_SIZE 256  /* of attributes: the points of sources have few and short ones */

/* A series as it was. */
struct before {
	struct before *next;
	uint64_t hash;
	struct resource *resource; /* a reference */
	const struct instrument *of;
	uint64_t start_ns, time_ns;
	bool seen; /* in this collection */
	int64_t i;
	double d, sum;
	uint64_t count;
	size_t ncounts;
	char *key;
	uint64_t counts[];
};

struct delta {
	const struct point_sink *to;
	void *arg;
	struct resource *resource; /* of the points that come; valid during the collection */
	uint64_t last_ns;          /* the collection before */
	size_t lost;
	uint64_t *counts; /* of the point that is passed on */
	size_t ncounts;
	struct before *buckets[BUCKETS];
};

int delta_new(struct delta **out, uint64_t now_ns)
{
	struct delta *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->last_ns = now_ns;
	*out = d;
	return 0;
}

static void free_first(struct before **at)
{
	struct before *b = *at;

	*at = b->next;
	resource_put(&b->resource);
	free(b->key);
	free(b);
}

void delta_free(struct delta **p)
{
	struct delta *d = take(*p);

	if (!d)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		while (d->buckets[i])
			free_first(&d->buckets[i]);
	free(d->counts);
	free(d);
}

/* False: too long to be told from others. */
static bool key_of(char out[KEY_SIZE], const struct point *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->nattrs && n < KEY_SIZE; i++) {
		const struct attr *a = &p->attrs[i];

		if (a->type == ATTR_STR)
			n += (size_t)snprintf(out + n, KEY_SIZE - n, "%s=%.*s\n", a->key,
					      (int)a->s.n, a->s.p);
		else
			n += (size_t)snprintf(out + n, KEY_SIZE - n, "%s=%lld\n", a->key,
					      (long long)a->i);
	}
	return n < KEY_SIZE;
}

static uint64_t mix(uint64_t h, const void *bytes, size_t n)
{
	const uint8_t *b = bytes;

	for (size_t i = 0; i < n; i++)
		h = (h ^ b[i]) * 0x100000001b3ull;
	return h;
}

static bool same_resource(const struct resource *a, const struct resource *b)
{
	return a == b || (a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0);
}

static struct before **place_of(struct delta *d, const struct point *p, const char *key,
				uint64_t *hash)
{
	struct before **at;

	*hash = mix(0xcbf29ce484222325ull, d->resource->bytes, d->resource->size);
	*hash = mix(*hash, p->of->name, strlen(p->of->name));
	*hash = mix(*hash, key, strlen(key));
	for (at = &d->buckets[(*hash ^ *hash >> 32) % BUCKETS]; *at; at = &(*at)->next)
		if ((*at)->hash == *hash && (*at)->of == p->of && strcmp((*at)->key, key) == 0 &&
		    same_resource((*at)->resource, d->resource))
			break;
	return at;
}

static bool is_histogram(const struct point *p)
{
	return p->of->kind == INSTRUMENT_HISTOGRAM;
}

static void remember(struct before *b, const struct point *p)
{
	b->seen = true;
	b->start_ns = p->start_ns;
	b->time_ns = p->time_ns;
	if (is_histogram(p)) {
		b->count = p->h.count;
		b->sum = p->h.sum;
		memcpy(b->counts, p->h.counts, b->ncounts * sizeof(*b->counts));
	} else if (p->of->real) {
		b->d = p->d;
	} else {
		b->i = p->i;
	}
}

/* NULL: no memory. */
static struct before *make(struct delta *d, const struct point *p, const char *key, uint64_t hash)
{
	size_t ncounts = is_histogram(p) ? p->h.ncounts : 0;
	struct before *b = calloc(1, sizeof(*b) + ncounts * sizeof(b->counts[0]));

	if (b)
		b->key = strdup(key);
	if (!b || !b->key) {
		free(b);
		return NULL;
	}
	b->hash = hash;
	b->of = p->of;
	b->ncounts = ncounts;
	b->resource = resource_ref(d->resource);
	return b;
}

/* Whether the point is the same series, which has gone on: no other process, no other form, and
 * nothing became less. */
static bool goes_on(const struct before *b, const struct point *p)
{
	if (b->start_ns != p->start_ns)
		return false;
	if (!is_histogram(p))
		return p->of->real ? p->d >= b->d : p->i >= b->i;
	if (b->ncounts != p->h.ncounts || b->count > p->h.count)
		return false;
	for (size_t i = 0; i < b->ncounts; i++)
		if (p->h.counts[i] < b->counts[i])
			return false;
	return true;
}

static bool began_anew(const struct before *b, const struct point *p)
{
	return b->start_ns < p->start_ns && p->start_ns >= b->time_ns;
}

/* out: p without what was before. False: no memory. */
static bool subtract(struct delta *d, struct point *out, const struct before *b,
		     const struct point *p)
{
	*out = *p;
	out->start_ns = b->time_ns;
	if (!is_histogram(p)) {
		if (p->of->real)
			out->d -= b->d;
		else
			out->i -= b->i;
		return true;
	}
	if (b->ncounts > d->ncounts) {
		uint64_t *counts = realloc(d->counts, b->ncounts * sizeof(*counts));

		if (!counts)
			return false;
		d->counts = counts;
		d->ncounts = b->ncounts;
	}
	for (size_t i = 0; i < b->ncounts; i++)
		d->counts[i] = p->h.counts[i] - b->counts[i];
	out->h.counts = d->counts;
	out->h.count -= b->count;
	out->h.sum -= b->sum;
	return true;
}

static void begin(void *arg, struct resource *r, const char *scope)
{
	struct delta *d = arg;

	d->resource = r;
	d->to->begin(d->arg, r, scope);
}

static void pass(struct delta *d, struct point *p)
{
	p->cumulative = false;
	d->to->point(d->arg, p);
}

static void point(void *arg, const struct point *p)
{
	struct delta *d = arg;
	char key[KEY_SIZE] = "";
	struct point out = *p;
	struct before **at, *b;
	uint64_t hash;

	/* Of exponential ones the buckets move: no source has such. */
	if (!p->cumulative || p->of->kind == INSTRUMENT_UPDOWN || p->of->kind == INSTRUMENT_GAUGE ||
	    (is_histogram(p) && !p->h.bounds)) {
		d->to->point(d->arg, p);
		return;
	}
	if (!key_of(key, p)) {
		d->lost++;
		return;
	}
	at = place_of(d, p, key, &hash);
	if (*at && (*at)->ncounts == (is_histogram(p) ? p->h.ncounts : 0)) {
		b = *at;
		if ((goes_on(b, p) && subtract(d, &out, b, p)) || began_anew(b, p))
			pass(d, &out);
		remember(b, p);
		return;
	}
	b = make(d, p, key, hash);
	if (!b) {
		d->lost++;
		return;
	}
	if (*at)
		free_first(at); /* it had another form */
	b->next = *at;
	*at = b;
	remember(b, p);
	if (p->start_ns >= d->last_ns)
		pass(d, &out);
}

const struct point_sink delta_sink = { .begin = begin, .point = point };

void delta_begin(struct delta *d, const struct point_sink *to, void *arg)
{
	d->to = to;
	d->arg = arg;
	d->lost = 0;
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct before *b = d->buckets[i]; b; b = b->next)
			b->seen = false;
}

size_t delta_end(struct delta *d, uint64_t now_ns)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (struct before **at = &d->buckets[i]; *at;) {
			if ((*at)->seen)
				at = &(*at)->next;
			else
				free_first(at);
		}
	d->last_ns = now_ns;
	d->resource = NULL;
	return d->lost;
}
