#include "export/otlp.h"

#include "export/export.h"
#include "otlp.pb-c.h"
#include "pipeline/resource.h"
#include "trace/lib.h"
#include "version.h"

#include <zlib.h>

#define SCHEMA_URL    "https://opentelemetry.io/schemas/1.44.0"
#define GZIP_WINDOW   (MAX_WBITS + 16) /* zlib.h: deflateInit2(), a gzip header instead of zlib's */
#define FIRST_BYTES   65536
#define RESOURCES_MAX ((size_t)EXPORT_BATCHES_MAX * BATCH_RESOURCES_MAX)

/* Most bytes that a field takes beside its own: tag and length (two each for an attribute, its key
 * and its value), a number. */
#define FIELD_EXTRA 32
#define SPAN_EXTRA  256 /* all of a span but its texts and attributes */

struct buffer {
	uint8_t *p;
	size_t used, size;
};

/* What pack_to_buffer() appends to: the request as it is, or through the compressor. */
struct sink {
	ProtobufCBuffer base; /* first: protobuf-c hands back a pointer to it */
	struct otlp *otlp;
	int err;
};

struct otlp {
	size_t max_request, max_spans, nlibs;
	bool gzip;
	z_stream z;
	struct buffer spans; /* encoded one after the other, in the order of the batch */
	struct buffer out;

	/* Messages that are filled anew for each span; what never changes is set once. */
	Otlp__Span span;
	Otlp__Status status;
	Otlp__KeyValue kv[SPAN_ATTRS_MAX], *kvs[SPAN_ATTRS_MAX];
	Otlp__AnyValue value[SPAN_ATTRS_MAX];

	/* And for each request: its resources, each once, and which of them batches mean. */
	const struct resource *resources[RESOURCES_MAX];
	size_t nresources;
	uint16_t resource_of[EXPORT_BATCHES_MAX][BATCH_RESOURCES_MAX];
	/* encoded[] is ordered by group, a group is a resource and a library. */
	ProtobufCBinaryData *encoded; /* max_spans */
	uint32_t *offsets;            /* max_spans: where encoded[] lies in spans, which may move */
	uint32_t *group_at;           /* where the next span of the group goes */
	Otlp__InstrumentationScope *scopes;                         /* nlibs */
	Otlp__ScopeSpans *scope_spans, **scope_spans_list;          /* one a group */
	Otlp__ResourceSpans *resource_spans, **resource_spans_list; /* one a resource */
};

static ProtobufCBinaryData text(const char *s)
{
	return (ProtobufCBinaryData){ .len = strlen(s), .data = (uint8_t *)s };
}

static ProtobufCBinaryData bytes(const void *p, size_t n)
{
	return (ProtobufCBinaryData){ .len = n, .data = (uint8_t *)p };
}

/* Makes room for n more bytes. */
static int buffer_room(struct buffer *b, size_t n)
{
	size_t size = b->size ? b->size : FIRST_BYTES;
	uint8_t *p;

	if (n <= b->size - b->used)
		return 0;
	while (size - b->used < n)
		size *= 2;
	p = realloc(b->p, size);
	if (!p)
		return -ENOMEM;
	b->p = p;
	b->size = size;
	return 0;
}

static void init_messages(struct otlp *o)
{
	otlp__span__init(&o->span);
	otlp__status__init(&o->status);
	o->span.attributes = o->kvs;
	for (size_t i = 0; i < SPAN_ATTRS_MAX; i++) {
		otlp__key_value__init(&o->kv[i]);
		otlp__any_value__init(&o->value[i]);
		o->kv[i].value = &o->value[i];
		o->kvs[i] = &o->kv[i];
	}
	for (size_t i = 0; i < o->nlibs; i++) {
		otlp__instrumentation_scope__init(&o->scopes[i]);
		o->scopes[i].name = text(lib_at(i) ? lib_at(i)->scope : "spoor");
		o->scopes[i].version = text(SPOOR_VERSION);
	}
}

int otlp_new(struct otlp **out, size_t max_spans, size_t max_request, bool gzip)
{
	struct otlp *o = calloc(1, sizeof(*o));
	size_t groups;

	if (!o)
		return -ENOMEM;
	o->max_spans = max_spans;
	o->max_request = max_request;
	o->nlibs = lib_count() ? lib_count() : 1;
	groups = RESOURCES_MAX * o->nlibs;
	o->encoded = calloc(max_spans, sizeof(*o->encoded));
	o->offsets = calloc(max_spans, sizeof(*o->offsets));
	o->group_at = calloc(groups, sizeof(*o->group_at));
	o->scopes = calloc(o->nlibs, sizeof(*o->scopes));
	o->scope_spans = calloc(groups, sizeof(*o->scope_spans));
	o->scope_spans_list = calloc(groups, sizeof(*o->scope_spans_list));
	o->resource_spans = calloc(RESOURCES_MAX, sizeof(*o->resource_spans));
	o->resource_spans_list = calloc(RESOURCES_MAX, sizeof(*o->resource_spans_list));
	if (gzip)
		o->gzip = deflateInit2(&o->z, 1, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) ==
			  Z_OK;
	if (!o->encoded || !o->offsets || !o->group_at || !o->scopes || !o->scope_spans ||
	    !o->scope_spans_list || !o->resource_spans || !o->resource_spans_list ||
	    o->gzip != gzip) {
		otlp_free(&o);
		return -ENOMEM;
	}
	init_messages(o);
	*out = o;
	return 0;
}

void otlp_free(struct otlp **o)
{
	struct otlp *old = take(*o);

	if (!old)
		return;
	if (old->gzip)
		(void)deflateEnd(&old->z);
	free(old->encoded);
	free(old->offsets);
	free(old->group_at);
	free(old->scopes);
	free(old->scope_spans);
	free(old->scope_spans_list);
	free(old->resource_spans);
	free(old->resource_spans_list);
	free(old->spans.p);
	free(old->out.p);
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

	o->nresources = 0;
	for (size_t nth = 0; b && nth < EXPORT_BATCHES_MAX; nth++, b = b->next) {
		for (size_t i = 0; i < b->nresources; i++) {
			size_t r = 0;

			while (r < o->nresources && o->resources[r] != b->resources[i])
				r++;
			if (r == o->nresources)
				o->resources[o->nresources++] = b->resources[i];
			o->resource_of[nth][i] = (uint16_t)r;
		}
	}
}

/* Fills the attributes; most bytes that they take. */
static size_t fill_attrs(struct otlp *o, const struct span *s)
{
	size_t most = 0;

	for (size_t i = 0; i < s->nattrs; i++) {
		const struct attr *a = &s->attrs[i];
		Otlp__AnyValue *v = &o->value[i];

		o->kv[i].key = text(a->key);
		most += o->kv[i].key.len + FIELD_EXTRA;
		switch (a->type) {
		case ATTR_STR:
			v->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
			v->string_value = bytes(a->s.p, a->s.n);
			most += a->s.n;
			break;
		case ATTR_INT:
			v->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
			v->int_value = a->i;
			break;
		case ATTR_BOOL:
			v->value_case = OTLP__ANY_VALUE__VALUE_BOOL_VALUE;
			v->bool_value = a->i != 0;
			break;
		}
	}
	o->span.n_attributes = s->nattrs;
	return most;
}

/* Appends one span to o->spans; it becomes encoded[to], but for the address. */
static int encode_span(struct otlp *o, const struct span *s, size_t to)
{
	static const uint8_t root[sizeof(s->parent_id)];
	Otlp__Span *m = &o->span;
	size_t most = SPAN_EXTRA + s->name.n + s->tracestate.n + fill_attrs(o, s);
	size_t n;

	if (buffer_room(&o->spans, most) < 0)
		return -ENOMEM;
	m->trace_id = bytes(s->trace_id, sizeof(s->trace_id));
	m->span_id = bytes(s->span_id, sizeof(s->span_id));
	m->parent_span_id = memcmp(s->parent_id, root, sizeof(root)) == 0
				    ? bytes(NULL, 0)
				    : bytes(s->parent_id, sizeof(s->parent_id));
	m->trace_state = bytes(s->tracestate.p, s->tracestate.n);
	m->name = bytes(s->name.p, s->name.n);
	m->kind = (int32_t)s->kind;
	m->start_time_unix_nano = s->start_ns;
	m->end_time_unix_nano = s->end_ns;
	m->flags = s->flags;
	o->status.code = (int32_t)s->status;
	m->status = s->status == SPAN_UNSET ? NULL : &o->status;
	n = otlp__span__pack(m, o->spans.p + o->spans.used);
	o->encoded[to].len = n;
	o->offsets[to] = (uint32_t)o->spans.used;
	o->spans.used += n;
	return 0;
}

static void begin_scope(struct otlp *o, size_t at, size_t lib, size_t first, size_t count)
{
	Otlp__ScopeSpans *m = &o->scope_spans[at];

	otlp__scope_spans__init(m);
	m->scope = &o->scopes[lib];
	m->spans = &o->encoded[first];
	m->n_spans = count;
	m->schema_url = text(SCHEMA_URL);
	o->scope_spans_list[at] = m;
}

static Otlp__ResourceSpans *begin_resource(struct otlp *o, size_t at, const struct resource *r)
{
	Otlp__ResourceSpans *m = &o->resource_spans[at];

	otlp__resource_spans__init(m);
	m->resource = bytes(r->bytes, r->size);
	m->schema_url = text(SCHEMA_URL);
	o->resource_spans_list[at] = m;
	return m;
}

/* Turns counts of spans into where each group begins in encoded[], and lays the messages over it.
 */
static void lay_out(struct otlp *o, Otlp__ExportTraceServiceRequest *request)
{
	size_t scopes = 0;
	uint32_t at = 0;

	request->resource_spans = o->resource_spans_list;
	for (size_t r = 0; r < o->nresources; r++) {
		Otlp__ResourceSpans *rs =
			begin_resource(o, request->n_resource_spans, o->resources[r]);

		rs->scope_spans = &o->scope_spans_list[scopes];
		for (size_t l = 0; l < o->nlibs; l++) {
			uint32_t *group = &o->group_at[r * o->nlibs + l], count = *group;

			*group = at;
			if (count == 0)
				continue;
			begin_scope(o, scopes++, l, at, count);
			rs->n_scope_spans++;
			at += count;
		}
		if (rs->n_scope_spans)
			request->n_resource_spans++;
	}
}

/* Runs the compressor until it has taken its input, or (Z_FINISH) given all its output. */
static int compress_some(struct otlp *o, int flush)
{
	int ret;

	do {
		if (buffer_room(&o->out, FIRST_BYTES / 4) < 0)
			return -ENOMEM;
		o->z.next_out = o->out.p + o->out.used;
		o->z.avail_out = (uInt)(o->out.size - o->out.used);
		ret = deflate(&o->z, flush);
		o->out.used = o->out.size - o->z.avail_out;
	} while (ret == Z_OK && (o->z.avail_in || flush == Z_FINISH));
	return ret == Z_OK || ret == Z_STREAM_END || ret == Z_BUF_ERROR ? 0 : -EINVAL;
}

static void append(ProtobufCBuffer *buffer, size_t n, const uint8_t *data)
{
	struct sink *s = (struct sink *)buffer;
	struct otlp *o = s->otlp;

	if (s->err)
		return;
	if (o->gzip) {
		o->z.next_in = (Bytef *)data;
		o->z.avail_in = (uInt)n;
		s->err = compress_some(o, Z_NO_FLUSH);
		return;
	}
	s->err = buffer_room(&o->out, n);
	if (s->err == 0) {
		memcpy(o->out.p + o->out.used, data, n);
		o->out.used += n;
	}
}

static int finish(struct otlp *o, const Otlp__ExportTraceServiceRequest *request)
{
	struct sink sink = { .base.append = append, .otlp = o };

	o->out.used = 0;
	if (o->gzip)
		(void)deflateReset(&o->z);
	(void)otlp__export_trace_service_request__pack_to_buffer(request, &sink.base);
	if (sink.err == 0 && o->gzip)
		sink.err = compress_some(o, Z_FINISH);
	return sink.err;
}

/* Encodes each span into its place. */
static int encode_spans(struct otlp *o, const struct export_job *job)
{
	struct export_cursor c = export_begin(job);
	const struct span *s;
	int err;

	o->spans.used = 0;
	while ((s = export_next(&c))) {
		err = encode_span(o, s, o->group_at[group_of(o, &c, s)]++);
		if (err < 0)
			return err;
		if (o->spans.used > o->max_request)
			return -EMSGSIZE;
	}
	for (size_t i = 0; i < job->count; i++)
		o->encoded[i].data = o->spans.p + o->offsets[i];
	return 0;
}

int otlp_encode(struct otlp *o, const struct export_job *job, const uint8_t **body, size_t *size,
		size_t *plain)
{
	Otlp__ExportTraceServiceRequest request = OTLP__EXPORT_TRACE_SERVICE_REQUEST__INIT;
	struct export_cursor c = export_begin(job);
	const struct span *s;
	int err;

	if (job->count > o->max_spans)
		return -EMSGSIZE;
	find_resources(o, job);
	memset(o->group_at, 0, o->nresources * o->nlibs * sizeof(*o->group_at));
	while ((s = export_next(&c)))
		o->group_at[group_of(o, &c, s)]++;
	lay_out(o, &request);
	err = encode_spans(o, job);
	if (err < 0)
		return err;
	*plain = otlp__export_trace_service_request__get_packed_size(&request);
	if (*plain > o->max_request)
		return -EMSGSIZE;
	err = finish(o, &request);
	if (err < 0)
		return err;
	*body = o->out.p;
	*size = o->out.used;
	return 0;
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
