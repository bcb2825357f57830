/* kubelet.h - asks this node's kubelet which pods run here: GET https://HOST:10250/pods over
 * curl_multi. Never blocks. CONTROL thread only; kubelet_state() also of another that holds
 * discover's lock. */
#pragma once
#include "base/base.h"

struct config;
struct kubelet;
struct pods;

/* Why the last request failed; label of spoor_kubelet_failed_requests_total. */
enum kubelet_why {
	KUBELET_OK,
	KUBELET_CONNECT,
	KUBELET_TIMEOUT,
	KUBELET_TLS_CA,
	KUBELET_TLS_NAME,
	KUBELET_TLS_EXPIRED,
	KUBELET_TLS,
	KUBELET_UNAUTHORIZED,
	KUBELET_FORBIDDEN,
	KUBELET_HTTP,
	KUBELET_PARSE,
	KUBELET_TRUNCATED,
	KUBELET_TOO_LARGE,
	KUBELET_TOKEN,
	KUBELET_WHY_COUNT
};

const char *kubelet_why_label(enum kubelet_why why);

/* What kubelet.source says; auto: inside Kubernetes, told by the service account's token file, by
 * node.name or by node.ip. */
bool kubelet_wanted(const struct config *cfg);
/* Connects lazily, asks nothing before kubelet_refresh(). 0 or -errno; has logged why. */
int kubelet_new(struct kubelet **out, const struct config *cfg) must_check;
void kubelet_free(struct kubelet **k);
/* One pollable fd (an epoll of curl's sockets and two timers): readable when kubelet_run() has
 * something to do. */
int kubelet_fd(const struct kubelet *k);
/* Asks for a fresh list: at once, but not more often than kubelet.min_refresh, nor while it backs
 * off after failures. From then on one is asked for every kubelet.refresh in any case. */
void kubelet_refresh(struct kubelet *k);
/* Goes on with what is under way. 1: *out is a new snapshot (caller's); 0: nothing new. */
int kubelet_run(struct kubelet *k, struct pods **out);
/* State for /readyz and /status: last error's label and sentence ("" none), Unix time of the last
 * success (0 never), TLS mode in use. */
struct kubelet_state {
	enum kubelet_why why;
	char message[960];
	double last_success;
	const char *tls_mode; /* ca, node-cert, insecure; none for http */
	bool disabled;        /* k was NULL: kubelet.source none */
};
void kubelet_state(const struct kubelet *k, struct kubelet_state *out);
