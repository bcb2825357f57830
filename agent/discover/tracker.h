/* tracker.h - what is to be done about each process: looks at it, decides, has it traced or let go
 * by the worker. CONTROL thread, under discover's lock; never blocks. */
#pragma once
#include "base/base.h"
#include "discover/waiting.h"

struct config;
struct exec_event;
struct pods;
struct roster;
struct worker;

struct tracker {
	const struct config *cfg;
	struct worker *worker;
	struct roster *roster;
	int epoll_fd;       /* pidfds go in here, with TRACKER_PIDFD | serial as data */
	bool kubernetes;    /* a kubelet tells the pods */
	struct pods *pods;  /* the last list; NULL: none yet */
	uint64_t listed_ns; /* CLOCK_BOOTTIME of it */
	uint64_t next_ns;   /* CLOCK_BOOTTIME: when tracker_retry() is to be called, 0: not */
	unsigned int scan;
	struct waiting waiting;
	bool refresh; /* a process waits for a newer list; the caller clears it */
};

#define TRACKER_PIDFD (1ULL << 63)

/* CLOCK_BOOTTIME: what the kernel's events are stamped with. */
uint64_t tracker_now(void);
/* A process has called execve. */
void tracker_exec(struct tracker *t, const struct exec_event *ev);
/* Looks through all of /proc: what is new, what has ended, what has become another program. */
void tracker_scan(struct tracker *t);
/* A new pod list, taken over. True when it says something new: then all is decided anew, and a scan
 * is due. */
bool tracker_pods(struct tracker *t, struct pods *pods);
/* The pidfd of that entry says that the process has ended. */
void tracker_exited(struct tracker *t, uint64_t serial);
/* Takes the worker's results. */
void tracker_results(struct tracker *t);
/* Looks again at those whose time has come. */
void tracker_retry(struct tracker *t);
/* Hands all that is traced to the worker, to be detached. */
void tracker_stop(struct tracker *t);
