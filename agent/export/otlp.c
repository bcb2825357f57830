#include "export/otlp.h"

#include "export/export.h"
#include "export/gzip.h"
#include "export/wire.h"
#include "otlp.pb-c.h"
#include "pipeline/resource.h"
#include "trace/lib.h"
#include "version.h"

#define RESOURCES_MAX ((size_t)EXPORT_BATCHES_MAX * BATCH_RESOURCES_MAX)

struct otlp {
	size_t max_request, max_spans, nlibs;
	struct gzip *gzip; /* NULL: sent as it is */
	struct wire wire;  /* the request */

	/* For each request: its resources, each once, and which of them batches mean. */
	const struct resource *resources[RESOURCES_MAX];
	size_t nresources;
	uint16_t resource_of[EXPORT_BATCHES_MAX][BATCH_RESOURCES_MAX];
	/* spans[] is ordered by group, a group is a resource and a library. */
	const struct span **spans; /* max_spans */
	uint32_t *group_end;
};

int otlp_new(struct otlp **out, size_t max_spans, size_t max_request, bool gzip)
{
	struct otlp *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->max_spans = max_spans;
	o->max_request = max_request;
	o->nlibs = lib_count() ? lib_count() : 1;
	o->spans = calloc(max_spans, sizeof(struct span *));
	o->group_end = calloc(RESOURCES_MAX * o->nlibs, sizeof(*o->group_end));
	if (!o->spans || !o->group_end || (gzip && gzip_new(&o->gzip) < 0)) {
		otlp_free(&o);
		return -ENOMEM;
	}
	*out = o;
	return 0;
}

void otlp_free(struct otlp **o)
{
	struct otlp *old = take(*o);

	if (!old)
		return;
	gzip_free(&old->gzip);
	wire_clear(&old->wire);
	free((void *)old->spans);
	free(old->group_end);
	free(old);
}

static size_t group_of(const struct otlp *o, const struct export_cursor *c, const struct span *s)
{
	size_t lib = s->lib < o->nlibs ? s->lib : o->nlibs - 1;

	return o->resource_of[c->nth][s->resource] * o->nlibs + lib;
}

/* The distinct resources of all batches of the job: a process is in many of them. */
static void find_resources(struct otlp *o, const struct export_job *job)
{
	const struct batch *b = job->batch;
	size_t nth = 0;

	o->nresources = 0;
	do {
		for (size_t i = 0; i < b->nresources; i++) {
			size_t r = 0;

			while (r < o->nresources && o->resources[r] != b->resources[i])
				r++;
			if (r == o->nresources)
				o->resources[o->nresources++] = b->resources[i];
			o->resource_of[nth][i] = (uint16_t)r;
		}
		b = b->next;
	} while (b && ++nth < EXPORT_BATCHES_MAX);
}

/* Orders the spans of the job by group, in which they stay in order; group_end[] then says where in
 * spans[] each group ends. */
static void order_spans(struct otlp *o, const struct export_job *job)
{
	size_t groups = o->nresources * o->nlibs;
	struct export_cursor c = export_begin(job);
	const struct span *s;
	uint32_t at = 0;

	memset(o->group_end, 0, groups * sizeof(*o->group_end));
	while ((s = export_next(&c)))
		o->group_end[group_of(o, &c, s)]++;
	for (size_t g = 0; g < groups; g++) {
		uint32_t count = o->group_end[g];

		o->group_end[g] = at;
		at += count;
	}
	c = export_begin(job);
	while ((s = export_next(&c)))
		o->spans[o->group_end[group_of(o, &c, s)]++] = s;
}

/* KeyValue {key = 1, value = 2}, AnyValue {string_value = 1, bool_value = 2, int_value = 3}: one of
 * them is there, also when it is empty. Numbers of fields here and below are otlp.proto's. */
void otlp_attr(struct wire *w, uint32_t field, const struct attr *a)
{
	size_t before = wire_used(w);

	switch (a->type) {
	case ATTR_STR:
		if (a->s.n)
			wire_bytes(w, 1, a->s.p, a->s.n);
		else
			wire_message(w, 1, before); /* an empty one is the same on the wire */
		break;
	case ATTR_INT:
		wire_varint(w, 3, (uint64_t)a->i);
		break;
	case ATTR_BOOL:
		wire_varint(w, 2, a->i != 0);
		break;
	}
	wire_message(w, 2, before);
	wire_bytes(w, 1, a->key, strlen(a->key));
	wire_message(w, field, before);
}

static void put_span(struct wire *w, const struct span *s)
{
	static const uint8_t root[sizeof(s->parent_id)];
	size_t before = wire_used(w), status;

	wire_fixed32(w, 16, s->flags);
	status = wire_used(w);
	if (s->status != SPAN_UNSET) {
		wire_varint(w, 3, s->status);
		wire_message(w, 15, status);
	}
	for (size_t i = s->nattrs; i-- > 0;)
		otlp_attr(w, 9, &s->attrs[i]);
	wire_fixed64(w, 8, s->end_ns);
	wire_fixed64(w, 7, s->start_ns);
	wire_varint(w, 6, s->kind);
	wire_bytes(w, 5, s->name.p, s->name.n);
	if (memcmp(s->parent_id, root, sizeof(root)) != 0)
		wire_bytes(w, 4, s->parent_id, sizeof(s->parent_id));
	wire_bytes(w, 3, s->tracestate.p, s->tracestate.n);
	wire_bytes(w, 2, s->span_id, sizeof(s->span_id));
	wire_bytes(w, 1, s->trace_id, sizeof(s->trace_id));
	wire_message(w, 2, before);
}

/* ScopeSpans of spans[first..end). */
static int put_scope(struct otlp *o, size_t lib, size_t first, size_t end)
{
	const char *name = lib_at(lib) ? lib_at(lib)->scope : "spoor";
	struct wire *w = &o->wire;
	size_t before = wire_used(w), scope;

	wire_bytes(w, 3, OTLP_SCHEMA_URL, strlen(OTLP_SCHEMA_URL));
	while (end-- > first) {
		put_span(w, o->spans[end]);
		if (wire_used(w) > o->max_request)
			return -EMSGSIZE;
	}
	scope = wire_used(w);
	wire_bytes(w, 2, SPOOR_VERSION, strlen(SPOOR_VERSION));
	wire_bytes(w, 1, name, strlen(name));
	wire_message(w, 1, scope);
	wire_message(w, 2, before);
	return 0;
}

static int put_resource(struct otlp *o, size_t r)
{
	struct wire *w = &o->wire;
	size_t before = wire_used(w);
	int err = 0;

	wire_bytes(w, 3, OTLP_SCHEMA_URL, strlen(OTLP_SCHEMA_URL));
	for (size_t l = o->nlibs; l-- > 0 && !err;) {
		size_t group = r * o->nlibs + l;
		size_t first = group ? o->group_end[group - 1] : 0, end = o->group_end[group];

		if (first < end)
			err = put_scope(o, l, first, end);
	}
	wire_bytes(w, 1, o->resources[r]->bytes, o->resources[r]->size);
	wire_message(w, 1, before);
	return err;
}

/* The resource has a span in the job. */
static bool is_used(const struct otlp *o, size_t r)
{
	size_t first = r * o->nlibs;

	return o->group_end[first + o->nlibs - 1] > (first ? o->group_end[first - 1] : 0);
}

int otlp_encode(struct otlp *o, const struct export_job *job, const uint8_t **body, size_t *size,
		size_t *plain)
{
	int err = 0;

	if (job->count > o->max_spans)
		return -EMSGSIZE;
	find_resources(o, job);
	order_spans(o, job);
	wire_begin(&o->wire);
	for (size_t r = o->nresources; r-- > 0 && !err;)
		if (is_used(o, r))
			err = put_resource(o, r);
	if (!err)
		err = o->wire.err;
	if (!err && wire_used(&o->wire) > o->max_request)
		err = -EMSGSIZE;
	if (err)
		return err;
	*plain = *size = wire_used(&o->wire);
	*body = o->wire.p;
	return o->gzip ? gzip_all(o->gzip, o->wire.p, *plain, body, size) : 0;
}

void otlp_printable(char *to, size_t n, const void *from, size_t size)
{
	const char *p = from;
	size_t i;

	for (i = 0; i < size && i + 1 < n; i++) {
		to[i] = p[i];
		if (p[i] < ' ' || p[i] >= 0x7f)
			to[i] = '.';
	}
	to[i] = '\0';
}

/* Nearly every answer is empty or a few bytes: those cost no malloc. */
struct scratch {
	size_t used;
	_Alignas(16) char bytes[1024];
};

static void *scratch_alloc(void *data, size_t n)
{
	struct scratch *s = data;
	size_t at = (s->used + 15) & ~(size_t)15;

	if (n > sizeof(s->bytes) - at)
		return malloc(n);
	s->used = at + n;
	return s->bytes + at;
}

static void scratch_free(void *data, void *p)
{
	struct scratch *s = data;

	if ((char *)p < s->bytes || (char *)p >= s->bytes + sizeof(s->bytes))
		free(p);
}

int otlp_answer(struct otlp_answer *out, const void *body, size_t size)
{
	struct scratch scratch = { 0 };
	ProtobufCAllocator alloc = { .alloc = scratch_alloc,
				     .free = scratch_free,
				     .allocator_data = &scratch };
	Otlp__ExportTraceServiceResponse *m =
		otlp__export_trace_service_response__unpack(&alloc, size, body);

	if (!m)
		return -EBADMSG;
	*out = (struct otlp_answer){ 0 };
	if (m->partial_success) {
		const Otlp__ExportTracePartialSuccess *ps = m->partial_success;

		out->rejected = ps->rejected_spans > 0 ? (size_t)ps->rejected_spans : 0;
		otlp_printable(out->message, sizeof(out->message), ps->error_message.data,
			       ps->error_message.len);
	}
	otlp__export_trace_service_response__free_unpacked(m, &alloc);
	return 0;
}
