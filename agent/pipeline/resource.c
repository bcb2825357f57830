#include "pipeline/resource.h"

#include "otlp.pb-c.h"

/* A resource, the texts it shows and its encoding are one allocation. */
static const struct shown {
	const char *key;
	size_t at;
} shown[] = {
	{ "service.name", offsetof(struct resource, service) },
	{ "service.namespace", offsetof(struct resource, service_namespace) },
	{ "k8s.pod.name", offsetof(struct resource, pod) },
	{ "k8s.namespace.name", offsetof(struct resource, pod_namespace) },
	{ "k8s.container.name", offsetof(struct resource, container) },
};

/* Everything that resource_new() needs until the bytes are made. */
struct work {
	Otlp__KeyValue *kv, **kvs;
	Otlp__AnyValue *value, *element, **elements;
	Otlp__ArrayValue *array;
};

static void work_clear(struct work *w)
{
	free(w->kv);
	free(w->kvs);
	free(w->value);
	free(w->element);
	free(w->elements);
	free(w->array);
}

static int work_init(struct work *w, const struct resource_attr *attrs, size_t n)
{
	size_t nelements = 0;

	for (size_t i = 0; i < n; i++)
		for (const char *const *v = attrs[i].values; v && *v; v++)
			nelements++;
	/* One more than needed: calloc(0) may be NULL. */
	w->kv = calloc(n + 1, sizeof(*w->kv));
	w->kvs = calloc(n + 1, sizeof(*w->kvs));
	w->value = calloc(n + 1, sizeof(*w->value));
	w->array = calloc(n + 1, sizeof(*w->array));
	w->element = calloc(nelements + 1, sizeof(*w->element));
	w->elements = calloc(nelements + 1, sizeof(*w->elements));
	return w->kv && w->kvs && w->value && w->array && w->element && w->elements ? 0 : -ENOMEM;
}

static ProtobufCBinaryData bytes_of(const char *text)
{
	return (ProtobufCBinaryData){ .len = strlen(text), .data = (uint8_t *)text };
}

static void string_value(Otlp__AnyValue *v, const char *text)
{
	otlp__any_value__init(v);
	v->value_case = OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	v->string_value = bytes_of(text);
}

/* Fills w->kv[] and lets w->kvs[] point to them. */
static void fill(struct work *w, const struct resource_attr *attrs, size_t n)
{
	size_t used = 0;

	for (size_t i = 0; i < n; i++) {
		Otlp__AnyValue *v = &w->value[i];

		if (attrs[i].value) {
			string_value(v, attrs[i].value);
		} else if (attrs[i].values) {
			otlp__any_value__init(v);
			otlp__array_value__init(&w->array[i]);
			w->array[i].values = &w->elements[used];
			for (const char *const *e = attrs[i].values; *e; e++, used++) {
				string_value(&w->element[used], *e);
				w->elements[used] = &w->element[used];
				w->array[i].n_values++;
			}
			v->value_case = OTLP__ANY_VALUE__VALUE_ARRAY_VALUE;
			v->array_value = &w->array[i];
		} else {
			otlp__any_value__init(v);
			v->value_case = OTLP__ANY_VALUE__VALUE_INT_VALUE;
			v->int_value = attrs[i].number;
		}
		otlp__key_value__init(&w->kv[i]);
		w->kv[i].key = bytes_of(attrs[i].key);
		w->kv[i].value = v;
		w->kvs[i] = &w->kv[i];
	}
}

static const char *value_of(const struct resource_attr *attrs, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (attrs[i].value && strcmp(attrs[i].key, key) == 0)
			return attrs[i].value;
	return "";
}

int resource_new(struct resource **out, const struct resource_attr *attrs, size_t n)
{
	__attribute__((cleanup(work_clear))) struct work w = { 0 };
	Otlp__Resource message = OTLP__RESOURCE__INIT;
	size_t size, texts = 0;
	struct resource *r;
	char *end;

	if (work_init(&w, attrs, n) < 0)
		return -ENOMEM;
	fill(&w, attrs, n);
	message.n_attributes = n;
	message.attributes = w.kvs;
	size = otlp__resource__get_packed_size(&message);
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++)
		texts += strlen(value_of(attrs, n, shown[i].key)) + 1;
	r = malloc(sizeof(*r) + size + texts);
	if (!r)
		return -ENOMEM;
	*r = (struct resource){ .bytes = (uint8_t *)(r + 1), .size = size };
	atomic_init(&r->refs, 1);
	end = (char *)(r + 1);
	end += otlp__resource__pack(&message, (uint8_t *)end);
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		const char *text = value_of(attrs, n, shown[i].key);
		size_t len = strlen(text) + 1;

		*(const char **)((char *)r + shown[i].at) = memcpy(end, text, len);
		end += len;
	}
	*out = r;
	return 0;
}

struct resource *resource_ref(struct resource *r)
{
	(void)atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
	return r;
}

void resource_put(struct resource **r)
{
	struct resource *old = take(*r);

	if (old && atomic_fetch_sub_explicit(&old->refs, 1, memory_order_acq_rel) == 1) {
		resource_put(&old->series);
		free(old);
	}
}
