/* status.h - CONTROL's part of the status page: every pod and process with one state and one
 * reason. Any thread that holds discover's lock. */
#pragma once
#include "base/base.h"
#include <jansson.h>

struct config;
struct kubelet;
struct pods;
struct roster;
struct targets;

struct status {
	const struct config *cfg;
	struct roster *roster;
	const struct pods *pods;       /* NULL: none yet */
	const struct kubelet *kubelet; /* NULL: not asked */
	struct targets *targets;       /* NULL: no counts */
};

/* 0 or -ENOMEM. */
int status_append(const struct status *s, json_t *root);
