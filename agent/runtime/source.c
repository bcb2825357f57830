/* Semantic conventions 1.44, "Go runtime metrics". */
#include "runtime/source.h"

#include "base/config.h"
#include "pipeline/resource.h"
#include "runtime/runtime.h"
#include "trace/target.h"

#define SCOPE "spoor/go/runtime"

struct runtime_source {
	const char *proc_root;
	struct targets *targets;
};

int runtime_source_new(struct runtime_source **out, const struct config *cfg, struct targets *t)
{
	struct runtime_source *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->proc_root = cfg->proc_root;
	s->targets = t;
	*out = s;
	return 0;
}

void runtime_source_free(struct runtime_source **s)
{
	free(take(*s));
}

#define INSTRUMENT(id, of_kind, of_name, of_unit, of_help)                                         \
	static const struct instrument id = {                                                      \
		.name = (of_name), .unit = (of_unit), .help = (of_help), .kind = (of_kind)         \
	}

INSTRUMENT(memory, INSTRUMENT_UPDOWN, "go.memory.used", "By", "Memory used by the Go runtime.");
INSTRUMENT(limit, INSTRUMENT_UPDOWN, "go.memory.limit", "By",
	   "Go runtime memory limit configured by the user, if a limit exists.");
INSTRUMENT(allocated, INSTRUMENT_COUNTER, "go.memory.allocated", "By",
	   "Memory allocated to the heap by the application.");
INSTRUMENT(allocations, INSTRUMENT_COUNTER, "go.memory.allocations", "{allocation}",
	   "Count of allocations to the heap by the application.");
INSTRUMENT(goal, INSTRUMENT_UPDOWN, "go.memory.gc.goal", "By",
	   "Heap size target for the end of the GC cycle.");
INSTRUMENT(cycles, INSTRUMENT_COUNTER, "go.memory.gc.cycles", "{gc_cycle}",
	   "Number of completed GC cycles.");
INSTRUMENT(goroutines, INSTRUMENT_UPDOWN, "go.goroutine.count", "{goroutine}",
	   "Count of live goroutines.");
INSTRUMENT(processors, INSTRUMENT_UPDOWN, "go.processor.limit", "{thread}",
	   "The number of OS threads that can execute user-level Go code simultaneously.");
INSTRUMENT(gogc, INSTRUMENT_UPDOWN, "go.config.gogc", "%",
	   "Heap size target percentage configured by the user, otherwise 100.");
static const struct instrument pauses = {
	.name = "go.memory.gc.pause.duration",
	.unit = "s",
	.help = "Time that the program was stopped for garbage collection.",
	.kind = INSTRUMENT_HISTOGRAM,
	.real = true
};
static const struct instrument schedule = { .name = "go.schedule.duration",
					    .unit = "s",
					    .help = "The time goroutines have spent in the "
						    "scheduler in a runnable state before actually "
						    "running.",
					    .kind = INSTRUMENT_HISTOGRAM,
					    .real = true };
static const struct instrument cpu = {
	.name = "go.cpu.time",
	.unit = "s",
	.help = "CPU time as the Go runtime estimates it, of its last garbage collection.",
	.kind = INSTRUMENT_COUNTER,
	.real = true
};

struct emitting {
	const struct point_sink *sink;
	void *arg;
	uint64_t start_ns, now_ns;
};

static struct point point_of(const struct emitting *e, const struct instrument *of)
{
	return (struct point){
		.of = of, .cumulative = true, .start_ns = e->start_ns, .time_ns = e->now_ns
	};
}

static void emit(const struct emitting *e, const struct instrument *of, int64_t v)
{
	struct point p = point_of(e, of);

	p.i = v;
	e->sink->point(e->arg, &p);
}

/* One of several that an attribute tells apart. */
static void emit_part(const struct emitting *e, const struct instrument *of, const char *key,
		      const char *value, int64_t v, double real)
{
	struct attr attr = { .key = key, .type = ATTR_STR, .s = str_of(value) };
	struct point p = point_of(e, of);

	p.attrs = &attr;
	p.nattrs = 1;
	if (of->real)
		p.d = real;
	else
		p.i = v;
	e->sink->point(e->arg, &p);
}

/* Their sum is not known: the runtime counts buckets alone. */
static void emit_times(const struct emitting *e, const struct instrument *of,
		       const struct runtime_times *times)
{
	struct point p = point_of(e, of);

	p.h = (struct histogram_view){ .bounds = runtime_bounds,
				       .nbounds = RUNTIME_BOUNDS,
				       .counts = times->counts,
				       .ncounts = RUNTIME_BOUNDS + 1 };
	for (size_t i = 0; i < p.h.ncounts; i++)
		p.h.count += times->counts[i];
	e->sink->point(e->arg, &p);
}

static bool has(const struct runtime_numbers *n, enum runtime_value v)
{
	return n->have >> v & 1;
}

static void emit_memory(const struct emitting *e, const struct runtime_numbers *n)
{
	if (has(n, RUNTIME_MEMORY)) {
		emit_part(e, &memory, "go.memory.type", "stack", n->stack_bytes, 0);
		emit_part(e, &memory, "go.memory.type", "other", n->other_bytes, 0);
	}
	if (has(n, RUNTIME_LIMIT))
		emit(e, &limit, n->limit_bytes);
	if (has(n, RUNTIME_ALLOCATED)) {
		emit(e, &allocated, n->allocated_bytes);
		emit(e, &allocations, n->allocations);
	}
	if (has(n, RUNTIME_GOAL))
		emit(e, &goal, n->goal_bytes);
	if (has(n, RUNTIME_CYCLES))
		emit(e, &cycles, n->cycles);
	if (has(n, RUNTIME_PAUSES))
		emit_times(e, &pauses, &n->pauses);
	if (has(n, RUNTIME_GOGC))
		emit(e, &gogc, n->gogc);
}

static void emit_all(const struct emitting *e, const struct runtime_numbers *n)
{
	emit_memory(e, n);
	if (has(n, RUNTIME_GOROUTINES))
		emit(e, &goroutines, n->goroutines);
	if (has(n, RUNTIME_PROCESSORS))
		emit(e, &processors, n->processors);
	if (has(n, RUNTIME_SCHEDULE))
		emit_times(e, &schedule, &n->schedule);
	if (has(n, RUNTIME_CPU)) {
		emit_part(e, &cpu, "go.cpu.state", "user", 0, n->user_s);
		emit_part(e, &cpu, "go.cpu.state", "gc", 0, n->gc_s);
		emit_part(e, &cpu, "go.cpu.state", "scavenge", 0, n->scavenge_s);
		emit_part(e, &cpu, "go.cpu.state", "idle", 0, n->idle_s);
	}
}

void runtime_collect(void *state, const struct collecting *how, const struct point_sink *sink,
		     void *arg)
{
	struct runtime_source *s = state;
	struct targets_list *list = targets_list(s->targets);

	for (size_t i = 0; list && i < list->n; i++) {
		const struct target_ref *t = &list->v[i];
		struct emitting e = {
			.sink = sink, .arg = arg, .start_ns = t->born_ns, .now_ns = how->now_ns
		};
		struct runtime_numbers n;

		if (!t->measured || !t->runtime || runtime_read(&n, t->runtime, s->proc_root) ||
		    !n.have)
			continue;
		sink->begin(arg, t->resource, SCOPE);
		emit_all(&e, &n);
	}
	targets_list_free(&list);
}
