/* request.h - one GET of the pod list at a time, over curl_multi, and what its failures mean.
 * CONTROL thread. */
#pragma once
#include "base/base.h"
#include "discover/kubelet.h"

/* How the server's certificate is judged. */
enum request_trust {
	REQUEST_CA,        /* signed by kubelet.tls.ca_file */
	REQUEST_NODE_CERT, /* the node's own certificate, and no other */
	REQUEST_INSECURE,
};

struct request_failure {
	enum kubelet_why why;
	char text[640]; /* what is wrong, without a full stop; of which kubelet is said elsewhere */
};

struct request;

/* Its sockets and timer go into epoll_fd, with their fd as data. 0 or -errno; has logged why. */
int request_new(struct request **out, const struct config *cfg, int epoll_fd) must_check;
void request_free(struct request **r);
const char *request_url(const struct request *r);
/* host:port that is connected to. */
const char *request_peer(const struct request *r);
bool request_tls(const struct request *r);
const char *request_trust_name(const struct request *r, enum request_trust trust);
/* token and cert (PEM) are copied or stay until the request has ended; token NULL: none. 0 or
 * -errno, *f set. */
int request_start(struct request *r, enum request_trust trust, const char *token, char *cert,
		  struct request_failure *f) must_check;
bool request_busy(const struct request *r);
/* Something has happened on one of its fds. */
void request_handle(struct request *r, int fd, uint32_t events);
/* True when the request under way is over: then request_outcome(), request_body() and
 * request_forget(). */
bool request_ended(struct request *r);
/* Ends a request under way that curl itself does not end. */
void request_abandon(struct request *r);
void request_outcome(struct request *r, enum request_trust trust, struct request_failure *f);
const char *request_body(const struct request *r, size_t *size);
uint64_t request_took_ns(const struct request *r);
void request_forget(struct request *r);
