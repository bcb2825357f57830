/* decide.h - trace it? why (not)? Pure functions over a pod, a container, a process and the
 * selectors. */
#pragma once
#include "base/base.h"
#include "discover/pod.h"

struct config;
struct process; /* discover/proc.h */

/* One state and one reason for each process; both appear as they are on the status page and in
 * metrics. */
enum decision_state {
	DECIDE_TRACE,       /* selected: it will be, or is, traced */
	DECIDE_NO,          /* not selected; reason says by what */
	DECIDE_LATER,       /* not known yet: container unknown to the kubelet */
	DECIDE_UNSUPPORTED, /* selected, but runs where no probe reaches */
};

struct decision {
	enum decision_state state;
	uint32_t signals; /* SIGNAL_* */
	char reason[160]; /* one sentence without a full stop: "annotation spoor.dev/instrument is
			     \"true\"" */
};

/* What is known when a process is decided upon. */
struct decide_on {
	const struct process *proc;
	const struct pod *pod;             /* NULL: in none, or not known yet */
	const struct container *container; /* NULL: in none, or not known yet */
	bool kubernetes; /* a kubelet tells the pods: an unknown container is one to wait for */
};

struct decision decide(const struct config *cfg, const struct decide_on *on);
/* The same for a pod as a whole, before any process of it is seen: for the status page. */
struct decision decide_pod(const struct config *cfg, const struct pod *pod);
