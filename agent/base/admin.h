/* admin.h - the HTTP endpoints for people, Prometheus and the kubelet's probes: / /metrics /healthz
 * /readyz, and /status for peers on the loopback address. Its own thread (libmicrohttpd's) calls
 * the callbacks; it never touches the path of events. */
#pragma once
#include "base/base.h"

struct admin;
struct config;
struct json_t;

/* One line of /readyz. */
struct admin_check {
	char name[32];
	bool ok;
	char reason[256]; /* why not; or, when ok, what one may like to know; "" nothing */
};

/* What the other parts tell; agent.c fills it. Called on the admin thread, several times a minute.
 */
struct admin_source {
	/* Fills up to max checks, returns their number. Ready means: all are ok. */
	size_t (*ready)(void *arg, struct admin_check *checks, size_t max);
	/* Adds members to a jansson object. 0 or -errno. */
	int (*status)(void *arg, struct json_t *root);
	void *arg;
};

/* Listens on admin.listen, admin.port and begins to answer. An empty admin.listen: *out stays NULL,
 * 0. 0 or -errno; has logged why. source must outlive it. */
int admin_start(struct admin **out, const struct config *cfg,
		const struct admin_source *source) must_check;
/* The port that was chosen. */
uint16_t admin_port(const struct admin *a);
/* Ends the thread, after what is being answered. */
void admin_stop(struct admin **a);
