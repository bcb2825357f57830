/* runtime.h - what the runtime of a Go program knows of itself, read from the program's memory:
 * never by a probe. Where its variables lie is found once per executable, see runtime_plan(); a
 * value that cannot be read truthfully is absent. */
#pragma once
#include "base/base.h"
#include <stdatomic.h>

struct gobin;
struct runtime_layout;

/* What can be had, each of its own; also the bits of `have`. */
enum runtime_value {
	RUNTIME_MEMORY,     /* go.memory.used */
	RUNTIME_LIMIT,      /* go.memory.limit */
	RUNTIME_ALLOCATED,  /* go.memory.allocated, go.memory.allocations */
	RUNTIME_GOAL,       /* go.memory.gc.goal */
	RUNTIME_CYCLES,     /* go.memory.gc.cycles */
	RUNTIME_PAUSES,     /* go.memory.gc.pause.duration */
	RUNTIME_GOROUTINES, /* go.goroutine.count */
	RUNTIME_PROCESSORS, /* go.processor.limit */
	RUNTIME_SCHEDULE,   /* go.schedule.duration */
	RUNTIME_GOGC,       /* go.config.gogc */
	RUNTIME_CPU,        /* go.cpu.time */
	RUNTIME_VALUES
};

/* "go.memory.used". */
const char *runtime_value_name(enum runtime_value v);

enum runtime_variable {
	RUNTIME_MEMSTATS,
	RUNTIME_CONTROLLER, /* gcController */
	RUNTIME_SCHED,
	RUNTIME_ALLGS,
	RUNTIME_ALLP,
	RUNTIME_WORK, /* work.cpuStats */
	RUNTIME_VARIABLES
};

/* Where the variables of one executable lie. */
struct runtime_plan {
	const struct runtime_layout *layout; /* NULL: not known for that version of Go */
	uint64_t at[RUNTIME_VARIABLES];      /* addresses as linked; 0: not found */
	uint32_t p_id, p_gfree;              /* offsets in runtime.p; 0xffffffff: not found */
	const char *missing[RUNTIME_VALUES]; /* why it is not to be had; NULL: it is */
};

/* Finds them. 0 or -errno; that nothing was found is no error. Pure; any thread. */
int runtime_plan(struct runtime_plan *out, struct gobin *g) must_check;

/* One process whose runtime is read. Immutable; counted. */
struct go_runtime {
	atomic_uint refs;
	int pid;
	uint64_t start_time, stack; /* see struct process: it is this image of this process */
	struct runtime_plan plan;   /* with addresses as loaded */
};

/* One reference; copies. bias: the load bias of a PIE. NULL: no memory. */
struct go_runtime *go_runtime_new(const struct runtime_plan *plan, int pid, uint64_t start_time,
				  uint64_t stack, uint64_t bias);
struct go_runtime *go_runtime_ref(struct go_runtime *r); /* r may be NULL */
void go_runtime_put(struct go_runtime **r);

/* Durations as the runtime counts them, in fewer buckets: counts[i] of at least bound i - 1 and
 * less than bound i, see runtime_bounds. */
#define RUNTIME_BOUNDS 25
extern const double runtime_bounds[RUNTIME_BOUNDS]; /* seconds */
struct runtime_times {
	uint64_t counts[RUNTIME_BOUNDS + 1];
};

struct runtime_numbers {
	uint32_t have; /* bit n: enum runtime_value n */
	int64_t stack_bytes, other_bytes, limit_bytes, goal_bytes;
	int64_t allocated_bytes, allocations, cycles, goroutines, processors, gogc;
	struct runtime_times pauses, schedule;
	double user_s, gc_s, scavenge_s, idle_s;
};

/* Reads what can be had now. 0; -ESRCH: it is not (any more) that process; -errno: its memory
 * cannot be read. What did not look right is counted and not in `have`. Any thread. */
int runtime_read(struct runtime_numbers *out, const struct go_runtime *r,
		 const char *proc_root) must_check;
