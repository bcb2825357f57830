#include "discover/podspec.h"

#include "discover/pod.h"

#include <ctype.h>

/* Limits of one pod: containers of each kind; labels or annotations; longer values of these are
 * somebody's data (kubectl keeps whole manifests there). */
#define ID_LEN         64
#define CONTAINERS_MAX 256
#define KV_MAX         256
#define VALUE_MAX      4096
#define PORTS_MAX      64
#define IPS_MAX        4
#define CHUNK_SIZE     ((size_t)64 * 1024)

/* Memory of a snapshot: chunks that are only freed together. */
struct podspec_chunk {
	struct podspec_chunk *next;
	size_t size, used;
	char data[] __attribute__((aligned(8)));
};

void *podspec_get(struct podspec_memory *m, size_t n)
{
	struct podspec_chunk *c = m->chunks;
	void *mem;

	n = (n + 7) & ~(size_t)7;
	if (!c || c->size - c->used < n) {
		size_t size = n > CHUNK_SIZE ? n : CHUNK_SIZE;

		c = malloc(sizeof(*c) + size);
		if (!c) {
			m->failed = true;
			return NULL;
		}
		c->size = size;
		c->used = 0;
		c->next = m->chunks;
		m->chunks = c;
	}
	mem = c->data + c->used;
	c->used += n;
	return memset(mem, 0, n);
}

void podspec_clear(struct podspec_memory *m)
{
	while (m->chunks) {
		struct podspec_chunk *next = m->chunks->next;

		free(m->chunks);
		m->chunks = next;
	}
}

static const char *keep(struct podspec_memory *m, const char *text, size_t n)
{
	char *mem = podspec_get(m, n + 1);

	return mem ? memcpy(mem, text, n) : "";
}

/* A string without NUL; NULL: of another type, or not to be told apart from a shorter one. */
static const char *text_of(const json_t *j)
{
	const char *text = json_string_value(j);

	return text && strlen(text) == json_string_length(j) ? text : NULL;
}

/* The string at that key of j, "" when it is missing or is none. */
static const char *text_at(const json_t *j, const char *key)
{
	const char *text = text_of(json_object_get(j, key));

	return text ? text : "";
}

static const char *keep_at(struct podspec_memory *m, const json_t *j, const char *key)
{
	const char *text = text_at(j, key);

	return *text ? keep(m, text, strlen(text)) : "";
}

static bool true_at(const json_t *j, const char *key)
{
	return json_is_true(json_object_get(j, key));
}

static const struct pod_kv *parse_kv(struct podspec_memory *m, json_t *object, size_t *n)
{
	size_t size = json_object_size(object), have = 0;
	struct pod_kv *kv =
		size ? podspec_get(m, (size < KV_MAX ? size : KV_MAX) * sizeof(*kv)) : NULL;
	const char *key;
	json_t *value;

	*n = 0;
	if (!kv)
		return NULL;
	json_object_foreach(object, key, value)
	{
		if (have == KV_MAX)
			break;
		if (!text_of(value) || json_string_length(value) > VALUE_MAX)
			continue;
		kv[have].key = keep(m, key, strlen(key));
		kv[have++].value = keep(m, json_string_value(value), json_string_length(value));
	}
	*n = have;
	return kv;
}

/* "containerd://ID" -> ID when it is 64 hex digits; else "". */
static const char *parse_id(struct podspec_memory *m, const char *id)
{
	const char *scheme = strstr(id, "://");

	if (scheme)
		id = scheme + 3;
	if (strlen(id) != ID_LEN)
		return "";
	for (int i = 0; i < ID_LEN; i++)
		if (!isdigit((unsigned char)id[i]) && !(id[i] >= 'a' && id[i] <= 'f'))
			return "";
	return keep(m, id, ID_LEN);
}

static void parse_probes(struct podspec_memory *m, const json_t *spec, struct container *c)
{
	static const char *const probes[] = { "livenessProbe", "readinessProbe", "startupProbe" };
	struct str *paths = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		const json_t *get = json_object_get(json_object_get(spec, probes[i]), "httpGet");
		const char *path = text_at(get, "path");
		size_t n = strcspn(path, "?#");

		if (!get)
			continue;
		if (!paths)
			paths = podspec_get(m, ARRAY_SIZE(probes) * sizeof(*paths));
		if (!paths)
			return;
		/* The kubelet asks for "/" where no path is given, and puts the slash before one
		 * that has none. */
		if (n > 0 && path[0] == '/') {
			paths[c->nprobe_paths++] = (struct str){ keep(m, path, n), n };
		} else {
			char *slashed = podspec_get(m, n + 2);

			if (!slashed)
				return;
			slashed[0] = '/';
			memcpy(slashed + 1, path, n);
			paths[c->nprobe_paths++] = (struct str){ slashed, n + 1 };
		}
	}
	c->probe_paths = paths;
}

static uint16_t port_at(const json_t *port, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(port, key));

	return n > 0 && n <= UINT16_MAX ? (uint16_t)n : 0;
}

static void parse_ports(struct podspec_memory *m, const json_t *spec, struct container *c)
{
	json_t *list = json_object_get(spec, "ports"), *port;
	size_t n = json_array_size(list), i;
	struct pod_port *ports = NULL;

	if (n > PORTS_MAX)
		n = PORTS_MAX;
	if (n)
		ports = podspec_get(m, n * sizeof(*ports));
	if (!ports)
		return;
	json_array_foreach(list, i, port)
	{
		const char *protocol = text_at(port, "protocol"), *ip = text_at(port, "hostIP");
		bool anywhere = !*ip || strcmp(ip, "0.0.0.0") == 0 || strcmp(ip, "::") == 0;

		if (c->nports == n || !port_at(port, "containerPort") ||
		    (*protocol && strcmp(protocol, "TCP") != 0))
			continue;
		ports[c->nports].container = port_at(port, "containerPort");
		ports[c->nports++].host = anywhere ? port_at(port, "hostPort") : 0;
	}
	c->ports = ports;
}

/* What names its service. "$(...)" is another variable's value. */
static void parse_env(struct podspec_memory *m, const json_t *spec, struct container *c)
{
	json_t *list = json_object_get(spec, "env"), *one;
	size_t i;

	c->other_env = json_array_size(json_object_get(spec, "envFrom")) > 0;
	json_array_foreach(list, i, one)
	{
		const char *name = text_at(one, "name"), *value = text_at(one, "value");
		const char **to = strcmp(name, "OTEL_SERVICE_NAME") == 0          ? &c->service_name
				  : strcmp(name, "OTEL_RESOURCE_ATTRIBUTES") == 0 ? &c->attributes
										  : NULL;

		if (!to)
			continue;
		if (json_object_get(one, "valueFrom") || strstr(value, "$("))
			c->other_env = true;
		else
			*to = keep_at(m, one, "value");
	}
}

/* The element of a status list that has that name. */
static const json_t *status_of(json_t *list, const char *name)
{
	size_t i;
	json_t *status;

	json_array_foreach(list, i, status)
	{
		if (strcmp(text_at(status, "name"), name) == 0)
			return status;
	}
	return NULL;
}

static void parse_container(struct podspec_memory *m, const json_t *spec, json_t *statuses,
			    struct container *c)
{
	const json_t *status;

	c->name = keep_at(m, spec, "name");
	status = status_of(statuses, c->name);
	c->id = parse_id(m, text_at(status, "containerID"));
	c->image = keep_at(m, *text_at(status, "image") ? status : spec, "image");
	c->image_id = keep_at(m, status, "imageID");
	c->restart_count = (int)json_integer_value(json_object_get(status, "restartCount"));
	c->running = json_is_object(json_object_get(json_object_get(status, "state"), "running"));
	parse_probes(m, spec, c);
	parse_ports(m, spec, c);
	parse_env(m, spec, c);
}

static void parse_containers(struct podspec_memory *m, const json_t *spec, const json_t *status,
			     struct pod *pod)
{
	static const struct {
		const char *spec, *status;
	} kinds[] = {
		{ "containers", "containerStatuses" },
		{ "initContainers", "initContainerStatuses" },
		{ "ephemeralContainers", "ephemeralContainerStatuses" },
	};
	struct container *containers;
	size_t n = 0;

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		size_t size = json_array_size(json_object_get(spec, kinds[k].spec));

		n += size < CONTAINERS_MAX ? size : CONTAINERS_MAX;
	}
	containers = n ? podspec_get(m, n * sizeof(*containers)) : NULL;
	if (!containers)
		return;
	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		json_t *list = json_object_get(spec, kinds[k].spec), *one;
		size_t i;

		json_array_foreach(list, i, one)
		{
			if (i == CONTAINERS_MAX)
				break;
			if (!json_is_object(one) || !*text_at(one, "name"))
				continue;
			parse_container(m, one, json_object_get(status, kinds[k].status),
					&containers[pod->ncontainers]);
			pod->ncontainers++;
		}
	}
	pod->containers = containers;
}

static void parse_owner(struct podspec_memory *m, json_t *owners, struct pod *pod)
{
	size_t i;
	json_t *owner;

	pod->owner_kind = pod->owner_name = pod->owner_uid = "";
	json_array_foreach(owners, i, owner)
	{
		if (!true_at(owner, "controller"))
			continue;
		pod->owner_kind = keep_at(m, owner, "kind");
		pod->owner_name = keep_at(m, owner, "name");
		pod->owner_uid = keep_at(m, owner, "uid");
		return;
	}
}

static void parse_addresses(struct podspec_memory *m, const json_t *status, struct pod *pod)
{
	json_t *list = json_object_get(status, "podIPs");
	size_t n = json_array_size(list);
	const char **ips;

	pod->host_ip = keep_at(m, status, "hostIP");
	pod->ip = keep_at(m, status, "podIP");
	ips = podspec_get(m, (IPS_MAX + 1) * sizeof(*ips));
	if (!ips)
		return;
	if (*pod->ip)
		ips[pod->nips++] = pod->ip;
	for (size_t i = 0; i < n && pod->nips < IPS_MAX; i++) {
		const char *ip = keep_at(m, json_array_get(list, i), "ip");

		if (*ip && strcmp(ip, pod->ip) != 0)
			ips[pod->nips++] = ip;
	}
	pod->ips = ips;
}

bool podspec_parse(struct podspec_memory *m, const json_t *item, struct pod *pod)
{
	const json_t *meta = json_object_get(item, "metadata"),
		     *spec = json_object_get(item, "spec");
	const json_t *status = json_object_get(item, "status");
	const char *hash;

	*pod = (struct pod){ 0 };
	if (!*text_at(meta, "uid") || !*text_at(meta, "name") || !*text_at(meta, "namespace"))
		return false;
	pod->uid = keep_at(m, meta, "uid");
	pod->name = keep_at(m, meta, "name");
	pod->namespace_ = keep_at(m, meta, "namespace");
	pod->node = keep_at(m, spec, "nodeName");
	pod->runtime_class = keep_at(m, spec, "runtimeClassName");
	pod->phase = keep_at(m, status, "phase");
	pod->host_network = true_at(spec, "hostNetwork");
	parse_addresses(m, status, pod);
	pod->start_time = keep_at(m, status, "startTime");
	pod->labels = parse_kv(m, json_object_get(meta, "labels"), &pod->nlabels);
	pod->annotations = parse_kv(m, json_object_get(meta, "annotations"), &pod->nannotations);
	parse_owner(m, json_object_get(meta, "ownerReferences"), pod);
	parse_containers(m, spec, status, pod);
	hash = pod_annotation(pod, "kubernetes.io/config.mirror");
	pod->mirror = hash && *hash;
	pod->cgroup_uid = pod->mirror ? hash : pod->uid;
	return true;
}
