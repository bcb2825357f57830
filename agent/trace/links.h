/* links.h - how probes hang in one process: the places of a program in one link. Those on trial
 * (struct go_probe) come and go. WORKER thread only. */
#pragma once
#include "base/base.h"
#include "trace/core.h"

struct bpf_link;
struct library;
struct plan;

/* The places of one program. */
struct link_group {
	const struct bpf_program *prog;
	struct core_places places; /* on trial: as long as the process is traced; else until the
				      link is there */
	struct bpf_link *link;     /* NULL: it does not hang */
	bool trial;
};

struct links {
	struct link_group *groups; /* in the order in which they are hung: ends before begins */
	size_t n;
	int exe, pid; /* to hang those on trial again; exe -1: there are none */
};

/* What is hung where. */
struct links_process {
	int pid;
	const char *exe_path;
	uint16_t slot;
	uint32_t generation, libs;      /* libs: bit n, the places of library n */
	const struct library *programs; /* by library */
	bool trials;                    /* whether those on trial are hung at all */
};

/* Nothing hangs. */
void links_init(struct links *l);
/* All places of the plan; the process goes without those on trial where they cannot be had. 0;
 * -ENODATA: no places; -errno: nothing hangs. */
int links_hang(struct links *l, const struct plan *p, const struct links_process *process,
	       size_t *nprobes) must_check;
/* See attach_trial(). */
int links_trial(struct links *l, bool on) must_check;
bool links_has_trial(const struct links *l);
/* Closes all links of n processes: waits until no CPU runs a probe of them, for all together.
 * Empty ones are skipped. */
void links_close(struct links *const *list, size_t n);
/* After links_close(). */
void links_clear(struct links *l);
