/* layout.h - where the fields of the runtime's variables lie whose types a program carries no
 * description of. By version of Go, from its sources: src/runtime/{mstats,mgcpacer,runtime2}.go.
 * `tests/gobin/layouts` prints them for any Go. */
#pragma once
#include "base/base.h"

/* Offsets in bytes. */
struct runtime_layout {
	uint8_t from, to; /* Go 1.from to 1.to */
	/* schedt */
	uint16_t lock, ngsys, gfree[2], time_to_run, pauses; /* gfree[1], pauses 0: not there */
	/* mstats: three heapStatsDelta, then gen */
	uint16_t delta, large, small; /* size; largeAlloc (then largeAllocCount), smallAllocCount */
	uint16_t sys;                 /* stacks_sys and five more that count memory */
	uint16_t numgc, pause_dist;   /* pause_dist 0: see schedt */
	/* gcControllerState; gcPercent, memoryLimit and heapMinimum are at 0, 8 and 16 */
	uint16_t goal, sweep, triggered, marked, free, allocated, freed, mapped;
	bool fixed_headroom; /* of the goal that follows from a memory limit */
	bool fine;           /* its histograms of times have 45 rows of 16, else 40 of 4 */
};

/* NULL: not known. `go_version` is what the binary says. */
const struct runtime_layout *runtime_layout(const char *go_version);

#define LAYOUT_DELTAS       3
#define LAYOUT_COMMITTED    0
#define LAYOUT_RELEASED     8
#define LAYOUT_STACKS       24
#define LAYOUT_SYS          6
#define LAYOUT_CLASSES      68
#define LAYOUT_LIMIT        8
#define LAYOUT_MINIMUM      16
#define LAYOUT_CONTROLLER   424 /* the largest */
#define LAYOUT_GFREE_COUNT  8   /* in p.gFree: behind the head of the list */
#define LAYOUT_TIMES        721 /* counts of the largest histogram */
/* cpuStats */
#define LAYOUT_CPU          88
#define LAYOUT_CPU_GC       32
#define LAYOUT_CPU_SCAVENGE 56
#define LAYOUT_CPU_IDLE     64
#define LAYOUT_CPU_USER     72
#define LAYOUT_CPU_TOTAL    80

/* Bytes of an object of each size class, src/runtime/sizeclasses.go: the same since Go 1.16. */
extern const uint16_t layout_class_size[LAYOUT_CLASSES];
