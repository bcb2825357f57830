/* Numbers of fields are those of opentelemetry/proto/metrics/v1/metrics.proto. */
#include "export/otlp_metrics.h"

#include "export/gzip.h"
#include "export/otlp.h"
#include "export/wire.h"
#include "pipeline/resource.h"
#include "version.h"

enum temporality { DELTA = 1, CUMULATIVE = 2 };

struct otlp_metrics {
	size_t max_request;
	bool zipped;
	struct gzip *gzip; /* from begin to end: it is large */
	struct wire wire;
	otlp_metrics_request *request;
	void *arg;
	bool delta;
	/* What is open, and how much was written when it was opened: a message is written from its
	 * end. */
	struct resource *resource;
	const char *scope;
	const struct instrument *instrument;
	bool exponential, cumulative;
	size_t resource_at, scope_at, metric_at;
	size_t points, lost;
};

int otlp_metrics_new(struct otlp_metrics **out, size_t max_request, bool gzip,
		     otlp_metrics_request *request, void *arg)
{
	struct otlp_metrics *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->max_request = max_request;
	o->request = request;
	o->arg = arg;
	o->zipped = gzip;
	*out = o;
	return 0;
}

void otlp_metrics_free(struct otlp_metrics **p)
{
	struct otlp_metrics *o = take(*p);

	if (!o)
		return;
	resource_put(&o->resource);
	gzip_free(&o->gzip);
	wire_clear(&o->wire);
	free(o);
}

static void put_text(struct wire *w, uint32_t field, const char *text)
{
	wire_bytes(w, field, text, strlen(text));
}

static uint64_t bits_of(double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	return bits;
}

static uint64_t zigzag(int32_t v)
{
	return (uint32_t)v << 1 ^ (uint32_t)(v >> 31);
}

/* Gauge 5, Sum 7, Histogram 9, ExponentialHistogram 10. */
static uint32_t data_field(const struct otlp_metrics *o)
{
	switch (o->instrument->kind) {
	case INSTRUMENT_GAUGE:
		return 5;
	case INSTRUMENT_HISTOGRAM:
		return o->exponential ? 10 : 9;
	default:
		return 7;
	}
}

static void close_metric(struct otlp_metrics *o)
{
	const struct instrument *is = o->instrument;
	struct wire *w = &o->wire;
	bool delta = o->delta && is && is->kind != INSTRUMENT_UPDOWN && !o->cumulative;

	if (!is)
		return;
	if (is->kind == INSTRUMENT_COUNTER)
		wire_varint(w, 3, 1);
	if (is->kind != INSTRUMENT_GAUGE)
		wire_varint(w, 2, delta ? DELTA : CUMULATIVE);
	wire_message(w, data_field(o), o->metric_at);
	put_text(w, 3, is->unit);
	put_text(w, 2, is->help);
	put_text(w, 1, is->name);
	wire_message(w, 2, o->metric_at);
	o->instrument = NULL;
}

static void close_scope(struct otlp_metrics *o)
{
	struct wire *w = &o->wire;
	size_t before;

	close_metric(o);
	if (!o->scope)
		return;
	before = wire_used(w);
	put_text(w, 2, SPOOR_VERSION);
	put_text(w, 1, o->scope);
	wire_message(w, 1, before);
	wire_message(w, 2, o->scope_at);
	o->scope = NULL;
}

static void close_resource(struct otlp_metrics *o)
{
	close_scope(o);
	if (!o->resource)
		return;
	wire_bytes(&o->wire, 1, o->resource->bytes, o->resource->size);
	wire_message(&o->wire, 1, o->resource_at);
	resource_put(&o->resource);
}

static void open_resource(struct otlp_metrics *o, struct resource *r)
{
	o->resource = resource_ref(r);
	o->resource_at = wire_used(&o->wire);
	put_text(&o->wire, 3, OTLP_SCHEMA_URL);
}

static void open_scope(struct otlp_metrics *o, const char *scope)
{
	o->scope = scope;
	o->scope_at = wire_used(&o->wire);
	put_text(&o->wire, 3, OTLP_SCHEMA_URL);
}

/* Hands what has been written to the caller. */
static int finish(struct otlp_metrics *o)
{
	const uint8_t *body;
	size_t size;
	int err;

	close_resource(o);
	body = o->wire.p;
	size = wire_used(&o->wire);
	err = o->wire.err;
	if (!err && o->points && o->zipped && !o->gzip)
		err = gzip_new(&o->gzip);
	if (!err && o->points && o->zipped)
		err = gzip_all(o->gzip, o->wire.p, size, &body, &size);
	if (err)
		o->lost += o->points;
	else if (o->points)
		o->request(o->arg, body, size, o->points);
	o->points = 0;
	wire_begin(&o->wire);
	return err;
}

void otlp_metrics_begin(struct otlp_metrics *o, bool delta)
{
	o->delta = delta;
	o->points = o->lost = 0;
	wire_begin(&o->wire);
}

int otlp_metrics_end(struct otlp_metrics *o, size_t *lost)
{
	(void)finish(o);
	*lost = o->lost;
	gzip_free(&o->gzip);
	wire_clear(&o->wire); /* it is long until the next time */
	return o->lost ? -ENOMEM : 0;
}

static void put_exemplar(struct wire *w, uint32_t field, const struct exemplar *e)
{
	size_t before = wire_used(w);

	wire_bytes(w, 5, e->trace_id, sizeof(e->trace_id));
	wire_bytes(w, 4, e->span_id, sizeof(e->span_id));
	wire_fixed64(w, 3, bits_of(e->value));
	wire_fixed64(w, 2, e->time_ns);
	wire_message(w, field, before);
}

static void put_exemplars(struct wire *w, uint32_t field, const struct point *p)
{
	for (size_t i = p->nexemplars; i-- > 0;)
		put_exemplar(w, field, &p->exemplars[i]);
}

static void put_attrs(struct wire *w, uint32_t field, const struct point *p)
{
	for (size_t i = p->nattrs; i-- > 0;)
		otlp_attr(w, field, &p->attrs[i]);
}

static void put_times(struct wire *w, const struct point *p)
{
	wire_fixed64(w, 3, p->time_ns);
	if (p->start_ns)
		wire_fixed64(w, 2, p->start_ns);
}

/* Packed, as all fields of numbers that repeat are. */
static void put_fixed64s(struct wire *w, uint32_t field, const uint64_t *v, size_t n)
{
	size_t before = wire_used(w);

	for (size_t i = n; i-- > 0;) {
		uint64_t little =
			__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v[i] : __builtin_bswap64(v[i]);

		if (!wire_room(w, sizeof(little)))
			return;
		w->p -= sizeof(little);
		memcpy(w->p, &little, sizeof(little));
	}
	wire_message(w, field, before);
}

static void put_varints(struct wire *w, uint32_t field, const uint64_t *v, size_t n)
{
	size_t before = wire_used(w);

	for (size_t i = n; i-- > 0;) {
		if (!wire_room(w, WIRE_HEAD_MAX))
			return;
		wire_number(w, v[i]);
	}
	wire_message(w, field, before);
}

static void put_number(struct wire *w, const struct point *p)
{
	put_attrs(w, 7, p);
	if (!p->of->real)
		wire_fixed64(w, 6, (uint64_t)p->i);
	put_exemplars(w, 5, p);
	if (p->of->real)
		wire_fixed64(w, 4, bits_of(p->d));
	put_times(w, p);
}

static void put_explicit(struct wire *w, const struct point *p)
{
	put_attrs(w, 9, p);
	put_exemplars(w, 8, p);
	put_fixed64s(w, 7, (const uint64_t *)p->h.bounds, p->h.nbounds);
	put_fixed64s(w, 6, p->h.counts, p->h.ncounts);
	if (p->h.has_sum)
		wire_fixed64(w, 5, bits_of(p->h.sum));
	wire_fixed64(w, 4, p->h.count);
	put_times(w, p);
}

static void put_exponential(struct wire *w, const struct point *p)
{
	size_t before;

	put_exemplars(w, 11, p);
	before = wire_used(w);
	if (p->h.ncounts) {
		put_varints(w, 2, p->h.counts, p->h.ncounts);
		wire_varint(w, 1, zigzag(p->h.offset));
		wire_message(w, 8, before);
	}
	wire_fixed64(w, 7, p->h.zeros);
	wire_varint(w, 6, zigzag(p->h.scale));
	if (p->h.has_sum)
		wire_fixed64(w, 5, bits_of(p->h.sum));
	wire_fixed64(w, 4, p->h.count);
	put_times(w, p);
	put_attrs(w, 1, p);
}

static void begin(void *arg, struct resource *r, const char *scope)
{
	struct otlp_metrics *o = arg;

	if (o->resource != r) {
		close_resource(o);
		open_resource(o, r);
	} else {
		close_scope(o);
	}
	open_scope(o, scope);
}

static void point(void *arg, const struct point *p)
{
	struct otlp_metrics *o = arg;
	struct wire *w = &o->wire;
	bool exponential = p->of->kind == INSTRUMENT_HISTOGRAM && !p->h.bounds;
	size_t before;

	if (o->instrument != p->of || o->exponential != exponential) {
		close_metric(o);
		o->instrument = p->of;
		o->exponential = exponential;
		o->cumulative = p->cumulative;
		o->metric_at = wire_used(w);
	}
	before = wire_used(w);
	if (exponential)
		put_exponential(w, p);
	else if (p->of->kind == INSTRUMENT_HISTOGRAM)
		put_explicit(w, p);
	else
		put_number(w, p);
	wire_message(w, 1, before);
	o->points++;
	if (wire_used(w) >= o->max_request || w->err) {
		struct resource *r = resource_ref(o->resource);
		const char *scope = o->scope;

		(void)finish(o);
		begin(o, r, scope);
		resource_put(&r);
	}
}

const struct point_sink otlp_metrics_sink = { .begin = begin, .point = point };
