/* trial.h - whether a process's trial probes (struct go_probe) are worth their hits: they hang at
 * first, go when they have told nothing new for long enough, and are tried again where spans lack
 * what they might have told, less and less often. WORKER thread. */
#pragma once
#include "base/base.h"
#include "trace/target.h"

struct attach;
struct attached;

struct trial {
	bool off;
	bool gained; /* ever: it is given more time then */
	uint64_t since_ns, wait_ns;
	uint64_t seen[TARGET_TRIALS]; /* counts when this window, or the time without, began */
};

enum trial_verdict { TRIAL_STAYS, TRIAL_ENDS, TRIAL_BEGINS };

/* Pure. counts: of struct target. The caller does what it says, and may say so again by
 * trial_undone(). */
enum trial_verdict trial_look(struct trial *t, const uint64_t counts[TARGET_TRIALS],
			      uint64_t now_ns);
/* What the last verdict asked for has failed: as it was before. */
void trial_undone(struct trial *t);
/* Looks, and does what the verdict says. True: it did something, which takes its time. */
bool trial_run(struct trial *t, const struct attach *a, struct attached *attached,
	       const uint64_t counts[TARGET_TRIALS], int pid);
