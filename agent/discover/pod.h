/* pod.h - the kubelet's pod list as the agent needs it: an immutable snapshot, one allocation arena.
 * Parsing is border-checked and pure; CONTROL thread owns snapshots. */
#pragma once
#include "base/base.h"

struct pod_kv {
	const char *key, *value;
};

struct container {
	const char *name;
	const char *id;       /* 64 hex digits without scheme, "" while the kubelet does not know it */
	const char *image;    /* status.image, else spec.image */
	const char *image_id; /* status.imageID */
	int restart_count;
	bool running, init, ephemeral; /* a sidecar is init with restartPolicy Always */
	const struct str *probe_paths; /* httpGet paths of its liveness, readiness, startup probes */
	size_t nprobe_paths;
};

struct pod {
	const char *uid, *name, *namespace_, *node, *phase, *ip, *start_time;
	bool host_network, host_pid, share_pid, mirror;
	const struct pod_kv *labels, *annotations;
	size_t nlabels, nannotations;
	const char *owner_kind, *owner_name, *owner_uid; /* the controller, "" without */
	const struct container *containers; /* all kinds */
	size_t ncontainers;
};

struct pods;

/* Parses a v1.PodList. 0; -EBADMSG: no JSON or no PodList, err (of errlen bytes) says where; -ENOMEM. */
int pods_parse(struct pods **out, const char *json, size_t len, char *err, size_t errlen) must_check;
void pods_free(struct pods **p);
size_t pods_count(const struct pods *p);
const struct pod *pods_at(const struct pods *p, size_t i);
/* The container with that id (64 hex digits), or NULL; *pod its pod. */
const struct container *pods_find(const struct pods *p, const char *container_id, const struct pod **pod);
/* Value of a label or annotation, or NULL. */
const char *pod_label(const struct pod *p, const char *key);
const char *pod_annotation(const struct pod *p, const char *key);
