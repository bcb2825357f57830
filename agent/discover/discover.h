/* discover.h - the CONTROL thread: processes, pods, decisions; hands work to the worker and takes
 * its results. */
#pragma once
#include "base/base.h"

struct attach;
struct config;
struct discover;
struct exec_event;
struct targets;
struct worker_backend;

int discover_new(struct discover **out, const struct config *cfg, struct attach *a,
		 struct targets *t) must_check;
/* Where execve notifications come from. */
struct discover_execs {
	int fd;     /* readable when there are some; -1: none, only /proc tells */
	bool hints; /* their pids are those of another PID namespace: look through /proc */
	/* Calls seen for those that wait; where it leaves some, the fd stays readable. */
	void (*drain)(void *arg, void (*seen)(const struct exec_event *ev, void *seen_arg),
		      void *seen_arg);
	void *arg;
};
/* The same without a kernel, for tests: somebody else traces and notifies. t may be NULL. */
int discover_new_with(struct discover **out, const struct config *cfg,
		      const struct worker_backend *backend, const struct discover_execs *execs,
		      struct targets *t) must_check;
/* Starts CONTROL and WORKER. */
int discover_start(struct discover *d) must_check;
/* Detaches everything, joins both threads. */
void discover_stop(struct discover *d);
void discover_free(struct discover **d);
/* True once the first pod snapshot was had, or none is needed, and the first scan is done; else
 * *reason is a sentence (of size n). Any thread. */
bool discover_ready(struct discover *d, char *reason, size_t n);
/* Appends {"pods": [...], "processes": [...], "kubelet": {...}} members to a jansson object. Any
 * thread. */
struct json_t;
int discover_status(struct discover *d, struct json_t *root);
