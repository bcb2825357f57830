/* worker.h - the WORKER thread: everything about a process that may take its time (reading its
 * binary, attaching, detaching) is a job of it. CONTROL puts jobs in and takes results out; the
 * lock guards the three lists only. */
#pragma once
#include "base/base.h"
#include "bpf/event.h"
#include "discover/pod.h"
#include "discover/proc.h"
#include "runtime/runtime.h"

struct traced; /* one traced process, made by the backend's trace(); CONTROL keeps it and passes it
		  back */

struct worker_result;

/* Trace this process. */
struct worker_job {
	struct worker_job *next;
	uint64_t serial; /* CONTROL's name of the process */
	struct process proc;
	struct pods *pods; /* a reference, so that pod and container stay; NULL: in none */
	const struct pod *pod;
	const struct container *container;
	uint32_t signals; /* SIGNAL_* */
	/* It is traced already, and only what is told of it (its resource) is to be made anew: slot
	 * and generation of its target, and its Go version. */
	bool rename;
	uint16_t slot;
	uint32_t generation;
	char go_version[48];
	struct worker_result *result; /* memory for the answer, so that there always is one */
};

enum worker_outcome {
	WORKER_TRACED,
	WORKER_NOT_GO,
	WORKER_UNSUPPORTED, /* it will never be traced: Go before 1.19, 32-bit, nothing to trace */
	WORKER_DECLINED,    /* it could be, and is not wanted: an SDK is in it */
	WORKER_FAILED,      /* it could not be traced now */
	WORKER_GONE,        /* it has ended, or is another program by now */
};

#define WORKER_LACKS_MAX 16

/* A part of a library that is not traced in this binary. */
struct worker_lack {
	uint8_t lib, part;
	char why[126];
};

struct worker_result {
	struct worker_result *next;
	uint64_t serial;
	bool renamed; /* the answer to worker_job.rename: the rest is empty */
	enum worker_outcome outcome;
	struct traced *traced; /* WORKER_TRACED: the receiver's */
	uint16_t slot;
	uint32_t generation;
	size_t nprobes;                 /* places hooked */
	uint32_t parts[LIBS_MAX];       /* bit n: part n of the library is whole in this binary */
	uint32_t probes[LIBS_MAX];      /* bit n: probe n of the library is attached */
	bool absent[LIBS_MAX];          /* an SDK that the program does not have: not told of */
	const char *disabled[LIBS_MAX]; /* why the library is not traced anywhere, a static text, or
					   NULL */
	struct worker_lack lacks[WORKER_LACKS_MAX];
	size_t nlacks;
	char go_version[48];
	char reason[192];
	bool runtime;                           /* its Go runtime is read for metrics, but for: */
	const char *no_runtime[RUNTIME_VALUES]; /* why not, static texts; NULL: it is */
	char sdk[192];    /* what is done about the SDK in it, "" without one */
	uint64_t took_ns; /* from the job's beginning to its end */
};

/* What the thread calls, one call at a time; a table, so that the queues are tested without a
 * kernel. */
struct worker_backend {
	void *arg;
	/* Fills *out but for next and serial. */
	void (*trace)(void *arg, const struct worker_job *job, struct worker_result *out);
	/* Detaches all n at once and frees them. */
	void (*untrace)(void *arg, struct traced **list, size_t n);
	/* Now and then, also when there is work; may be NULL. */
	void (*tick)(void *arg);
};

struct worker;

int worker_new(struct worker **out, const struct worker_backend *backend) must_check;
int worker_start(struct worker *w) must_check;
/* Forgets the jobs that wait, joins, then detaches what waited to be detached or was in a result
 * that nobody took. */
void worker_stop(struct worker *w);
void worker_free(struct worker **w);
/* Readable when there is a result. */
int worker_fd(const struct worker *w);
/* An empty job with room for its result. 0 or -ENOMEM. */
int worker_job_new(struct worker_job **out) must_check;
/* Drops its reference to the pods, too. */
void worker_job_free(struct worker_job **job);
/* Takes job over. */
void worker_trace(struct worker *w, struct worker_job *job);
/* Takes traced over. Those that wait together are detached together. 0 or -ENOMEM: then nothing is
 * taken. */
int worker_untrace(struct worker *w, struct traced *traced) must_check;
/* All results so far, oldest first; each to be freed with free(). NULL: none. */
struct worker_result *worker_results(struct worker *w);
