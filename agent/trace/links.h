/* links.h - how probes hang in one process: its probes in one link, those on trial (struct
 * go_probe) in another one, which comes and goes. WORKER thread only. */
#pragma once
#include "base/base.h"
#include "trace/core.h"

struct bpf_link;
struct plan;

struct links {
	struct bpf_link *link, *trial;
	struct core_places trials; /* none: it has no trial probes */
	int exe, pid;              /* to hang them again; exe -1: no trial probes */
};

/* What is hung where. */
struct links_process {
	int pid;
	const char *exe_path;
	uint16_t slot;
	uint32_t generation, libs; /* libs: bit n, the places of library n */
	bool trials;               /* whether those on trial are hung at all */
};

/* Nothing hangs. */
void links_init(struct links *l);
/* All places of the plan, those on trial first; the process goes without those where they cannot be
 * had. 0; -ENODATA: no places; -errno: nothing hangs. */
int links_hang(struct links *l, const struct core *core, const struct plan *p,
	       const struct links_process *process, size_t *nprobes) must_check;
/* See attach_trial(). */
int links_trial(struct links *l, const struct core *core, bool on) must_check;
bool links_has_trial(const struct links *l);
/* Waits until no CPU runs a probe of them. */
void links_close(struct links *l);
/* After links_close(). */
void links_clear(struct links *l);
