#include "pipeline/identity.h"

#include "base/arena.h"
#include "base/config.h"
#include "base/utf8.h"
#include "discover/pod.h"
#include "discover/proc.h"
#include "pipeline/resource.h"
#include "pipeline/workload.h"
#include "version.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#define ANNOTATION      "resource.opentelemetry.io/"
/* More than anybody needs; what a pod or process says beyond is left out, so that there is room for
 * what others know. */
#define ANNOTATIONS_MAX 64
#define ENVIRONMENT_MAX (ANNOTATIONS_MAX + 64)
#define ATTRS_MAX       (ENVIRONMENT_MAX + 192)
#define VALUE_MAX       4096
#define TEXT_SIZE       16384

/* A resource that is being made. Values of the pod and the process are not copied. */
struct making {
	const struct identity *id;
	struct workload workload;
	struct image image;
	struct arena text; /* of values that are put together */
	struct resource_attr attrs[ATTRS_MAX];
	size_t nattrs, most; /* of them, for now */
};

/* Formats into the arena; NULL when that is full. */
__attribute__((format(printf, 2, 3))) static const char *text(struct making *m, const char *fmt,
							      ...)
{
	va_list ap;
	char *out;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	out = n < 0 ? NULL : arena_get(&m->text, (size_t)n + 1);
	if (!out)
		return NULL;
	va_start(ap, fmt);
	(void)vsnprintf(out, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return out;
}

/* The first source that knows an attribute wins: what is there already stays. */
static void add(struct making *m, struct resource_attr attr)
{
	if (m->nattrs == m->most || !*attr.key)
		return;
	for (size_t i = 0; i < m->nattrs; i++)
		if (strcmp(m->attrs[i].key, attr.key) == 0)
			return;
	m->attrs[m->nattrs++] = attr;
}

/* The same text, or a repaired copy; NULL when there is no room for it. */
static const char *valid(struct making *m, const char *s)
{
	size_t n = strlen(s);
	char *copy;

	if (utf8_valid(s, n) == n)
		return s;
	copy = arena_copy(&m->text, s, n + 1);
	if (copy)
		utf8_repair(copy, n);
	return copy;
}

static void add_string(struct making *m, const char *key, const char *value)
{
	if (!key || !value || !*value || strlen(value) > VALUE_MAX)
		return;
	key = valid(m, key);
	value = valid(m, value);
	if (key && value)
		add(m, (struct resource_attr){ .key = key, .value = value });
}

/* Undoes %XX in place; false when one is broken. */
static bool decode_percent(char *s)
{
	char *to = s;

	for (; *s; s++) {
		char byte, hex[3] = { 0 };

		if (*s != '%') {
			*to++ = *s;
			continue;
		}
		if (!isxdigit((unsigned char)s[1]) || !isxdigit((unsigned char)s[2]))
			return false;
		memcpy(hex, s + 1, 2);
		byte = (char)strtoul(hex, NULL, 16);
		if (!byte)
			return false;
		*to++ = byte;
		s += 2;
	}
	*to = '\0';
	return true;
}

static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t");
	n = strlen(s);
	while (n && strchr(" \t", s[n - 1]))
		n--;
	s[n] = '\0';
	return s;
}

/* OTEL_RESOURCE_ATTRIBUTES: "k=v,k=v", percent-encoded. Anything wrong in it discards all of it
 * (OpenTelemetry, "Resource SDK"). */
static void add_environment(struct making *m)
{
	const char *from = m->id->attributes;
	char *copy, *next;
	size_t before;

	add_string(m, "service.name", m->id->service_name);
	if (!from || !*from || !(copy = arena_copy(&m->text, from, strlen(from) + 1)))
		return;
	before = m->nattrs;
	for (char *pair = copy; pair; pair = next) {
		char *value;

		next = strchr(pair, ',');
		if (next)
			*next++ = '\0';
		pair = trim(pair);
		if (!*pair)
			continue;
		value = strchr(pair, '=');
		if (!value || value == pair) {
			m->nattrs = before;
			return;
		}
		*value++ = '\0';
		pair = trim(pair);
		value = trim(value);
		if (!decode_percent(pair) || !decode_percent(value)) {
			m->nattrs = before;
			return;
		}
		add_string(m, pair, value);
	}
}

static void add_annotations(struct making *m)
{
	const struct pod *pod = m->id->pod;

	for (size_t i = 0; pod && i < pod->nannotations; i++)
		if (strncmp(pod->annotations[i].key, ANNOTATION, strlen(ANNOTATION)) == 0)
			add_string(m, pod->annotations[i].key + strlen(ANNOTATION),
				   pod->annotations[i].value);
}

/* Labels and annotations that the user listed: as they are, an empty one as well. */
static void add_listed(struct making *m, const char *prefix, const struct list *keys,
		       const char *(*get)(const struct pod *, const char *))
{
	for (size_t i = 0; m->id->pod && i < keys->n; i++) {
		const char *value = get(m->id->pod, keys->v[i]);
		const char *key = value ? text(m, "%s%s", prefix, keys->v[i]) : NULL;

		if (key && strlen(value) <= VALUE_MAX)
			add(m, (struct resource_attr){ .key = key, .value = value });
	}
}

static void add_configured(struct making *m)
{
	const struct list *list = &m->id->cfg->resource_attributes;

	for (size_t i = 0; i < list->n; i++) {
		const char *equals = strchr(list->v[i], '=');

		if (equals)
			add_string(m, text(m, "%.*s", (int)(equals - list->v[i]), list->v[i]),
				   equals + 1);
	}
}

/* --- what the rows below say --- */

static const char *well_known(const struct making *m, const char *label)
{
	return m->id->pod && m->id->cfg->resource_well_known ? pod_label(m->id->pod, label) : NULL;
}

/* The order of "Specify resource attributes using Kubernetes annotations", service.name. */
static const char *service_name(struct making *m)
{
	const char *name = well_known(m, "app.kubernetes.io/instance");

	if (!name || !*name)
		name = well_known(m, "app.kubernetes.io/name");
	if (!name || !*name)
		name = m->workload.service;
	if ((!name || !*name) && m->id->pod)
		name = m->id->pod->name;
	return name;
}

static const char *service_namespace(struct making *m)
{
	return m->id->pod ? m->id->pod->namespace_ : NULL;
}

static const char *service_version(struct making *m)
{
	const char *label = well_known(m, "app.kubernetes.io/version");
	const struct image *i = &m->image;

	if (label && *label)
		return label;
	if (i->tag.n && i->digest.n)
		return text(m, "%.*s@%.*s", (int)i->tag.n, i->tag.p, (int)i->digest.n, i->digest.p);
	if (i->digest.n)
		return text(m, "%.*s", (int)i->digest.n, i->digest.p);
	return i->tag.n ? text(m, "%.*s", (int)i->tag.n, i->tag.p) : NULL;
}

static const char *service_instance(struct making *m)
{
	const struct identity *id = m->id;

	return id->pod && id->container ? text(m, "%s.%s.%s", id->pod->namespace_, id->pod->name,
					       id->container->name)
					: NULL;
}

/* The kubelet (1.37) lists a static pod under the hash of its manifest, and not the mirror, whose
 * uid is the one that the API server and every other tool know: better none than that. */
static const char *pod_uid(struct making *m)
{
	const struct pod *pod = m->id->pod;
	const char *hash = pod ? pod_annotation(pod, "kubernetes.io/config.hash") : NULL;

	return pod && !(hash && strcmp(hash, pod->uid) == 0) ? pod->uid : NULL;
}

/* Without Kubernetes: this process on this machine, and the same one as long as it runs. */
static const char *process_instance(struct making *m)
{
	char host[256] = "";

	(void)gethostname(host, sizeof(host) - 1);
	return text(m, "%s.%d.%llu", host, m->id->proc->pid,
		    (unsigned long long)m->id->proc->start_time);
}

#define OF(name, member, expr)                                                                     \
	static const char *name(struct making *m)                                                  \
	{                                                                                          \
		return m->id->member ? (expr) : NULL;                                              \
	}
OF(pod_name, pod, m->id->pod->name)
OF(pod_namespace, pod, m->id->pod->namespace_)
OF(pod_node, pod, *m->id->pod->node ? m->id->pod->node : m->id->cfg->node_name)
OF(container_name, container, m->id->container->name)
OF(container_id, proc, m->id->proc->container_id)
OF(image_id, container, m->id->container->image_id)
OF(executable_path, proc, m->id->proc->exe)
OF(executable_name, proc, basename(m->id->proc->exe))
OF(go_version, go_version, m->id->go_version)
OF(language, proc, "go")
OF(runtime, proc, "go")
OF(agent_name, proc, "spoor")
OF(agent_version, proc, SPOOR_VERSION)
#undef OF

static const char *image_name(struct making *m)
{
	return m->image.name.n ? text(m, "%.*s", (int)m->image.name.n, m->image.name.p) : NULL;
}

static const char *host_name(struct making *m)
{
	char host[256] = "";

	if (*m->id->cfg->node_name)
		return m->id->cfg->node_name;
	if (m->id->pod && *m->id->pod->node)
		return m->id->pod->node;
	return gethostname(host, sizeof(host) - 1) == 0 ? text(m, "%s", host) : NULL;
}

/* RFC 3339, of the start in clock ticks since boot. */
static const char *creation_time(struct making *m)
{
	struct timespec real, boot;
	long hz = sysconf(_SC_CLK_TCK);
	int64_t ns;
	time_t seconds;
	struct tm tm;

	if (!m->id->proc->start_time || hz <= 0)
		return NULL;
	(void)clock_gettime(CLOCK_REALTIME, &real);
	(void)clock_gettime(CLOCK_BOOTTIME, &boot);
	ns = (int64_t)(real.tv_sec - boot.tv_sec) * 1000000000 + (real.tv_nsec - boot.tv_nsec) +
	     (int64_t)(m->id->proc->start_time * (1000000000u / (unsigned long)hz));
	seconds = (time_t)(ns / 1000000000);
	(void)gmtime_r(&seconds, &tm);
	return text(m, "%04d-%02d-%02dT%02d:%02d:%02d.%02dZ", tm.tm_year + 1900, tm.tm_mon + 1,
		    tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		    (int)(ns % 1000000000 / 10000000));
}

static bool restart_count(struct making *m, int64_t *out)
{
	*out = m->id->container ? m->id->container->restart_count : 0;
	return m->id->container;
}

static bool process_pid(struct making *m, int64_t *out)
{
	*out = m->id->proc->ns_pid ? m->id->proc->ns_pid : m->id->proc->pid;
	return true;
}

static const char *const *one_text(struct making *m, const char *value)
{
	const char **list = value ? arena_get(&m->text, 2 * sizeof(*list)) : NULL;

	if (!list)
		return NULL;
	list[0] = value;
	list[1] = NULL;
	return list;
}

static const char *const *image_tags(struct making *m)
{
	return m->image.tag.n ? one_text(m, text(m, "%.*s", (int)m->image.tag.n, m->image.tag.p))
			      : NULL;
}

static const char *const *image_digests(struct making *m)
{
	return m->image.repo_digest.n ? one_text(m, text(m, "%.*s", (int)m->image.repo_digest.n,
							 m->image.repo_digest.p))
				      : NULL;
}

/* One attribute: its key and the one function that knows its value. NULL, "" and false: unknown. */
struct row {
	const char *key;
	const char *(*string)(struct making *m);
	const char *const *(*strings)(struct making *m);
	bool (*number)(struct making *m, int64_t *out);
};

/* What pod, container, process and binary say. (The owners of a pod are rows of workload.c.) */
static const struct row known[] = {
	{ "service.name", .string = service_name },
	{ "service.namespace", .string = service_namespace },
	{ "service.instance.id", .string = service_instance },
	{ "service.version", .string = service_version },
	{ "k8s.namespace.name", .string = pod_namespace },
	{ "k8s.pod.name", .string = pod_name },
	{ "k8s.pod.uid", .string = pod_uid },
	{ "k8s.node.name", .string = pod_node },
	{ "k8s.container.name", .string = container_name },
	{ "k8s.container.restart_count", .number = restart_count },
	{ "container.id", .string = container_id },
	{ "container.image.name", .string = image_name },
	{ "container.image.tags", .strings = image_tags },
	{ "container.image.repo_digests", .strings = image_digests },
	{ "container.image.id", .string = image_id },
	{ "process.pid", .number = process_pid },
	{ "process.creation.time", .string = creation_time },
	{ "process.executable.name", .string = executable_name },
	{ "process.executable.path", .string = executable_path },
	{ "process.runtime.name", .string = runtime },
	{ "process.runtime.version", .string = go_version },
	{ "telemetry.sdk.language", .string = language },
	{ "telemetry.sdk.name", .string = agent_name },
	{ "telemetry.sdk.version", .string = agent_version },
	{ "telemetry.distro.name", .string = agent_name },
	{ "telemetry.distro.version", .string = agent_version },
};

/* What is taken where nobody knows better. */
static const struct row guessed[] = {
	{ "service.name", .string = executable_name },
	{ "service.instance.id", .string = process_instance },
	{ "host.name", .string = host_name },
};

static void add_rows(struct making *m, const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct resource_attr attr = { .key = rows[i].key };

		if (rows[i].string)
			add_string(m, rows[i].key, rows[i].string(m));
		if ((rows[i].strings && (attr.values = rows[i].strings(m))) ||
		    (rows[i].number && rows[i].number(m, &attr.number)))
			add(m, attr);
	}
}

static void add_workload(struct making *m)
{
	for (size_t i = 0; i < m->workload.n; i++)
		add_string(m, m->workload.attrs[i].key, m->workload.attrs[i].value);
}

static void making_free(struct making **m)
{
	if (*m)
		arena_clear(&(*m)->text);
	free(take(*m));
}

/* What differs from one process of a service instance to the next: series go on over a restart. */
static bool of_process(const char *key)
{
	return strncmp(key, "process.", strlen("process.")) == 0 ||
	       strcmp(key, "container.id") == 0 || strcmp(key, "k8s.container.restart_count") == 0;
}

static int make_both(struct resource **out, struct making *m)
{
	struct resource *whole = NULL, *series = NULL;
	size_t n = 0;
	int err = resource_new(&whole, m->attrs, m->nattrs);

	if (err)
		return err;
	for (size_t i = 0; i < m->nattrs; i++)
		if (!of_process(m->attrs[i].key))
			m->attrs[n++] = m->attrs[i];
	err = resource_new(&series, m->attrs, n);
	if (err) {
		resource_put(&whole);
		return err;
	}
	whole->series = series;
	*out = whole;
	return 0;
}

int identity_resource(struct resource **out, const struct identity *id)
{
	__attribute__((cleanup(making_free))) struct making *m = calloc(1, sizeof(*m));
	const struct config *cfg = id->cfg;

	if (!m ||
	    arena_init(&m->text, TEXT_SIZE + (id->attributes ? strlen(id->attributes) : 0)) < 0)
		return -ENOMEM;
	m->id = id;
	if (id->pod)
		workload_of(&m->workload, id->pod);
	if (id->container)
		image_of(&m->image, id->container->image, id->container->image_id);
	m->most = ANNOTATIONS_MAX;
	add_annotations(m);
	m->most = ENVIRONMENT_MAX;
	add_environment(m);
	m->most = ATTRS_MAX;
	add_rows(m, known, ARRAY_SIZE(known));
	add_workload(m);
	add_listed(m, "k8s.pod.label.", &cfg->resource_pod_labels, pod_label);
	add_listed(m, "k8s.pod.annotation.", &cfg->resource_pod_annotations, pod_annotation);
	add_configured(m);
	add_rows(m, guessed, ARRAY_SIZE(guessed));
	return make_both(out, m);
}
