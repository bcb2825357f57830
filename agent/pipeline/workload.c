#include "pipeline/workload.h"

#include "discover/pod.h"

#include <stdio.h>

/* The minute (since Kubernetes 1.21) or second of its schedule that the CronJob controller appends
 * to a Job's name, since 2014. The lower bound keeps dates apart: 20261130, read as a minute, lies
 * in 2008. */
#define MINUTES_MIN 23200000ull
#define MINUTES_MAX 99999999ull
#define SECONDS_MIN 1400000000ull
#define SECONDS_MAX 9999999999ull

/* Deployment of a ReplicaSet: its name without "-" and the pod's pod-template-hash. Length of it,
 * 0: it has none. */
static size_t deployment_of(const struct pod *pod)
{
	const char *hash = pod_label(pod, "pod-template-hash");
	size_t n = strlen(pod->owner_name), tail = hash ? strlen(hash) : 0;

	if (tail == 0 || n < tail + 2 || pod->owner_name[n - tail - 1] != '-' ||
	    strcmp(pod->owner_name + n - tail, hash) != 0)
		return 0;
	return n - tail - 1;
}

/* CronJob of a Job: its name without "-" and the time of its schedule. */
static size_t cronjob_of(const struct pod *pod)
{
	const char *dash = strrchr(pod->owner_name, '-');
	unsigned long long number;
	size_t digits;

	if (!dash || dash == pod->owner_name)
		return 0;
	digits = strspn(dash + 1, "0123456789");
	if (dash[1 + digits] != '\0' || (digits != 8 && digits != 10))
		return 0;
	number = strtoull(dash + 1, NULL, 10);
	if ((number < MINUTES_MIN || number > MINUTES_MAX) &&
	    (number < SECONDS_MIN || number > SECONDS_MAX))
		return 0;
	return (size_t)(dash - pod->owner_name);
}

/* Kinds of controllers, and what their name tells of the one above. */
static const struct owner {
	const char *kind, *name_key, *uid_key;
	bool names_service; /* "Service name" in the conventions for Kubernetes leaves some out */
	const char *parent_key;
	size_t (*parent)(const struct pod *pod);
} owners[] = {
	{ "ReplicaSet", "k8s.replicaset.name", "k8s.replicaset.uid", true, "k8s.deployment.name",
	  deployment_of },
	{ "StatefulSet", "k8s.statefulset.name", "k8s.statefulset.uid", true, NULL, NULL },
	{ "DaemonSet", "k8s.daemonset.name", "k8s.daemonset.uid", true, NULL, NULL },
	{ "Job", "k8s.job.name", "k8s.job.uid", true, "k8s.cronjob.name", cronjob_of },
	{ "ReplicationController", "k8s.replicationcontroller.name",
	  "k8s.replicationcontroller.uid", false, NULL, NULL },
};

static void add(struct workload *w, const char *key, const char *value)
{
	w->attrs[w->n].key = key;
	w->attrs[w->n++].value = value;
}

void workload_of(struct workload *out, const struct pod *pod)
{
	out->n = 0;
	out->service = "";
	for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
		const struct owner *o = &owners[i];
		size_t n;

		if (strcmp(pod->owner_kind, o->kind) != 0 || !*pod->owner_name)
			continue;
		n = o->parent ? o->parent(pod) : 0;
		if (n && n < sizeof(out->parent)) {
			(void)snprintf(out->parent, sizeof(out->parent), "%.*s", (int)n,
				       pod->owner_name);
			add(out, o->parent_key, out->parent);
		}
		add(out, o->name_key, pod->owner_name);
		if (*pod->owner_uid)
			add(out, o->uid_key, pod->owner_uid);
		if (o->names_service)
			out->service = out->attrs[0].value;
	}
}

static bool is_digest(const char *p)
{
	return strncmp(p, "sha256:", 7) == 0 || strncmp(p, "sha512:", 7) == 0;
}

/* "docker-pullable://app@sha256:..." and "docker://sha256:..." of old runtimes, without the scheme.
 */
static const char *without_scheme(const char *id)
{
	const char *p = strstr(id, "://");

	return p ? p + 3 : id;
}

void image_of(struct image *out, const char *image, const char *image_id)
{
	const char *at, *slash, *colon, *end;

	*out = (struct image){ 0 };
	image_id = without_scheme(image_id);
	at = strchr(image_id, '@');
	if (at && at != image_id && is_digest(at + 1)) {
		out->repo_digest = str_of(image_id);
		out->digest = str_of(at + 1);
	}
	/* A runtime that has lost the reference says the image's id. */
	if (!*image || is_digest(image))
		return;
	at = strchr(image, '@');
	end = at ? at : image + strlen(image);
	if (at && is_digest(at + 1))
		out->digest = str_of(at + 1);
	slash = memrchr(image, '/', (size_t)(end - image));
	colon = memrchr(slash ? slash : image, ':', (size_t)(end - (slash ? slash : image)));
	out->name = (struct str){ image, (size_t)((colon ? colon : end) - image) };
	if (colon && colon + 1 < end)
		out->tag = (struct str){ colon + 1, (size_t)(end - colon - 1) };
}
