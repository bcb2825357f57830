/* resource.h - the OTLP Resource of one traced process, encoded once and shared by reference. Any
 * thread. */
#pragma once
#include "base/base.h"
#include <stdatomic.h>

/* Immutable after resource_new(); counted. */
struct resource {
	atomic_uint refs;
	/* For the stdout exporter and the status page. */
	const char *service, *service_namespace, *pod, *pod_namespace, *container;
	/* opentelemetry.proto.resource.v1.Resource, ready for the wire. */
	const uint8_t *bytes;
	size_t size;
	/* The same of the service instance alone, whatever process of it runs: what metrics are
	 * of. NULL: there is none. A reference. */
	struct resource *series;
};

/* One attribute of a resource; the value is a string or, with values, an array of strings, or an
 * integer. */
struct resource_attr {
	const char *key;
	const char *value;         /* NULL: see values, number */
	const char *const *values; /* NULL-terminated, or NULL */
	int64_t number;
};

/* Encodes; copies what it is given. One reference. 0 or -ENOMEM. */
int resource_new(struct resource **out, const struct resource_attr *attrs, size_t n) must_check;
struct resource *resource_ref(struct resource *r);
/* Drops the reference and clears the pointer. */
void resource_put(struct resource **r);
