#include "base/base.h"
#include "inspect.h"
#include "runtime/runtime.h"

#include <inttypes.h>
#include <jansson.h>

static uint64_t sum(const struct runtime_times *t)
{
	uint64_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(t->counts); i++)
		n += t->counts[i];
	return n;
}

/* What it is now, for people. */
static void text_now(FILE *f, const struct runtime_numbers *n, enum runtime_value v)
{
	switch (v) {
	case RUNTIME_MEMORY:
		(void)fprintf(f, "stack %" PRId64 ", other %" PRId64 " bytes", n->stack_bytes,
			      n->other_bytes);
		return;
	case RUNTIME_LIMIT:
		(void)fprintf(f, "%" PRId64 " bytes", n->limit_bytes);
		return;
	case RUNTIME_ALLOCATED:
		(void)fprintf(f, "%" PRId64 " bytes in %" PRId64 " allocations", n->allocated_bytes,
			      n->allocations);
		return;
	case RUNTIME_GOAL:
		(void)fprintf(f, "%" PRId64 " bytes", n->goal_bytes);
		return;
	case RUNTIME_CYCLES:
		(void)fprintf(f, "%" PRId64, n->cycles);
		return;
	case RUNTIME_PAUSES:
		(void)fprintf(f, "%" PRIu64 " pauses", sum(&n->pauses));
		return;
	case RUNTIME_GOROUTINES:
		(void)fprintf(f, "%" PRId64, n->goroutines);
		return;
	case RUNTIME_PROCESSORS:
		(void)fprintf(f, "%" PRId64, n->processors);
		return;
	case RUNTIME_SCHEDULE:
		(void)fprintf(f, "%" PRIu64 " times", sum(&n->schedule));
		return;
	case RUNTIME_GOGC:
		(void)fprintf(f, "%" PRId64 "%%", n->gogc);
		return;
	case RUNTIME_CPU:
		(void)fprintf(f, "user %.3f, gc %.3f, scavenge %.3f, idle %.3f s", n->user_s,
			      n->gc_s, n->scavenge_s, n->idle_s);
		return;
	default:;
	}
}

void inspect_runtime_text(FILE *f, const struct inspect *in)
{
	size_t n = 0;

	for (size_t v = 0; v < RUNTIME_VALUES; v++)
		n += !in->runtime->missing[v];
	(void)fprintf(f, "\nGo runtime metrics: %zu of %d can be read\n", n, RUNTIME_VALUES);
	if (!in->runtime->layout) {
		(void)fprintf(f, "  - %s\n", in->runtime->missing[0]);
		return;
	}
	for (size_t v = 0; v < RUNTIME_VALUES; v++) {
		const char *missing = in->runtime->missing[v];

		(void)fprintf(f, "  %c %s", missing ? '-' : '+', runtime_value_name(v));
		if (missing) {
			(void)fprintf(f, ": %s", missing);
		} else if (in->now) {
			(void)fputs(": ", f);
			if (in->now->have >> v & 1)
				text_now(f, in->now, v);
			else
				(void)fputs("none now", f);
		}
		(void)fputc('\n', f);
	}
	if (in->pid && !in->now)
		(void)fputs("  (the process's memory cannot be read: that takes CAP_SYS_PTRACE)\n",
			    f);
}

static json_t *json_times(const struct runtime_times *t)
{
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(t->counts); i++)
		json_array_append_new(list, json_integer((json_int_t)t->counts[i]));
	return list;
}

static json_t *json_now(const struct runtime_numbers *n, enum runtime_value v)
{
	switch (v) {
	case RUNTIME_MEMORY:
		return json_pack("{s:I, s:I}", "stack", (json_int_t)n->stack_bytes, "other",
				 (json_int_t)n->other_bytes);
	case RUNTIME_LIMIT:
		return json_integer(n->limit_bytes);
	case RUNTIME_ALLOCATED:
		return json_pack("{s:I, s:I}", "bytes", (json_int_t)n->allocated_bytes,
				 "allocations", (json_int_t)n->allocations);
	case RUNTIME_GOAL:
		return json_integer(n->goal_bytes);
	case RUNTIME_CYCLES:
		return json_integer(n->cycles);
	case RUNTIME_PAUSES:
		return json_times(&n->pauses);
	case RUNTIME_GOROUTINES:
		return json_integer(n->goroutines);
	case RUNTIME_PROCESSORS:
		return json_integer(n->processors);
	case RUNTIME_SCHEDULE:
		return json_times(&n->schedule);
	case RUNTIME_GOGC:
		return json_integer(n->gogc);
	case RUNTIME_CPU:
		return json_pack("{s:f, s:f, s:f, s:f}", "user", n->user_s, "gc", n->gc_s,
				 "scavenge", n->scavenge_s, "idle", n->idle_s);
	default:
		return json_null();
	}
}

json_t *inspect_runtime_json(const struct inspect *in)
{
	json_t *list = json_array();

	for (size_t v = 0; v < RUNTIME_VALUES; v++) {
		const char *missing = in->runtime->missing[v];
		json_t *one = json_pack("{s:s, s:b, s:s?}", "name", runtime_value_name(v),
					"readable", !missing, "missing", missing);

		if (in->now && !missing)
			json_object_set_new(one, "now",
					    in->now->have >> v & 1 ? json_now(in->now, v)
								   : json_null());
		json_array_append_new(list, one);
	}
	return list;
}
