/* pod.h - the kubelet's pod list as the agent needs it: an immutable snapshot that lives in memory
 * of its own and is counted. Parsing is border-checked and pure. CONTROL parses; jobs of the worker
 * hold a reference. */
#pragma once
#include "base/base.h"

struct pod_kv {
	const char *key, *value;
};

/* A TCP port that a container says it has. */
struct pod_port {
	uint16_t container, host; /* host 0: none */
};

struct container {
	const char *name;
	const char *id;    /* 64 hex digits without scheme, "" while the kubelet does not know it */
	const char *image; /* status.image, else spec.image */
	const char *image_id; /* status.imageID */
	int restart_count;
	bool running;
	const struct str *probe_paths; /* httpGet paths of its liveness, readiness, startup probes,
					  without the query */
	size_t nprobe_paths;
	const struct pod_port *ports;
	size_t nports;
	/* OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES as the spec sets them, or NULL. */
	const char *service_name, *attributes;
	bool other_env; /* they may come from elsewhere: a ConfigMap, a field of the pod */
};

struct pod {
	const char *uid, *name, *namespace_, *node, *phase, *ip, *start_time;
	const char *cgroup_uid;    /* what its cgroup is named by: the uid, but of a static pod the
				      hash of its manifest */
	const char *runtime_class; /* spec.runtimeClassName, "" without */
	bool mirror;
	bool host_network;      /* its addresses are its node's */
	const char *const *ips; /* all of status.podIPs, or podIP */
	size_t nips;
	const char *host_ip;
	const struct pod_kv *labels, *annotations;
	size_t nlabels, nannotations;
	const char *owner_kind, *owner_name, *owner_uid; /* the controller, "" without */
	const struct container
		*containers; /* all kinds, in order of the spec: containers, init, ephemeral */
	size_t ncontainers;
};

struct pods;

/* Parses a v1.PodList, one pod at a time. What is of the wrong type is taken as absent, what is
 * unknown is ignored, a pod without uid, name or namespace is left out; of a static pod and its
 * mirror one remains, with the mirror's uid. 0; -ENODATA: the text ends too early; -EBADMSG: no
 * JSON or no PodList; -E2BIG: more pods than any node has; err (of errlen bytes) says where;
 * -ENOMEM. */
int pods_parse(struct pods **out, const char *json, size_t len, char *err,
	       size_t errlen) must_check;
/* Another reference; any thread. */
struct pods *pods_ref(struct pods *p);
/* Drops a reference and clears the pointer; any thread. */
void pods_free(struct pods **p);
#define auto_pods __attribute__((cleanup(pods_free)))
size_t pods_count(const struct pods *p);
const struct pod *pods_at(const struct pods *p, size_t i);
/* Equal for two snapshots that say the same of what the agent looks at. */
uint64_t pods_hash(const struct pods *p);
/* The container with that id (64 hex digits), or NULL; *pod its pod. */
const struct container *pods_find(const struct pods *p, const char *container_id,
				  const struct pod **pod);
/* The pod whose cgroup has that uid, or NULL. */
const struct pod *pods_find_cgroup(const struct pods *p, const char *cgroup_uid);
/* Value of a label or annotation, or NULL. */
const char *pod_label(const struct pod *p, const char *key);
/* Changes with the labels and annotations, which say what is told of the pod. */
uint64_t pod_names(const struct pod *p);
const char *pod_annotation(const struct pod *p, const char *key);
