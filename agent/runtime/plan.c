/* Finds the runtime's variables in the code of functions that use them: by what they call with the
 * variable's address as the receiver, or by reading both words of a slice. A stripped program has
 * no other trace of them. */
#include "gobin/gobin.h"
#include "runtime/layout.h"
#include "runtime/runtime.h"

#define REFS_MAX 512

enum function {
	GCINIT,
	INIT,
	ALLOC_SPAN,
	FREE_SPAN,
	REFILL,
	ACQUIRE,
	GOMAXPROCS,
	SCHEDTRACE,
	LOCK2,
	CASGSTATUS,
	RECORD,
	PREEMPTALL,
	FOREACHG,
	MARK_TERMINATION,
	ACCUMULATE,
	FUNCTIONS
};

#define NAME(name) ((const char *const[]){ "runtime." name, NULL })
static const char *const *const names[FUNCTIONS] = {
	[GCINIT] = NAME("gcinit"),
	[INIT] = NAME("(*gcControllerState).init"),
	[ALLOC_SPAN] = NAME("(*mheap).allocSpan"),
	[FREE_SPAN] = NAME("(*mheap).freeSpanLocked"),
	[REFILL] = NAME("(*mcache).refill"),
	[ACQUIRE] = NAME("(*consistentHeapStats).acquire"),
	[GOMAXPROCS] = NAME("GOMAXPROCS"),
	[SCHEDTRACE] = NAME("schedtrace"),
	[LOCK2] = NAME("lock2"),
	[CASGSTATUS] = NAME("casgstatus"),
	[RECORD] = NAME("(*timeHistogram).record"),
	[PREEMPTALL] = NAME("preemptall"),
	[FOREACHG] = NAME("forEachG"),
	[MARK_TERMINATION] = NAME("gcMarkTermination"),
	[ACCUMULATE] = NAME("(*cpuStats).accumulate"),
};
#undef NAME

struct search {
	struct gobin *g;
	struct gobin_func funcs[FUNCTIONS];
	struct gobin_ref refs[REFS_MAX];
	size_t n;
	enum function of; /* whose refs they are; FUNCTIONS: none's */
};

/* False: it is not there, or not readable. */
static bool look(struct search *s, enum function f)
{
	if (s->of == f)
		return s->n;
	s->of = f;
	s->n = 0;
	return s->funcs[f].name && gobin_refs(s->g, &s->funcs[f], s->refs, REFS_MAX, &s->n) == 0 &&
	       s->n;
}

/* The address that was last taken before the first call of callee: a method's receiver, what is
 * locked. 0: none. */
static uint64_t given(struct search *s, enum function caller, enum function callee)
{
	uint64_t addr = 0;

	if (!s->funcs[callee].name || !look(s, caller))
		return 0;
	for (size_t i = 0; i < s->n; i++) {
		if (s->refs[i].kind == GOBIN_REF_ADDRESS)
			addr = s->refs[i].addr;
		if (s->refs[i].kind == GOBIN_REF_CALL && s->refs[i].addr == s->funcs[callee].entry)
			return addr;
		if (s->refs[i].kind == GOBIN_REF_CALL)
			addr = 0; /* it was for that call */
	}
	return 0;
}

/* The slice whose pointer and length are the first two words that lie side by side and are read one
 * after the other. 0: none. */
static uint64_t slice(struct search *s, enum function f)
{
	const struct gobin_ref *r = s->refs;

	if (!look(s, f))
		return 0;
	for (size_t i = 0; i + 1 < s->n; i++)
		if (r[i].kind == GOBIN_REF_READ && r[i + 1].kind == GOBIN_REF_READ &&
		    r[i].size == 8 && r[i + 1].size == 8 &&
		    (r[i].addr + 8 == r[i + 1].addr || r[i].addr == r[i + 1].addr + 8))
			return r[i].addr < r[i + 1].addr ? r[i].addr : r[i + 1].addr;
	return 0;
}

/* One that several say: all that say anything must say the same. */
static uint64_t agreed(const uint64_t *said, size_t n)
{
	uint64_t addr = 0;

	for (size_t i = 0; i < n; i++) {
		if (said[i] && addr && said[i] != addr)
			return 0;
		if (said[i])
			addr = said[i];
	}
	return addr;
}

static uint64_t less(uint64_t addr, uint16_t offset)
{
	return addr > offset ? addr - offset : 0;
}

static void find_variables(struct runtime_plan *out, struct search *s)
{
	const struct runtime_layout *l = out->layout;
	const uint64_t memstats[] = { given(s, ALLOC_SPAN, ACQUIRE), given(s, FREE_SPAN, ACQUIRE),
				      given(s, REFILL, ACQUIRE) };
	const uint64_t sched[] = { less(given(s, GOMAXPROCS, LOCK2), l->lock),
				   less(given(s, SCHEDTRACE, LOCK2), l->lock),
				   less(given(s, CASGSTATUS, RECORD), l->time_to_run) };

	out->at[RUNTIME_MEMSTATS] = agreed(memstats, ARRAY_SIZE(memstats));
	out->at[RUNTIME_CONTROLLER] = given(s, GCINIT, INIT);
	out->at[RUNTIME_SCHED] = agreed(sched, ARRAY_SIZE(sched));
	out->at[RUNTIME_ALLP] = slice(s, PREEMPTALL);
	out->at[RUNTIME_ALLGS] = slice(s, FOREACHG);
	out->at[RUNTIME_WORK] = given(s, MARK_TERMINATION, ACCUMULATE);
}

/* What the binary describes. False: it contradicts the layout. */
static int find_fields(struct runtime_plan *out, struct gobin *g, bool *agrees)
{
	static const struct gobin_want want[] = {
		{ "runtime.p", "id" },
		{ "runtime.p", "gFree" },
		{ "runtime.heapStatsDelta", "" },
		{ "runtime.heapStatsDelta", "released" },
		{ "runtime.heapStatsDelta", "inStacks" },
		{ "runtime.heapStatsDelta", "largeAlloc" },
		{ "runtime.heapStatsDelta", "smallAllocCount" },
	};
	const struct runtime_layout *l = out->layout;
	const uint32_t known[] = { 0,        0,       l->delta, LAYOUT_RELEASED, LAYOUT_STACKS,
				   l->large, l->small };
	struct gobin_field found[ARRAY_SIZE(want)];
	int err = gobin_fields(g, want, ARRAY_SIZE(want), found);

	if (err)
		return err;
	out->p_id = found[0].source == GOBIN_NOWHERE ? UINT32_MAX : found[0].offset;
	out->p_gfree = found[1].source == GOBIN_NOWHERE ? UINT32_MAX : found[1].offset;
	for (size_t i = 2; i < ARRAY_SIZE(want); i++)
		*agrees = *agrees &&
			  (found[i].source == GOBIN_NOWHERE || found[i].offset == known[i]);
	return 0;
}

static const char *first(const char *a, const char *b)
{
	return a ? a : b;
}

static void judge(struct runtime_plan *p, bool agrees)
{
	const char *memstats =
		p->at[RUNTIME_MEMSTATS] ? NULL : "runtime.memstats was not found in its code";
	const char *controller =
		p->at[RUNTIME_CONTROLLER] ? NULL : "runtime.gcController was not found in its code";
	const char *sched = p->at[RUNTIME_SCHED] ? NULL : "runtime.sched was not found in its code";
	const char *allp = p->at[RUNTIME_ALLP] ? NULL : "runtime.allp was not found in its code";
	const char *allgs = p->at[RUNTIME_ALLGS] ? NULL : "runtime.allgs was not found in its code";
	const char *types =
		agrees ? NULL : "its type metadata contradicts the layout of that version of Go";
	const char *fields = p->p_id == UINT32_MAX || p->p_gfree == UINT32_MAX
				     ? "fields of runtime.p are not in its type metadata"
				     : NULL;
	const char **m = p->missing;

	m[RUNTIME_MEMORY] = m[RUNTIME_ALLOCATED] = first(memstats, types);
	m[RUNTIME_CYCLES] = memstats;
	m[RUNTIME_LIMIT] = m[RUNTIME_GOAL] = m[RUNTIME_GOGC] = controller;
	m[RUNTIME_PROCESSORS] = first(allp, fields);
	m[RUNTIME_GOROUTINES] = first(first(sched, allgs), first(allp, fields));
	m[RUNTIME_SCHEDULE] = sched;
	m[RUNTIME_PAUSES] = p->layout->pause_dist ? memstats : sched;
	if (!p->at[RUNTIME_WORK])
		m[RUNTIME_CPU] = "runtime.work was not found in its code (before Go 1.21 there is "
				 "nothing to find)";
}

int runtime_plan(struct runtime_plan *out, struct gobin *g)
{
	auto_free struct search *s = calloc(1, sizeof(*s));
	bool agrees = true;
	int err;

	*out = (struct runtime_plan){ .layout = runtime_layout(gobin_info(g)->go_version),
				      .p_id = UINT32_MAX,
				      .p_gfree = UINT32_MAX };
	if (!s)
		return -ENOMEM;
	if (!out->layout) {
		for (size_t i = 0; i < RUNTIME_VALUES; i++)
			out->missing[i] = "the layout of the runtime of that version of Go is not "
					  "known";
		return 0;
	}
	s->g = g;
	s->of = FUNCTIONS;
	err = gobin_funcs(g, names, FUNCTIONS, s->funcs);
	if (!err)
		err = find_fields(out, g, &agrees);
	if (err)
		return err;
	find_variables(out, s);
	judge(out, agrees);
	return 0;
}

const char *runtime_value_name(enum runtime_value v)
{
	static const char *const values[RUNTIME_VALUES] = {
		[RUNTIME_MEMORY] = "go.memory.used",
		[RUNTIME_LIMIT] = "go.memory.limit",
		[RUNTIME_ALLOCATED] = "go.memory.allocated",
		[RUNTIME_GOAL] = "go.memory.gc.goal",
		[RUNTIME_CYCLES] = "go.memory.gc.cycles",
		[RUNTIME_PAUSES] = "go.memory.gc.pause.duration",
		[RUNTIME_GOROUTINES] = "go.goroutine.count",
		[RUNTIME_PROCESSORS] = "go.processor.limit",
		[RUNTIME_SCHEDULE] = "go.schedule.duration",
		[RUNTIME_GOGC] = "go.config.gogc",
		[RUNTIME_CPU] = "go.cpu.time",
	};

	return (unsigned)v < RUNTIME_VALUES ? values[v] : "unknown";
}

struct go_runtime *go_runtime_new(const struct runtime_plan *plan, int pid, uint64_t start_time,
				  uint64_t stack, uint64_t bias)
{
	struct go_runtime *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	atomic_init(&r->refs, 1);
	r->plan = *plan;
	for (size_t i = 0; i < ARRAY_SIZE(r->plan.at); i++)
		r->plan.at[i] += r->plan.at[i] ? bias : 0;
	r->pid = pid;
	r->start_time = start_time;
	r->stack = stack;
	return r;
}

struct go_runtime *go_runtime_ref(struct go_runtime *r)
{
	if (r)
		atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
	return r;
}

void go_runtime_put(struct go_runtime **p)
{
	struct go_runtime *r = take(*p);

	if (r && atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1)
		free(r);
}
