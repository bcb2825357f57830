/* target.h - the table of traced processes. WORKER fills a slot and retires it, EVENTS reads it and
 * frees what was retired, CONTROL and the status page read the counters. A target is immutable once
 * it is published, but for its counters. */
#pragma once
#include "base/base.h"
#include "bpf/event.h"
#include <stdatomic.h>

struct go_runtime;
struct literals;
struct metrics;
struct owner;
struct resource;

/* Number of enum span_trial. */
#define TARGET_TRIALS 4

struct target {
	uint16_t slot;
	uint32_t generation;
	int pid;
	uint64_t start_time; /* of the process: clock ticks since boot; with the pid its identity */
	uint64_t born_ns;    /* the same as Unix time, 0: not known */
	struct resource *resource;     /* encoded once; batches that name it hold a reference */
	struct owner *owner;           /* whose series its operations feed; NULL: not measured */
	struct go_runtime *runtime;    /* whose numbers are metrics, too; NULL: they are not */
	struct literals *literals;     /* events thread */
	const struct str *probe_paths; /* HTTP probe paths of its container, see struct decode */
	size_t nprobe_paths;
	uint32_t signals;              /* SIGNAL_* the pod asked for */
	atomic_ullong spans[LIBS_MAX]; /* operations received, by library */
	atomic_ullong left;            /* operations that were left to an SDK of the program */
	atomic_ullong below;           /* operations whose parent is a span of that SDK */
	atomic_ullong trials[TARGET_TRIALS]; /* spans by enum span_trial */
	atomic_ullong last_event_ns;         /* CLOCK_BOOTTIME, 0: none yet */
};

/* Takes over *resource and *literals (may be NULL) and clears them, copies the paths. 0 or -ENOMEM:
 * then nothing is taken. */
int target_new(struct target **out, uint16_t slot, uint32_t generation, int pid,
	       struct resource **resource, struct literals **literals,
	       const struct str *probe_paths, size_t nprobe_paths, uint32_t signals) must_check;
/* When its process began: clock ticks since boot. For one that was not published. */
void target_born(struct target *t, uint64_t start_time);
/* For one that was not published. */
void target_free(struct target **t);

#define SIGNAL_TRACES  1u
#define SIGNAL_METRICS 2u

struct targets;

/* What measures the operations of its targets, or NULL. Before the threads start. */
void targets_measure(struct targets *t, struct metrics *m);
struct metrics *targets_metrics(const struct targets *t);
/* n slots, at most 65536; slot 0 is used as well, a free slot has generation 0. */
int targets_new(struct targets **out, size_t n) must_check;
/* Only after all threads have ended. */
void targets_free(struct targets **t);
/* Worker: a free slot with a new generation (never 0), nothing published yet. -ENOSPC: all in use.
 */
int targets_reserve(struct targets *t, uint16_t *slot, uint32_t *generation) must_check;
/* Worker: makes the target visible; its slot and generation are those reserved. The table owns it
 * now. */
void targets_publish(struct targets *t, struct target *target);
/* Worker: what is told of the live target of that slot and generation is told by *t from now on:
 * its counters and literals go over to it. Takes *t over. 0; -ENOENT: there is none any more;
 * -EALREADY: its resource says nothing new. Then *t is the caller's. */
int targets_rename(struct targets *t, struct target **target) must_check;
/* Worker: its live target's counts of trials. False: there is none. */
bool targets_trials(struct targets *t, uint16_t slot, uint64_t counts[TARGET_TRIALS]);
/* Worker: after its link is closed (attach_detach()). The events thread frees it, and the slot,
 * once it has read all records of it. */
void targets_retire(struct targets *t, uint16_t slot);
/* Worker: gives back a reserved slot that was never published. */
void targets_cancel(struct targets *t, uint16_t slot);
/* Events: the live or retired target of that cookie, or NULL (stale generation, unknown slot).
 * Valid until targets_reap(). */
struct target *targets_find(struct targets *t, struct cookie c);
/* Events: when every record that was in the ring at the last call has been read. Frees what was
 * retired before that call: no record of it can come any more. */
void targets_reap(struct targets *t);
/* Events: true when something waits to be freed, so that the thread looks again soon. */
bool targets_retiring(struct targets *t);
/* A live target as others may keep it for a while. */
struct target_ref {
	int pid;
	bool measured;
	uint64_t start_time, born_ns;
	struct resource *resource;  /* a reference */
	struct go_runtime *runtime; /* a reference, or NULL */
};

struct targets_list {
	size_t n;
	struct target_ref v[];
};

/* All live targets. NULL: no memory. Any thread but worker and events. */
struct targets_list *targets_list(struct targets *t);
void targets_list_free(struct targets_list **l);
/* Any thread but worker and events: calls fn under a lock for each live target; for the status
 * page. */
void targets_foreach(struct targets *t, void (*fn)(const struct target *, void *), void *arg);
