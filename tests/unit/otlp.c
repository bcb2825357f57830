#include "export/otlp.h"

#include "allocations.h"
#include "export/export.h"
#include "otlp.pb-c.h"
#include "pipeline/batch.h"
#include "pipeline/resource.h"
#include "trace/lib.h"

#include <criterion/criterion.h>
#include <zlib.h>

/* Libraries of our own: the encoder knows scopes by the index of the library only. */
static const struct lib lib_a = { .name = "test_a", .scope = "spoor/test/a" };
static const struct lib lib_b = { .name = "test_b", .scope = "spoor/test/b" };
LIB_REGISTER(lib_a);
LIB_REGISTER(lib_b);

static uint8_t index_of(const struct lib *lib)
{
	for (size_t i = 0; i < lib_count(); i++)
		if (lib_at(i) == lib)
			return (uint8_t)i;
	cr_assert(false);
	return 0;
}

static struct resource *resource_named(const char *name)
{
	struct resource_attr attr = { .key = "service.name", .value = name };
	struct resource *r = NULL;

	cr_assert_eq(resource_new(&r, &attr, 1), 0);
	return r;
}

static struct pool *one_pool(size_t spans)
{
	struct pool *p = NULL;

	cr_assert_eq(pool_new(&p, 4, spans, 1 << 20), 0);
	return p;
}

static struct batch *empty_batch(struct pool *p)
{
	size_t dropped;
	struct batch *b = pool_get(p, &dropped);

	cr_assert(b);
	return b;
}

static struct str copied(struct batch *b, const char *text)
{
	return (struct str){ arena_copy(&b->arena, text, strlen(text)), strlen(text) };
}

/* What a decode() of a server request makes. */
static void add(struct batch *b, struct resource *r, const struct lib *lib, uint8_t number)
{
	struct attr attrs[SPAN_ATTRS_MAX];
	struct span s = { .start_ns = 1760000000000000000 + number,
			  .end_ns = 1760000000001000000 + number,
			  .flags = 0x101,
			  .kind = SPAN_SERVER,
			  .lib = index_of(lib),
			  .attrs = attrs };

	memset(s.trace_id, 0xa0, sizeof(s.trace_id));
	memset(s.span_id, number, sizeof(s.span_id));
	s.span_id[0] = 1;
	s.name = copied(b, "GET /items/{id}");
	span_str(&s, "http.request.method", copied(b, "GET"));
	span_str(&s, "url.path", copied(b, "/items/4711"));
	span_str(&s, "url.scheme", copied(b, "http"));
	span_str(&s, "http.route", copied(b, "/items/{id}"));
	span_str(&s, "server.address", copied(b, "cart.shop.svc.cluster.local"));
	span_int(&s, "server.port", 8080);
	span_str(&s, "network.protocol.version", copied(b, "1.1"));
	span_str(&s, "network.peer.address", copied(b, "10.1.2.3"));
	span_int(&s, "network.peer.port", 40000 + number);
	span_str(&s, "client.address", copied(b, "10.1.2.3"));
	span_str(&s, "user_agent.original", copied(b, "Go-http-client/1.1"));
	span_int(&s, "http.response.status_code", 200);
	cr_assert_eq(batch_add(b, &s, r), 0);
}

static int encode(struct otlp *o, const struct batch *b, size_t first, size_t count,
		  const uint8_t **body, size_t *size, size_t *plain)
{
	struct export_job job = { .batch = b, .first = first, .count = count };

	return otlp_encode(o, &job, body, size, plain);
}

static Otlp__ExportTraceServiceRequest *sent(struct otlp *o, const struct batch *b, size_t first,
					     size_t count)
{
	Otlp__ExportTraceServiceRequest *m;
	const uint8_t *body;
	size_t size, plain;

	cr_assert_eq(encode(o, b, first, count, &body, &size, &plain), 0);
	cr_expect_eq(size, plain);
	m = otlp__export_trace_service_request__unpack(NULL, size, body);
	cr_assert(m);
	return m;
}

static bool bytes_are(ProtobufCBinaryData b, const void *p, size_t n)
{
	return b.len == n && memcmp(b.data, p, n) == 0;
}

static bool text_is(ProtobufCBinaryData b, const char *text)
{
	return bytes_are(b, text, strlen(text));
}

Test(otlp, spans_are_grouped_by_resource_then_by_scope_each_named_once)
{
	struct resource *r1 = resource_named("one"), *r2 = resource_named("two");
	Otlp__ExportTraceServiceRequest *m;
	struct pool *p = one_pool(8);
	struct batch *b = empty_batch(p);
	struct otlp *o = NULL;

	add(b, r1, &lib_a, 1);
	add(b, r2, &lib_a, 2);
	add(b, r1, &lib_b, 3);
	add(b, r1, &lib_a, 4);
	cr_assert_eq(otlp_new(&o, 8, 1 << 20, false), 0);
	m = sent(o, b, 0, 4);
	cr_assert_eq(m->n_resource_spans, 2);
	cr_expect(bytes_are(m->resource_spans[0]->resource, r1->bytes, r1->size));
	cr_expect(bytes_are(m->resource_spans[1]->resource, r2->bytes, r2->size));
	cr_expect(text_is(m->resource_spans[0]->schema_url,
			  "https://opentelemetry.io/schemas/1.44.0"));
	cr_assert_eq(m->resource_spans[0]->n_scope_spans, 2);
	cr_assert_eq(m->resource_spans[1]->n_scope_spans, 1);
	for (size_t i = 0; i < 2; i++) {
		Otlp__ScopeSpans *ss = m->resource_spans[0]->scope_spans[i];
		bool a = text_is(ss->scope->name, "spoor/test/a");

		cr_expect(a || text_is(ss->scope->name, "spoor/test/b"));
		cr_expect_eq(ss->n_spans, a ? 2 : 1);
		cr_expect_gt(ss->scope->version.len, 0);
		cr_expect(text_is(ss->schema_url, "https://opentelemetry.io/schemas/1.44.0"));
	}
	otlp__export_trace_service_request__free_unpacked(m, NULL);

	m = sent(o, b, 1, 1);
	cr_assert_eq(m->n_resource_spans, 1, "no empty envelopes");
	cr_expect(bytes_are(m->resource_spans[0]->resource, r2->bytes, r2->size));
	otlp__export_trace_service_request__free_unpacked(m, NULL);
	otlp_free(&o);
	pool_free(&p);
	resource_put(&r1);
	resource_put(&r2);
}

Test(otlp, batches_that_follow_each_other_are_one_request_with_each_resource_once)
{
	struct resource *r1 = resource_named("one"), *r2 = resource_named("two");
	Otlp__ExportTraceServiceRequest *m;
	struct pool *p = one_pool(8);
	struct batch *b[3];
	struct otlp *o = NULL;

	for (size_t i = 0; i < 3; i++)
		b[i] = empty_batch(p);
	b[0]->next = b[1];
	b[1]->next = b[2];
	add(b[0], r1, &lib_a, 1);
	add(b[1], r2, &lib_a, 2);
	add(b[1], r1, &lib_a, 3);
	add(b[1], r2, &lib_b, 4);
	add(b[2], r1, &lib_a, 5);
	cr_assert_eq(otlp_new(&o, 24, 1 << 20, false), 0);
	m = sent(o, b[0], 0, 5);
	cr_assert_eq(m->n_resource_spans, 2);
	cr_expect(bytes_are(m->resource_spans[0]->resource, r1->bytes, r1->size));
	cr_assert_eq(m->resource_spans[0]->n_scope_spans, 1);
	cr_expect_eq(m->resource_spans[0]->scope_spans[0]->n_spans, 3);
	cr_expect(bytes_are(m->resource_spans[1]->resource, r2->bytes, r2->size));
	cr_expect_eq(m->resource_spans[1]->n_scope_spans, 2);
	otlp__export_trace_service_request__free_unpacked(m, NULL);

	m = sent(o, b[0], 3, 2);
	cr_assert_eq(m->n_resource_spans, 2, "a part that begins within one and ends in another");
	cr_expect_eq(m->resource_spans[0]->scope_spans[0]->n_spans, 1);
	cr_expect_eq(m->resource_spans[1]->scope_spans[0]->n_spans, 1);
	otlp__export_trace_service_request__free_unpacked(m, NULL);
	otlp_free(&o);
	pool_free(&p);
	resource_put(&r1);
	resource_put(&r2);
}

static Otlp__Span *only_span(struct otlp *o, struct batch *b)
{
	Otlp__ExportTraceServiceRequest *m = sent(o, b, 0, 1);
	ProtobufCBinaryData bytes = m->resource_spans[0]->scope_spans[0]->spans[0];
	Otlp__Span *s = otlp__span__unpack(NULL, bytes.len, bytes.data);

	cr_assert(s);
	otlp__export_trace_service_request__free_unpacked(m, NULL);
	return s;
}

Test(otlp, every_field_of_a_span_arrives)
{
	struct attr attrs[] = { { .key = "s", .type = ATTR_STR, .s = { "v", 1 } },
				{ .key = "i", .type = ATTR_INT, .i = -7 },
				{ .key = "b", .type = ATTR_BOOL, .i = 1 },
				{ .key = "e", .type = ATTR_STR, .s = { "", 0 } } };
	struct span in = { .start_ns = 11,
			   .end_ns = 12,
			   .flags = 0x301,
			   .tracestate = { "a=b", 3 },
			   .name = { "GET /x", 6 },
			   .kind = SPAN_CLIENT,
			   .status = SPAN_ERROR,
			   .nattrs = 4,
			   .attrs = attrs };
	struct resource *r = resource_named("one");
	struct pool *p = one_pool(8);
	struct batch *b = empty_batch(p);
	struct otlp *o = NULL;
	Otlp__Span *s;

	memset(in.trace_id, 1, 16);
	memset(in.span_id, 2, 8);
	memset(in.parent_id, 3, 8);
	cr_assert_eq(batch_add(b, &in, r), 0);
	cr_assert_eq(otlp_new(&o, 8, 1 << 20, false), 0);
	s = only_span(o, b);
	cr_expect(bytes_are(s->trace_id, in.trace_id, 16));
	cr_expect(bytes_are(s->span_id, in.span_id, 8));
	cr_expect(bytes_are(s->parent_span_id, in.parent_id, 8));
	cr_expect(text_is(s->trace_state, "a=b"));
	cr_expect(text_is(s->name, "GET /x"));
	cr_expect_eq(s->kind, 3);
	cr_expect_eq(s->start_time_unix_nano, 11);
	cr_expect_eq(s->end_time_unix_nano, 12);
	cr_expect_eq(s->flags, 0x301);
	cr_assert(s->status);
	cr_expect_eq(s->status->code, 2);
	cr_assert_eq(s->n_attributes, 4);
	cr_expect(text_is(s->attributes[0]->value->string_value, "v"));
	cr_expect_eq(s->attributes[1]->value->int_value, -7);
	cr_expect_eq(s->attributes[2]->value->value_case, OTLP__ANY_VALUE__VALUE_BOOL_VALUE);
	cr_expect_eq(s->attributes[3]->value->value_case, OTLP__ANY_VALUE__VALUE_STRING_VALUE,
		     "empty is not absent");
	otlp__span__free_unpacked(s, NULL);
	otlp_free(&o);
	pool_free(&p);
	resource_put(&r);
}

Test(otlp, a_root_has_no_parent_id_and_a_success_no_status)
{
	struct resource *r = resource_named("one");
	struct pool *p = one_pool(8);
	struct batch *b = empty_batch(p);
	struct otlp *o = NULL;
	Otlp__Span *s;

	add(b, r, &lib_a, 1);
	cr_assert_eq(otlp_new(&o, 8, 1 << 20, false), 0);
	s = only_span(o, b);
	cr_expect_eq(s->parent_span_id.len, 0);
	cr_expect_null(s->status);
	otlp__span__free_unpacked(s, NULL);
	otlp_free(&o);
	pool_free(&p);
	resource_put(&r);
}

Test(otlp, compressed_it_is_the_same_request)
{
	struct resource *r = resource_named("one");
	const uint8_t *body, *zipped;
	size_t size, plain, zipped_size;
	struct pool *p = one_pool(512);
	struct batch *b = empty_batch(p);
	struct otlp *o = NULL, *z = NULL;
	z_stream in = { 0 };
	uint8_t *out;

	for (size_t i = 0; i < 512; i++)
		add(b, r, i % 3 ? &lib_a : &lib_b, (uint8_t)i);
	cr_assert_eq(otlp_new(&o, 512, 1 << 20, false), 0);
	cr_assert_eq(otlp_new(&z, 512, 1 << 20, true), 0);
	cr_assert_eq(encode(o, b, 0, 512, &body, &size, &plain), 0);
	for (size_t round = 0; round < 3; round++) {
		cr_assert_eq(encode(z, b, 0, 512, &zipped, &zipped_size, &plain), 0);
		cr_expect_eq(plain, size);
		cr_expect_lt(zipped_size, size / 4);
		out = malloc(size);
		memset(&in, 0, sizeof(in));
		cr_assert_eq(inflateInit2(&in, MAX_WBITS + 16), Z_OK);
		in.next_in = (Bytef *)(uintptr_t)zipped;
		in.avail_in = (uInt)zipped_size;
		in.next_out = out;
		in.avail_out = (uInt)size;
		cr_expect_eq(inflate(&in, Z_FINISH), Z_STREAM_END);
		cr_expect_eq(in.avail_out, 0);
		cr_expect_eq(in.avail_in, 0);
		cr_expect_arr_eq(out, body, size);
		(void)inflateEnd(&in);
		free(out);
	}
	otlp_free(&o);
	otlp_free(&z);
	pool_free(&p);
	resource_put(&r);
}

Test(otlp, what_is_longer_than_max_request_is_not_made_and_half_of_it_may_be)
{
	struct resource *r = resource_named("one");
	struct pool *p = one_pool(512);
	struct batch *b = empty_batch(p);
	size_t size, plain = 77;
	struct otlp *o = NULL;
	const uint8_t *body;

	for (size_t i = 0; i < 512; i++)
		add(b, r, &lib_a, (uint8_t)i);
	cr_assert_eq(otlp_new(&o, 512, 1 << 20, false), 0);
	cr_assert_eq(encode(o, b, 0, 512, &body, &size, &plain), 0);
	otlp_free(&o);
	cr_assert_eq(otlp_new(&o, 512, plain - 1, false), 0);
	cr_expect_eq(encode(o, b, 0, 512, &body, &size, &plain), -EMSGSIZE);
	cr_expect_eq(encode(o, b, 0, 256, &body, &size, &plain), 0);
	cr_expect_eq(encode(o, b, 256, 256, &body, &size, &plain), 0);
	otlp_free(&o);
	pool_free(&p);
	resource_put(&r);
}

Test(otlp, in_steady_state_nothing_is_allocated_from_filling_a_batch_to_the_compressed_request)
{
	struct resource *r = resource_named("one");
	struct pool *p = one_pool(512);
	struct otlp_answer answer;
	size_t size, plain, dropped;
	void *volatile any; /* or the compiler takes the call away */
	struct otlp *o = NULL;
	const uint8_t *body;

	if (!CAN_COUNT)
		cr_skip("a sanitizer has malloc already\n");
	cr_assert_eq(otlp_new(&o, 512, 4 << 20, true), 0);
	for (size_t round = 0; round < 20; round++) {
		struct batch *b = pool_get(p, &dropped);

		counting = round >= 2;
		for (size_t i = 0; i < 512; i++)
			add(b, r, &lib_a, (uint8_t)i);
		pool_send(p, b);
		b = pool_receive(p, 0);
		cr_assert_eq(encode(o, b, 0, b->nspans, &body, &size, &plain), 0);
		cr_assert_eq(otlp_answer(&answer, "\x0a\x00", 2), 0);
		pool_put(p, b);
		counting = 0;
	}
	cr_expect_eq(allocations, 0, "%zu", allocations);
	counting = 1;
	any = malloc(1);
	counting = 0;
	free(any);
	cr_expect_eq(allocations, 1, "the counter counts");
	otlp_free(&o);
	pool_free(&p);
	resource_put(&r);
}

Test(otlp, answers_are_read_and_never_trusted)
{
	struct otlp_answer a = { .rejected = 9 };
	char big[2000];

	cr_expect_eq(otlp_answer(&a, "", 0), 0);
	cr_expect_eq(a.rejected, 0);
	cr_expect_eq(otlp_answer(&a, "\x0a\x0a\x08\x05\x12\x06too\nbi", 12), 0);
	cr_expect_eq(a.rejected, 5);
	cr_expect_str_eq(a.message, "too.bi");
	cr_expect_eq(otlp_answer(&a, "\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13),
		     0);
	cr_expect_eq(a.rejected, 0, "negative");
	a.rejected = 7;
	cr_expect_eq(otlp_answer(&a, "<html>", 6), -EBADMSG);
	cr_expect_eq(otlp_answer(&a, "\x0a\x7f\x08", 3), -EBADMSG);
	cr_expect_eq(a.rejected, 7, "untouched on error");
	memset(big, 'x', sizeof(big));
	memcpy(big, "\x0a\xcd\x0f\x12\xca\x0f", 6);
	cr_expect_eq(otlp_answer(&a, big, sizeof(big)), 0);
	cr_expect_eq(strlen(a.message), 256);
}
