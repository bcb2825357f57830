#include "discover/pod.h"

#include "discover/podspec.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#define PODS_MAX  8192        /* a node has 110 by default, 500 at the most */
#define OTHER_MAX (64u << 10) /* bytes of what a list has beside its pods */

struct container_row {
	const struct container *container;
	const struct pod *pod;
};

struct pods {
	atomic_uint refs;
	struct podspec_memory memory;
	struct pod *pods;
	size_t n, room;
	struct container_row *by_id; /* sorted, those with an id */
	size_t nby_id;
	uint64_t hash;
};

/* Where the parser stands. */
struct parser {
	struct pods *pods;
	const char *json, *at, *end;
	char *err;
	size_t errlen;
};

static void json_cleanup(json_t **j)
{
	json_decref(*j);
}

#define auto_json __attribute__((cleanup(json_cleanup)))

static int stop(struct parser *p, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int stop(struct parser *p, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(p->err, p->errlen, fmt, ap);
	va_end(ap);
	return err;
}

static int next_byte(struct parser *p)
{
	while (p->at < p->end && strchr(" \t\r\n", *p->at) && *p->at)
		p->at++;
	return p->at < p->end ? (unsigned char)*p->at : -1;
}

static int expect(struct parser *p, char c)
{
	int have = next_byte(p);

	if (have < 0)
		return stop(p, -ENODATA, "the JSON ends too early, after %zu bytes",
			    (size_t)(p->end - p->json));
	if (have != c)
		return stop(p, -EBADMSG, "JSON, byte %zu: '%c' expected", (size_t)(p->at - p->json),
			    c);
	p->at++;
	return 0;
}

/* One JSON value, wherever it is. Trees are made of one pod at a time: a whole list takes ten times
 * its text. NUL is allowed: anybody may write one into an annotation or an argument of a pod, and
 * it must not hide the other pods of the node. */
static int value_within(struct parser *p, size_t most, json_t **out)
{
	json_error_t error;
	size_t n;
	json_t *j;

	if (next_byte(p) < 0)
		return stop(p, -ENODATA, "the JSON ends too early, after %zu bytes",
			    (size_t)(p->end - p->json));
	n = (size_t)(p->end - p->at) < most ? (size_t)(p->end - p->at) : most;
	j = json_loadb(p->at, n, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &error);
	if (!j) {
		enum json_error_code code = json_error_code(&error);
		size_t at = (size_t)(p->at - p->json) +
			    (error.position > 0 ? (size_t)error.position : 0);

		if (code == json_error_out_of_memory)
			return -ENOMEM;
		if (n == most &&
		    (code == json_error_premature_end_of_input || (size_t)error.position >= n))
			return stop(p, -EBADMSG,
				    "JSON, byte %zu: too much that is no pod: this is no PodList",
				    (size_t)(p->at - p->json));
		/* A word or number that is cut short is an "invalid token" to the parser. */
		if (code == json_error_premature_end_of_input || at >= (size_t)(p->end - p->json))
			return stop(p, -ENODATA, "the JSON ends too early, after %zu bytes",
				    (size_t)(p->end - p->json));
		return stop(p, -EBADMSG, "JSON, byte %zu: %s", at, error.text);
	}
	p->at += error.position;
	*out = j;
	return 0;
}

static int value(struct parser *p, json_t **out)
{
	return value_within(p, SIZE_MAX, out);
}

static int add_pod(struct parser *p, const json_t *item)
{
	struct pods *pods = p->pods;

	if (pods->n == PODS_MAX)
		return stop(p, -E2BIG, "more than %d pods", PODS_MAX);
	if (pods->n == pods->room) {
		size_t room = pods->room ? 2 * pods->room : 64;
		struct pod *more = reallocarray(pods->pods, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		pods->pods = more;
		pods->room = room;
	}
	if (podspec_parse(&pods->memory, item, &pods->pods[pods->n]))
		pods->n++;
	return pods->memory.failed ? -ENOMEM : 0;
}

static int parse_items(struct parser *p)
{
	int err;

	if (next_byte(p) == 'n') { /* Go writes null for an empty slice */
		auto_json json_t *null = NULL;

		err = value(p, &null);
		return err || json_is_null(null) ? err : stop(p, -EBADMSG, "items is no list");
	}
	err = expect(p, '[');
	if (err || next_byte(p) == ']') {
		p->at++;
		return err;
	}
	for (;;) {
		auto_json json_t *item = NULL;

		err = value(p, &item);
		if (!err)
			err = add_pod(p, item);
		if (err)
			return err;
		if (next_byte(p) != ',')
			return expect(p, ']');
		p->at++;
	}
}

static int parse_member(struct parser *p, bool *items)
{
	auto_json json_t *key = NULL, *other = NULL;
	int err = next_byte(p) == '"' ? value_within(p, OTHER_MAX, &key) : expect(p, '"');

	if (!err)
		err = expect(p, ':');
	if (err)
		return err;
	if (strcmp(json_string_value(key), "items") == 0 && !*items) {
		*items = true;
		return parse_items(p);
	}
	err = value_within(p, OTHER_MAX, &other);
	if (!err && strcmp(json_string_value(key), "kind") == 0 &&
	    (!json_is_string(other) || strcmp(json_string_value(other), "PodList") != 0))
		return stop(p, -EBADMSG, "this is no PodList");
	return err;
}

static int parse_list(struct parser *p)
{
	bool items = false;
	int err = expect(p, '{');

	if (!err && next_byte(p) == '}')
		return stop(p, -EBADMSG, "there are no items: this is no PodList");
	while (!err) {
		err = parse_member(p, &items);
		if (err)
			return err;
		if (next_byte(p) == '}')
			break;
		err = expect(p, ',');
	}
	if (!err && !items)
		return stop(p, -EBADMSG, "there are no items: this is no PodList");
	return err;
}

/* The kubelet may list a static pod twice: as its manifest says (uid = hash) and as the API server
 * mirrors it. The mirror stays; it takes over the containers of the other where it does not know
 * their ids yet. */
static void merge_mirrors(struct pods *pods)
{
	for (size_t i = 0; i < pods->n; i++) {
		struct pod *mirror = &pods->pods[i];

		if (!mirror->mirror)
			continue;
		for (size_t j = 0; j < pods->n; j++) {
			struct pod *own = &pods->pods[j];
			size_t ids = 0, own_ids = 0;

			if (j == i || own->mirror || strcmp(own->uid, mirror->cgroup_uid) != 0 ||
			    strcmp(own->name, mirror->name) != 0 ||
			    strcmp(own->namespace_, mirror->namespace_) != 0)
				continue;
			for (size_t c = 0; c < mirror->ncontainers; c++)
				ids += *mirror->containers[c].id != '\0';
			for (size_t c = 0; c < own->ncontainers; c++)
				own_ids += *own->containers[c].id != '\0';
			if (own_ids > ids) {
				mirror->containers = own->containers;
				mirror->ncontainers = own->ncontainers;
			}
			memmove(own, own + 1, (pods->n - j - 1) * sizeof(*own));
			pods->n--;
			i -= j < i;
			break;
		}
	}
}

static int compare_rows(const void *a, const void *b)
{
	return strcmp(((const struct container_row *)a)->container->id,
		      ((const struct container_row *)b)->container->id);
}

static int index_containers(struct pods *pods)
{
	size_t n = 0;

	for (size_t i = 0; i < pods->n; i++)
		n += pods->pods[i].ncontainers;
	if (n == 0)
		return 0;
	pods->by_id = podspec_get(&pods->memory, n * sizeof(*pods->by_id));
	if (!pods->by_id)
		return -ENOMEM;
	for (size_t i = 0; i < pods->n; i++) {
		const struct pod *pod = &pods->pods[i];

		for (size_t c = 0; c < pod->ncontainers; c++)
			if (*pod->containers[c].id)
				pods->by_id[pods->nby_id++] =
					(struct container_row){ &pod->containers[c], pod };
	}
	qsort(pods->by_id, pods->nby_id, sizeof(*pods->by_id), compare_rows);
	return 0;
}

/* FNV-1a over strings, each with its NUL. */
static uint64_t hash_text(uint64_t h, const char *text)
{
	do {
		h = (h ^ (unsigned char)*text) * 0x100000001b3ULL;
	} while (*text++);
	return h;
}

uint64_t pod_names(const struct pod *pod)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t k = 0; k < pod->nlabels; k++)
		h = hash_text(hash_text(h, pod->labels[k].key), pod->labels[k].value);
	for (size_t k = 0; k < pod->nannotations; k++)
		h = hash_text(hash_text(h, pod->annotations[k].key), pod->annotations[k].value);
	return h;
}

static uint64_t hash_pod(const struct pod *pod)
{
	uint64_t h = hash_text(pod_names(pod), pod->uid);

	h = hash_text(hash_text(h, pod->phase), pod->host_ip);
	for (size_t i = 0; i < pod->nips; i++)
		h = hash_text(h, pod->ips[i]);
	for (size_t c = 0; c < pod->ncontainers; c++)
		h = hash_text(hash_text(h, pod->containers[c].id),
			      pod->containers[c].running ? "1" : "0");
	return h;
}

/* A sum, for the kubelet lists its pods in no order. */
static uint64_t hash_pods(const struct pods *pods)
{
	uint64_t sum = pods->n;

	for (size_t i = 0; i < pods->n; i++)
		sum += hash_pod(&pods->pods[i]);
	return sum;
}

int pods_parse(struct pods **out, const char *json, size_t len, char *err, size_t errlen)
{
	auto_pods struct pods *pods = calloc(1, sizeof(*pods));
	struct parser p = { pods, json, json, json + len, err, errlen };
	int failed;

	if (errlen)
		err[0] = '\0';
	if (!pods)
		return -ENOMEM;
	atomic_init(&pods->refs, 1);
	failed = parse_list(&p);
	if (failed)
		return failed;
	merge_mirrors(pods);
	failed = index_containers(pods);
	if (failed)
		return failed;
	pods->hash = hash_pods(pods);
	*out = take(pods);
	return 0;
}

struct pods *pods_ref(struct pods *p)
{
	if (p)
		atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return p;
}

void pods_free(struct pods **p)
{
	struct pods *pods = take(*p);

	if (!pods || atomic_fetch_sub_explicit(&pods->refs, 1, memory_order_acq_rel) != 1)
		return;
	podspec_clear(&pods->memory);
	free(pods->pods);
	free(pods);
}

size_t pods_count(const struct pods *p)
{
	return p ? p->n : 0;
}

const struct pod *pods_at(const struct pods *p, size_t i)
{
	return p && i < p->n ? &p->pods[i] : NULL;
}

uint64_t pods_hash(const struct pods *p)
{
	return p ? p->hash : 0;
}

const struct container *pods_find(const struct pods *p, const char *container_id,
				  const struct pod **pod)
{
	const struct container key = { .id = container_id };
	const struct container_row wanted = { &key, NULL }, *row = NULL;

	if (p && p->nby_id && *container_id)
		row = bsearch(&wanted, p->by_id, p->nby_id, sizeof(*row), compare_rows);
	if (!row)
		return NULL;
	*pod = row->pod;
	return row->container;
}

const struct pod *pods_find_cgroup(const struct pods *p, const char *cgroup_uid)
{
	for (size_t i = 0; p && *cgroup_uid && i < p->n; i++)
		if (strcmp(p->pods[i].cgroup_uid, cgroup_uid) == 0)
			return &p->pods[i];
	return NULL;
}

static const char *kv_find(const struct pod_kv *kv, size_t n, const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(kv[i].key, key) == 0)
			return kv[i].value;
	return NULL;
}

const char *pod_label(const struct pod *p, const char *key)
{
	return kv_find(p->labels, p->nlabels, key);
}

const char *pod_annotation(const struct pod *p, const char *key)
{
	return kv_find(p->annotations, p->nannotations, key);
}
