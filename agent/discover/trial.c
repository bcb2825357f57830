#include "discover/trial.h"

#include "base/log.h"
#include "base/stats.h"
#include "trace/attach.h"
#include "trace/span.h"
#include <time.h>

/* Hits that told nothing new until they are given up: of a process where none ever did, and of one
 * where some did. */
#define IDLE_MAX        1000
#define IDLE_MAX_GAINED 20000
/* How long one does without, at least; twice as long each time it was in vain. */
#define WAIT_MIN_NS     (10 * 1000000000ull)
#define WAIT_MAX_NS     (600 * 1000000000ull)

static void begin_window(struct trial *t, const uint64_t counts[TARGET_TRIALS], uint64_t now_ns)
{
	memcpy(t->seen, counts, sizeof(t->seen));
	t->since_ns = now_ns;
}

enum trial_verdict trial_look(struct trial *t, const uint64_t counts[TARGET_TRIALS],
			      uint64_t now_ns)
{
	uint64_t idle = counts[TRIAL_IDLE] - t->seen[TRIAL_IDLE];

	if (t->off) {
		if (counts[TRIAL_MISSED] == t->seen[TRIAL_MISSED] ||
		    now_ns - t->since_ns < t->wait_ns)
			return TRIAL_STAYS;
		t->off = false;
		begin_window(t, counts, now_ns);
		return TRIAL_BEGINS;
	}
	if (counts[TRIAL_GAINED] != t->seen[TRIAL_GAINED]) {
		t->gained = true;
		t->wait_ns = 0;
		begin_window(t, counts, now_ns);
		return TRIAL_STAYS;
	}
	if (idle < (t->gained ? IDLE_MAX_GAINED : IDLE_MAX))
		return TRIAL_STAYS;
	t->off = true;
	t->wait_ns = t->wait_ns ? 2 * t->wait_ns : WAIT_MIN_NS;
	if (t->wait_ns > WAIT_MAX_NS)
		t->wait_ns = WAIT_MAX_NS;
	begin_window(t, counts, now_ns);
	return TRIAL_ENDS;
}

void trial_undone(struct trial *t)
{
	t->off = !t->off;
}

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

bool trial_run(struct trial *t, const struct attach *a, struct attached *attached,
	       const uint64_t counts[TARGET_TRIALS], int pid)
{
	enum trial_verdict verdict = trial_look(t, counts, monotonic_ns());
	int err;

	if (verdict == TRIAL_STAYS)
		return false;
	err = attach_trial(a, attached, verdict == TRIAL_BEGINS);
	if (err)
		trial_undone(t);
	else if (verdict == TRIAL_BEGINS)
		stat_add(trials_begun, 1);
	else
		stat_add(trials_ended, 1);
	log_debug("attach: trial probes of process %d %s: %s", pid,
		  verdict == TRIAL_BEGINS ? "hang again" : "are taken away",
		  err ? strerror(-err) : "done");
	return true;
}
