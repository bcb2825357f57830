/* workload.h - what a pod runs for and which image it runs: owners (Deployment, CronJob, ...) told
 * from names, image references taken apart. Pure; any thread. */
#pragma once
#include "base/base.h"

struct pod;

/* The k8s.* attributes of the owner and of its owner. */
struct workload {
	struct {
		const char *key, *value;
	} attrs[4];
	size_t n;
	const char *service; /* the outermost owner that may name the service, or "" */
	char parent[256];    /* of a ReplicaSet or Job */
};

/* Reads the controller of pod. Values point into pod and *out: *out must not be moved. */
void workload_of(struct workload *out, const struct pod *pod);

/* Parts of an image reference; absent where unknown. They point into what image_of() was given. */
struct image {
	struct str name;        /* "registry:5000/team/app" */
	struct str tag;         /* "1.2" */
	struct str digest;      /* "sha256:..." of the manifest */
	struct str repo_digest; /* "registry:5000/team/app@sha256:..." */
};

/* image: as in the pod's status or spec, image_id: status.imageID. */
void image_of(struct image *out, const char *image, const char *image_id);
