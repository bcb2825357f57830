/* propagate.h - outbound trace context: the BPF object that puts a traceparent into what traced
 * processes write, and the sockets that it sees. It knows sockets and bytes, not libraries. WORKER
 * thread only, but for propagate_open() (main, before the threads start), propagate_close() (after
 * they have ended) and propagate_off() (any thread). */
#pragma once
#include "base/base.h"
#include "bpf/propagate.h"

struct bpf_map;
struct bpf_object;
struct config;

/* Longest reason of propagate_off(). */
#define PROPAGATE_WHY 256

struct propagate;

/* What propagate_open() has found out about this kernel; for the self-check. */
struct propagate_kernel {
	bool fionread_zero; /* FIONREAD tells nothing on a socket of the map */
	bool tried;         /* the trial has run to its end */
};

/* Loads, attaches, tries it on a connection of our own. counters: fd of core's map. Where
 * propagation is not asked for, *out is NULL; where it cannot be had, *out says why not
 * (propagate_off()). Only -ENOMEM is an error. */
int propagate_open(struct propagate **out, const struct config *cfg, int counters) must_check;
void propagate_close(struct propagate **p);
/* Why nothing is inserted, one sentence, or NULL: it works. NULL for p: nobody asked for it. */
const char *propagate_off(const struct propagate *p);
/* The same of what is written into programs' memory, `propagation: write`. */
const char *propagate_write_off(const struct propagate *p);
const struct propagate_kernel *propagate_kernel(const struct propagate *p);
/* The map that libraries hand over through, or NULL: propagation does not work. */
const struct bpf_map *propagate_pending(const struct propagate *p);
/* Its object, for the accounting of memory, or NULL. */
struct bpf_object *propagate_maps(const struct propagate *p);

/* From here on the process's new connections are seen, and those that it has already. pid as /proc
 * here says; pidfd is of the same process. Before its probes are attached. *tgid is what
 * propagate_remove() wants. 0 or -errno: its requests go out as they are. */
int propagate_add(struct propagate *p, int pid, int pidfd, const struct propagate_socket *owner,
		  uint32_t *tgid) must_check;
/* Its connections become plain ones again. After its probes were detached. */
void propagate_remove(struct propagate *p, int pid, int pidfd, const struct propagate_socket *owner,
		      uint32_t tgid);
