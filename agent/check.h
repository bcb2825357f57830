/* check.h - what this machine and these rights give: one row for each thing that the agent needs,
 * with what its lack costs. Made by `spoor check`, and by the agent at its start for its log and
 * status page. Any one thread. */
#pragma once
#include "base/base.h"

struct attach;
struct attach_kernel;
struct config;
struct json_t;

enum check_state {
	CHECK_OK,
	CHECK_DEGRADED, /* works, but something is lost */
	CHECK_MISSING,  /* essential, the agent cannot do its work */
	CHECK_SKIPPED,  /* does not apply here */
	CHECK_STATES
};

extern const char
	*const check_state_names[CHECK_STATES]; /* "ok", "degraded", "missing", "skipped" */

struct check {
	const char *name;
	enum check_state state;
	char found[320];  /* what was seen */
	const char *cost; /* what is lost, one clause; "" when ok */
	const char *todo; /* what to do about it; "" when ok */
};

#define CHECKS_MAX 24

struct checks {
	struct check v[CHECKS_MAX];
	size_t n;
};

/* Capabilities, kernel, namespaces, security modules: looks and tries, asks nobody. */
void check_system(struct checks *out, const struct config *cfg);
/* Adds what loading the BPF objects found out: uprobe_multi, its filter, exec events. err: of
 * attach_open(); 0: k is what it tells. */
void check_attached(struct checks *out, int err, const struct attach_kernel *k);
/* Adds whether traceparents can be put into what traced programs send. a may be NULL: attach_open()
 * has failed. */
void check_propagation(struct checks *out, const struct config *cfg, const struct attach *a);
/* Whether programs' memory may be written, where that is asked for. */
void check_writing(struct checks *out, const struct config *cfg, const struct attach *a);
/* Adds one real request to the kubelet and to the collector, within their time-outs. */
void check_network(struct checks *out, const struct config *cfg);
/* Adds a row; cost and todo count where the state is DEGRADED or MISSING. */
struct check *check_add(struct checks *c, const char *name, enum check_state state,
			const char *cost, const char *todo);
/* Appends an array of objects {name, state, found, cost, todo} under key. 0 or -ENOMEM. */
int check_json(const struct checks *c, struct json_t *root, const char *key);
/* Logs one line for each thing that is lost: what, and how to get it. */
void check_log(const struct checks *c);
/* The row, or NULL. */
const struct check *check_find(const struct checks *c, const char *name);
