/* discover.h - the CONTROL thread: processes, pods, decisions; hands work to the worker and takes its results. */
#pragma once
#include "base/base.h"

struct attach;
struct config;
struct discover;
struct targets;

int discover_new(struct discover **out, const struct config *cfg, struct attach *a, struct targets *t) must_check;
/* Starts CONTROL and WORKER. */
int discover_start(struct discover *d) must_check;
/* Detaches everything, joins both threads. */
void discover_stop(struct discover *d);
void discover_free(struct discover **d);
/* True once the first pod snapshot was had, or none is needed; else *reason is a sentence (of size n). Any thread. */
bool discover_ready(struct discover *d, char *reason, size_t n);
/* Appends {"pods": [...], "processes": [...], "kubelet": {...}} members to a jansson object. Any thread. */
struct json_t;
int discover_status(struct discover *d, struct json_t *root);
