/* roster.h - the processes that CONTROL knows, each with one state and one reason. CONTROL thread,
 * under discover's lock. */
#pragma once
#include "base/base.h"
#include "discover/proc.h"

struct traced;
struct worker_result;

/* As /status and the label of spoor_discovered_processes spell them: roster_state_name(). */
enum roster_state {
	ROSTER_TRACED,
	ROSTER_PENDING,
	ROSTER_NOT_SELECTED,
	ROSTER_NOT_GO,
	ROSTER_UNSUPPORTED,
	ROSTER_FAILED,
	ROSTER_ENDED, /* was traced; in no table any more, the last few are shown */
	ROSTER_STATES
};

struct entry {
	struct entry *next;  /* in its bucket, or among the ended */
	uint64_t serial;     /* never used twice: a pid may be */
	struct process proc; /* start_time 0: not read yet */
	enum roster_state state;
	char reason[192];
	uint64_t looked_ns;   /* CLOCK_BOOTTIME: an execve before that is known already */
	uint64_t found_ns;    /* CLOCK_BOOTTIME: when it was first looked at, or selected later */
	uint64_t retry_ns;    /* CLOCK_BOOTTIME: when to look again, 0: not */
	unsigned int retries; /* how often that has been done */
	unsigned int scan;    /* the last scan that saw it */
	int pidfd;            /* of one that may be traced, else -1 */
	bool fleeting;        /* seen at execve, and in no scan since */
	bool young;           /* seen at execve: it may be put into its container a little later */
	bool again;           /* it has failed, and is to be tried once more */
	/* What decide() wants of it, and how far that is. */
	bool wanted, working,
		later; /* to be traced; a job is under way; a newer pod list has to tell */
	uint32_t signals, job_signals; /* wanted; those of the job or the target */
	uint64_t names;                /* pod_names() of the job or the target */
	struct traced *traced;
	struct worker_result
		*result; /* of the job that has made or refused it, for the status page */
};

#define ROSTER_BUCKETS   4096
#define ROSTER_ENDED_MAX 16

struct roster {
	struct entry *buckets[ROSTER_BUCKETS];
	struct entry *ended; /* newest first */
	size_t nended;
	uint64_t serial;
	size_t count[ROSTER_STATES];
	size_t probes; /* places hooked in all traced processes */
};

const char *roster_state_name(enum roster_state s);
int roster_new(struct roster **out) must_check;
/* Closes pidfds; what is traced must have been handed to the worker before. */
void roster_free(struct roster **r);
/* A new entry, state pending. NULL: no memory. */
struct entry *roster_add(struct roster *r, const struct process *proc);
struct entry *roster_find(struct roster *r, int pid);
struct entry *roster_find_serial(struct roster *r, uint64_t serial);
/* Takes e out and frees it; one that was traced (`was`) is remembered among the ended, with its
 * result. */
void roster_remove(struct roster *r, struct entry *e, bool was);
void roster_set(struct roster *r, struct entry *e, enum roster_state state, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Calls fn for each until it returns false; fn may remove the entry that it is given. */
void roster_foreach(struct roster *r, bool (*fn)(struct entry *e, void *arg), void *arg);
/* Writes the gauges. */
void roster_publish(const struct roster *r);
