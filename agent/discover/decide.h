/* decide.h - trace it? why (not)? Pure functions over a pod, a container, a process and the selectors. */
#pragma once
#include "base/base.h"
#include "discover/pod.h"

struct config;

/* One state and one reason for each process; both appear as they are on the status page and in metrics. */
enum decision_state {
	DECIDE_TRACE,     /* selected: it will be, or is, traced */
	DECIDE_NO,        /* not selected; reason says by what */
	DECIDE_LATER,     /* not known yet: container unknown to the kubelet */
};

struct decision {
	enum decision_state state;
	const char *reason; /* static: "annotation spoor.dev/instrument is \"true\"" ... */
	uint32_t signals;   /* SIGNAL_* */
};

struct process; /* discover/proc.h */

/* pod and container NULL: the process is in none (or it is not known yet: then in_container says so). */
struct decision decide(const struct config *cfg, const struct process *proc, const struct pod *pod, const struct container *c);
