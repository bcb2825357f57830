/* Reads a program's variables and makes of them what its own runtime/metrics would say: by the
 * same formulas, src/runtime/{metrics,mgcpacer,proc,histogram}.go. Nothing stops the program
 * meanwhile, so each group is read until it is of one moment, and looks as it must. */
#include "base/stats.h"
#include "discover/proc.h"
#include "runtime/layout.h"
#include "runtime/runtime.h"

#include <sys/uio.h>

#define TRIES     5
#define PROCS_MAX 4096
#define CHUNK     256          /* Ps a system call: two pieces each, UIO_MAXIOV is 1024 */
#define GOGC_UNIT (4ull << 20) /* defaultHeapMinimum: what the heap is at least, at GOGC=100 */

struct reading {
	const struct go_runtime *r;
	const struct runtime_layout *l;
	const struct runtime_plan *p;
	struct runtime_numbers *out;
	bool odd; /* something did not look as it must */
};

static void *at(uint64_t addr)
{
	return (void *)(uintptr_t)addr; /* NOLINT(performance-no-int-to-ptr): of another process */
}

/* 0; -EFAULT: that is not mapped; -ESRCH; -errno. */
static int fetch(const struct go_runtime *r, uint64_t addr, void *out, size_t n)
{
	struct iovec here = { out, n };
	struct iovec there = { at(addr), n };
	ssize_t got = process_vm_readv(r->pid, &here, 1, &there, 1, 0);

	if (got < 0)
		return -errno;
	return (size_t)got == n ? 0 : -EFAULT;
}

static uint64_t word(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static int32_t half(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void have(struct reading *g, enum runtime_value v)
{
	if (!g->p->missing[v])
		g->out->have |= 1u << v;
}

static bool wanted(const struct reading *g, enum runtime_value v)
{
	return !g->p->missing[v];
}

/* ---- memstats ---- */

/* The sum of what writers write now and what was merged before; the third is empty but while a
 * reader of the program's own merges. */
static bool is_settled(const struct runtime_layout *l, const uint8_t *m)
{
	uint32_t gen = (uint32_t)half(m + (size_t)LAYOUT_DELTAS * l->delta);
	const uint8_t *empty = m + (size_t)((gen + 1) % LAYOUT_DELTAS) * l->delta;

	for (size_t i = 0; gen < LAYOUT_DELTAS && i < l->delta; i++)
		if (empty[i])
			return false;
	return gen < LAYOUT_DELTAS;
}

static uint64_t total(const struct runtime_layout *l, const uint8_t *m, size_t offset)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < LAYOUT_DELTAS; i++)
		sum += word(m + i * l->delta + offset);
	return sum;
}

static void take_memory(struct reading *g, const uint8_t *m)
{
	const struct runtime_layout *l = g->l;
	int64_t committed = (int64_t)total(l, m, LAYOUT_COMMITTED);
	int64_t released = (int64_t)total(l, m, LAYOUT_RELEASED);
	int64_t stacks = (int64_t)total(l, m, LAYOUT_STACKS), sys = 0;

	for (size_t i = 0; i < LAYOUT_SYS; i++) {
		int64_t one = (int64_t)word(m + l->sys + 8 * i);

		if (one < 0 || one > INT64_MAX / 64)
			g->odd = true;
		sys += one;
	}
	if (committed <= 0 || committed > INT64_MAX / 64 || released < 0 || stacks < 0 ||
	    stacks > committed || g->odd) {
		g->odd = true;
		return;
	}
	g->out->stack_bytes = stacks;
	g->out->other_bytes = committed + sys - stacks;
	have(g, RUNTIME_MEMORY);
}

static void take_allocated(struct reading *g, const uint8_t *m)
{
	const struct runtime_layout *l = g->l;
	uint64_t bytes = total(l, m, l->large), objects = total(l, m, l->large + 8u);

	for (size_t i = 0; i < LAYOUT_CLASSES; i++) {
		uint64_t n = total(l, m, l->small + 8 * i);

		objects += n;
		bytes += n * layout_class_size[i];
	}
	if (!objects || bytes < objects || bytes > INT64_MAX) {
		g->odd = true;
		return;
	}
	g->out->allocated_bytes = (int64_t)bytes;
	g->out->allocations = (int64_t)objects;
	have(g, RUNTIME_ALLOCATED);
}

static int read_memstats(struct reading *g)
{
	size_t size = g->l->numgc + 8u, deltas = (size_t)LAYOUT_DELTAS * g->l->delta + 8;
	auto_free uint8_t *before = malloc(size), *m = malloc(size);
	bool settled = false;
	int err;

	if (!before || !m)
		return -ENOMEM;
	for (int i = 0; i < TRIES && !settled; i++) {
		err = fetch(g->r, g->p->at[RUNTIME_MEMSTATS], before, size);
		if (!err)
			err = fetch(g->r, g->p->at[RUNTIME_MEMSTATS], m, size);
		if (err)
			return err;
		settled = is_settled(g->l, before) && is_settled(g->l, m) &&
			  half(before + deltas - 8) == half(m + deltas - 8);
	}
	if (!settled) {
		g->odd = true;
		return 0;
	}
	if (wanted(g, RUNTIME_MEMORY))
		take_memory(g, m);
	if (wanted(g, RUNTIME_ALLOCATED))
		take_allocated(g, m);
	g->out->cycles = (uint32_t)half(m + g->l->numgc);
	have(g, RUNTIME_CYCLES);
	return 0;
}

/* ---- gcController ---- */

/* memoryLimitHeapGoal(). -EAGAIN: the numbers are not of one moment. */
static int goal_of_limit(const struct runtime_layout *l, const uint8_t *c, uint64_t *out)
{
	uint64_t free = word(c + l->free), used = word(c + l->allocated) - word(c + l->freed);
	uint64_t mapped = word(c + l->mapped), limit = word(c + LAYOUT_LIMIT);
	uint64_t marked = word(c + l->marked), other, over, goal, headroom;

	if (free > mapped || used > mapped - free)
		return -EAGAIN;
	other = mapped - free - used;
	over = mapped > limit ? mapped - limit : 0;
	if (other + over >= limit) {
		*out = marked;
		return 0;
	}
	goal = limit - (other + over);
	headroom = l->fixed_headroom ? 1u << 20 : goal / 100 * 3;
	if (headroom < 1u << 20)
		headroom = 1u << 20;
	goal = goal < headroom || goal - headroom < headroom ? headroom : goal - headroom;
	*out = goal < marked ? marked : goal;
	return 0;
}

/* heapGoalInternal(). */
static int goal_of(const struct runtime_layout *l, const uint8_t *c, uint64_t *out)
{
	uint64_t goal = word(c + l->goal), limited = 0, sweep = word(c + l->sweep);
	uint64_t triggered = word(c + l->triggered);
	int err = goal_of_limit(l, c, &limited);

	if (err)
		return err;
	if (limited < goal) {
		*out = limited;
		return 0;
	}
	if (sweep > goal)
		goal = sweep;
	if (triggered != UINT64_MAX && goal < triggered + (64u << 10))
		goal = triggered + (64u << 10);
	*out = goal;
	return 0;
}

/* What setGCPercent() keeps: the least heap follows from the percentage, from -1 by overflow. */
static bool is_controller(const uint8_t *c)
{
	int64_t percent = half(c), limit = (int64_t)word(c + LAYOUT_LIMIT);
	uint64_t minimum = word(c + LAYOUT_MINIMUM);

	return percent >= -1 && limit >= 0 && minimum == GOGC_UNIT * (uint64_t)percent / 100;
}

static int read_controller(struct reading *g)
{
	uint8_t c[LAYOUT_CONTROLLER + 8];
	uint64_t goal = 0;
	int err = -EAGAIN;

	for (int i = 0; i < TRIES && err == -EAGAIN; i++) {
		err = fetch(g->r, g->p->at[RUNTIME_CONTROLLER], c, g->l->mapped + 8u);
		if (!err)
			err = is_controller(c) ? goal_of(g->l, c, &goal) : -EAGAIN;
	}
	if (err && err != -EAGAIN)
		return err;
	if (!is_controller(c) || err) {
		g->odd = true;
		return 0;
	}
	g->out->limit_bytes = (int64_t)word(c + LAYOUT_LIMIT);
	if (g->out->limit_bytes != INT64_MAX) /* else there is none */
		have(g, RUNTIME_LIMIT);
	g->out->gogc = half(c);
	if (g->out->gogc >= 0) /* else the collector is off */
		have(g, RUNTIME_GOGC);
	g->out->goal_bytes = (int64_t)goal;
	if (goal <= INT64_MAX)
		have(g, RUNTIME_GOAL);
	return 0;
}

/* ---- the scheduler ---- */

#define EDGE(ns) ((double)(1ull << (ns)) / 1e9)
const double runtime_bounds[RUNTIME_BOUNDS] = {
	EDGE(10), EDGE(11), EDGE(12), EDGE(13), EDGE(14), EDGE(15), EDGE(16), EDGE(17), EDGE(18),
	EDGE(19), EDGE(20), EDGE(21), EDGE(22), EDGE(23), EDGE(24), EDGE(25), EDGE(26), EDGE(27),
	EDGE(28), EDGE(29), EDGE(30), EDGE(31), EDGE(32), EDGE(33), EDGE(34),
};
#undef EDGE

/* timeHistogram: a row of buckets for each power of two; rows are merged, which is exact. Row n
 * ends before 2^(n + 8) ns, or 2^(n + 4) for the fine ones. */
static int read_times(struct reading *g, uint64_t addr, enum runtime_value v,
		      struct runtime_times *out)
{
	size_t columns = g->l->fine ? 16 : 4, rows = g->l->fine ? 45 : 40;
	int first = g->l->fine ? 4 : 8;
	size_t n = rows * columns + (g->l->fine ? 1 : 2); /* below zero; too long */
	uint64_t counts[LAYOUT_TIMES];
	int err = fetch(g->r, addr, counts, n * sizeof(counts[0]));

	if (err)
		return err;
	for (size_t i = 0; i < n; i++) {
		int row = (int)(i / columns), to = row + first - 10;

		if (i == rows * columns) /* below zero */
			to = 0;
		else if (i > rows * columns)
			to = RUNTIME_BOUNDS;
		to = to < 0 ? 0 : to > RUNTIME_BOUNDS ? RUNTIME_BOUNDS : to;
		if (counts[i] > INT64_MAX / 4096) {
			g->odd = true;
			return 0;
		}
		out->counts[to] += counts[i];
	}
	have(g, v);
	return 0;
}

static bool slice_ok(const uint64_t s[3])
{
	return s[0] && s[1] && s[1] <= s[2];
}

/* Each P's number in the list, which is its place there, and its free goroutines. */
static int read_procs(struct reading *g, const uint64_t *procs, size_t n, int64_t *nfree)
{
	struct iovec there[2 * CHUNK];
	int32_t got[2 * CHUNK];

	for (size_t from = 0; from < n; from += CHUNK) {
		size_t m = n - from < CHUNK ? n - from : CHUNK;
		struct iovec here = { got, 2 * m * sizeof(got[0]) };
		ssize_t size;

		for (size_t i = 0; i < m; i++) {
			uint64_t p = procs[from + i];

			there[2 * i] = (struct iovec){ at(p + g->p->p_id), 4 };
			there[2 * i + 1] =
				(struct iovec){ at(p + g->p->p_gfree + LAYOUT_GFREE_COUNT), 4 };
		}
		size = process_vm_readv(g->r->pid, &here, 1, there, 2 * m, 0);
		if (size < 0)
			return -errno;
		if ((size_t)size != here.iov_len)
			return -EFAULT;
		for (size_t i = 0; i < m; i++) {
			if (got[2 * i] != (int32_t)(from + i) || got[2 * i + 1] < 0)
				return -EAGAIN;
			*nfree += got[2 * i + 1];
		}
	}
	return 0;
}

/* gcount(). -EAGAIN: the numbers are not of one moment. */
static int count_goroutines(struct reading *g, int64_t *procs, int64_t *goroutines)
{
	uint64_t allp[3], allgs[3] = { 0 };
	auto_free uint64_t *list = NULL;
	const struct runtime_layout *l = g->l;
	uint8_t sched[512];
	int64_t nfree = 0, n;
	int err = fetch(g->r, g->p->at[RUNTIME_ALLP], allp, sizeof(allp));

	if (err)
		return err;
	if (!slice_ok(allp) || allp[1] > PROCS_MAX)
		return -EAGAIN;
	list = malloc(allp[1] * sizeof(*list));
	if (!list)
		return -ENOMEM;
	err = fetch(g->r, allp[0], list, allp[1] * sizeof(*list));
	if (!err)
		err = read_procs(g, list, allp[1], &nfree);
	*procs = (int64_t)allp[1];
	if (err || !wanted(g, RUNTIME_GOROUTINES))
		return err;
	err = fetch(g->r, g->p->at[RUNTIME_ALLGS], allgs, sizeof(allgs));
	if (!err)
		err = fetch(g->r, g->p->at[RUNTIME_SCHED], sched, l->gfree[0] + 32u);
	if (err)
		return err;
	n = (int64_t)allgs[1];
	for (size_t i = 0; i < ARRAY_SIZE(l->gfree) && l->gfree[i]; i++)
		nfree += half(sched + l->gfree[i]);
	/* Go 1.26 counts the runtime's own as well. */
	*goroutines = n - nfree - (l->from < 26 ? half(sched + l->ngsys) : 0);
	if (!slice_ok(allgs) || nfree < 0 || nfree >= n || half(sched + l->ngsys) < 0)
		return -EAGAIN;
	if (*goroutines < 1)
		*goroutines = 1;
	return 0;
}

static int read_scheduler(struct reading *g)
{
	int64_t procs = 0, goroutines = 0;
	int err = -EAGAIN;

	for (int i = 0; i < TRIES && err == -EAGAIN; i++)
		err = count_goroutines(g, &procs, &goroutines);
	if (err == -EAGAIN) {
		g->odd = true;
		return 0;
	}
	if (err)
		return err;
	g->out->processors = procs;
	have(g, RUNTIME_PROCESSORS);
	g->out->goroutines = goroutines;
	have(g, RUNTIME_GOROUTINES);
	return 0;
}

/* ---- work ---- */

/* Of the last collection, as the program itself would say. */
static int read_cpu(struct reading *g)
{
	static const uint8_t fields[] = { LAYOUT_CPU_GC, LAYOUT_CPU_SCAVENGE, LAYOUT_CPU_IDLE,
					  LAYOUT_CPU_USER };
	uint8_t cpu[LAYOUT_CPU];
	double s[ARRAY_SIZE(fields)];
	int64_t all;
	int err = fetch(g->r, g->p->at[RUNTIME_WORK], cpu, sizeof(cpu));

	if (err)
		return err;
	all = (int64_t)word(cpu + LAYOUT_CPU_TOTAL);
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		int64_t v = (int64_t)word(cpu + fields[i]);

		/* A pause is counted before the rest, at the collection's end. */
		if (v < 0 || v > all + all / 8 + 1000000000) {
			g->odd = true;
			return 0;
		}
		s[i] = (double)v / 1e9;
	}
	g->out->gc_s = s[0];
	g->out->scavenge_s = s[1];
	g->out->idle_s = s[2];
	g->out->user_s = s[3];
	have(g, RUNTIME_CPU);
	return 0;
}

static int read_all(struct reading *g)
{
	const struct runtime_layout *l = g->l;
	const struct runtime_plan *p = g->p;
	int err = 0;

	if (p->at[RUNTIME_MEMSTATS])
		err = read_memstats(g);
	if (!err && p->at[RUNTIME_CONTROLLER])
		err = read_controller(g);
	if (!err && wanted(g, RUNTIME_PROCESSORS))
		err = read_scheduler(g);
	if (!err && wanted(g, RUNTIME_SCHEDULE))
		err = read_times(g, p->at[RUNTIME_SCHED] + l->time_to_run, RUNTIME_SCHEDULE,
				 &g->out->schedule);
	if (!err && wanted(g, RUNTIME_PAUSES))
		err = read_times(g,
				 l->pauses ? p->at[RUNTIME_SCHED] + l->pauses
					   : p->at[RUNTIME_MEMSTATS] + l->pause_dist,
				 RUNTIME_PAUSES, &g->out->pauses);
	if (!err && wanted(g, RUNTIME_CPU))
		err = read_cpu(g);
	return err;
}

static bool is_same(const struct go_runtime *r, const char *proc_root)
{
	uint64_t start_time, stack;

	return proc_image(proc_root, r->pid, &start_time, &stack) == 0 &&
	       start_time == r->start_time && stack == r->stack;
}

int runtime_read(struct runtime_numbers *out, const struct go_runtime *r, const char *proc_root)
{
	struct runtime_numbers numbers = { 0 };
	struct reading g = { .r = r, .l = r->plan.layout, .p = &r->plan, .out = &numbers };
	int err;

	*out = numbers;
	if (!g.l)
		return 0;
	if (!is_same(r, proc_root))
		return -ESRCH;
	err = read_all(&g);
	/* The pid, and the memory, can have become another program's meanwhile. */
	if (!is_same(r, proc_root))
		return -ESRCH;
	if (err) {
		stat_add(runtime_failed, 1);
		return err;
	}
	if (g.odd)
		stat_add(runtime_odd, 1);
	*out = numbers;
	return 0;
}
