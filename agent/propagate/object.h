/* object.h - what the files of this folder share. Thread as in propagate.h. */
#pragma once
#include "propagate/propagate.h"

struct bpf_link;

/* Programs that are attached to the root of the control groups. */
#define PROPAGATE_CGROUP_LINKS 5

struct propagate {
	const struct config *cfg;
	struct bpf_object *object; /* NULL: it is off */
	struct bpf_link *links[PROPAGATE_CGROUP_LINKS], *who;
	int sockets, owners, processes, pending, counters; /* fds of maps */
	struct propagate_kernel kernel;
	char why[PROPAGATE_WHY];       /* "": it works */
	char why_write[PROPAGATE_WHY]; /* "": programs' memory may be written */
};

/* Says why it is off; the object is closed. Returns -1. */
int propagate_fail(struct propagate *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The process's number in the first PID namespace. 0 or -errno. */
int propagate_tgid(const struct propagate *p, int pidfd, uint32_t *tgid) must_check;
/* Whether this kernel lets us write into programs' memory: p->why_write. */
void propagate_try_write(struct propagate *p);
/* Sends requests to ourselves. 0, or -1 and propagate_fail(). */
int propagate_try(struct propagate *p) must_check;
/* Adds the outgoing connections that the process has, or (add: false) takes those away that are
 * owner's. How many. */
size_t propagate_sockets(const struct propagate *p, int pid, int pidfd,
			 const struct propagate_socket *owner, bool add);
