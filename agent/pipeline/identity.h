/* identity.h - who a traced process is: pod, container, process and binary become the attributes of
 * its resource, by the OpenTelemetry semantic conventions 1.44 (resource conventions; "Specify
 * resource attributes using Kubernetes annotations"). Pure but for the clock and the host's name;
 * any thread. */
#pragma once
#include "base/base.h"

struct config;
struct container;
struct pod;
struct process;
struct resource;

/* What is known of one process. Nothing is kept. */
struct identity {
	const struct config *cfg;
	const struct process *proc;
	const struct pod *pod;             /* NULL: in none */
	const struct container *container; /* of pod; NULL with it */
	const char *go_version;            /* "go1.22.3" as the binary says; NULL: unknown */
	const char *service_name; /* OTEL_SERVICE_NAME in the environment of the process, or NULL */
	const char *attributes;   /* OTEL_RESOURCE_ATTRIBUTES there, or NULL */
};

/* Where two sources know an attribute, the first of these wins: annotation
 * resource.opentelemetry.io/<attribute>, environment of the process, what pod and process say,
 * `resource.attributes` of the agent, guesses (name of the executable, of the host). 0 or -ENOMEM.
 */
int identity_resource(struct resource **out, const struct identity *id) must_check;
