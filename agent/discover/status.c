#include "discover/status.h"

#include "base/config.h"
#include "base/utf8.h"
#include "discover/decide.h"
#include "discover/kubelet.h"
#include "discover/pod.h"
#include "discover/roster.h"
#include "discover/worker.h"
#include "trace/lib.h"
#include "trace/target.h"

#include <stdio.h>
#include <time.h>

/* What the events thread has counted for one slot. */
struct count {
	uint16_t slot;
	uint32_t generation;
	uint64_t spans[LIBS_MAX], last_event_ns;
	uint64_t left, below; /* to an SDK; under its spans */
};

struct counts {
	struct count *v;
	size_t n, room;
};

struct appending {
	const struct status *status;
	const struct counts *counts;
	json_t *processes;
	int err;
};

static void copy_count(const struct target *t, void *arg)
{
	struct counts *counts = arg;
	struct count *c;

	if (counts->n == counts->room) {
		size_t room = counts->room ? 2 * counts->room : 32;
		struct count *more = reallocarray(counts->v, room, sizeof(*more));

		if (!more)
			return;
		counts->v = more;
		counts->room = room;
	}
	c = &counts->v[counts->n++];
	c->slot = t->slot;
	c->generation = t->generation;
	c->last_event_ns = atomic_load_explicit(&t->last_event_ns, memory_order_relaxed);
	c->left = atomic_load_explicit(&t->left, memory_order_relaxed);
	c->below = atomic_load_explicit(&t->below, memory_order_relaxed);
	for (size_t i = 0; i < LIBS_MAX; i++)
		c->spans[i] = atomic_load_explicit(&t->spans[i], memory_order_relaxed);
}

static const struct count *count_of(const struct counts *counts, const struct worker_result *r)
{
	for (size_t i = 0; i < counts->n; i++)
		if (counts->v[i].slot == r->slot && counts->v[i].generation == r->generation)
			return &counts->v[i];
	return NULL;
}

/* Unix seconds of a CLOCK_BOOTTIME instant. */
static double unix_time(uint64_t boot_ns)
{
	struct timespec real, boot;

	(void)clock_gettime(CLOCK_REALTIME, &real);
	(void)clock_gettime(CLOCK_BOOTTIME, &boot);
	return (double)real.tv_sec + (double)real.tv_nsec / 1e9 - (double)boot.tv_sec -
	       (double)boot.tv_nsec / 1e9 + (double)boot_ns / 1e9;
}

static const struct pod *pod_of(const struct pods *pods, const struct entry *e)
{
	const struct pod *pod = NULL;

	return pods_find(pods, e->proc.container_id, &pod)
		       ? pod
		       : pods_find_cgroup(pods, e->proc.pod_uid);
}

/* A name of a file may be any bytes, and a sentence may be cut in the middle of a character: JSON
 * takes neither. */
static json_t *repaired(const char *text)
{
	char copy[1024];

	(void)snprintf(copy, sizeof(copy), "%s", text);
	utf8_repair(copy, strlen(copy));
	return json_string(copy);
}

static const char *text_or_null(const char *text)
{
	return text && *text ? text : NULL;
}

static json_t *parts_json(const struct lib *lib, size_t i, const struct worker_result *r)
{
	json_t *parts = json_array();

	for (size_t part = 0; part < lib->nparts; part++) {
		const char *why = r->disabled[i];
		bool whole = r->parts[i] >> part & 1;

		for (size_t k = 0; k < r->nlacks && !why; k++)
			if (r->lacks[k].lib == i && r->lacks[k].part == part)
				why = r->lacks[k].why;
		(void)json_array_append_new(parts, json_pack("{s:s, s:b, s:s*, s:s*}", "name",
							     lib->parts[part].name, "traced",
							     whole && r->outcome == WORKER_TRACED,
							     "missing", whole ? NULL : why, "lost",
							     whole ? NULL : lib->parts[part].lost));
	}
	return parts;
}

static json_t *libraries_json(const struct worker_result *r, const struct count *count)
{
	json_t *libs = json_array();

	for (size_t i = 0; i < lib_count() && i < LIBS_MAX; i++) {
		const struct lib *lib = lib_at(i);
		json_t *probes;

		if (r->absent[i])
			continue;
		probes = json_array();
		for (size_t k = 0; k < lib->nprobes; k++)
			if (r->probes[i] >> k & 1 && r->outcome == WORKER_TRACED)
				(void)json_array_append_new(probes,
							    json_string(lib->probes[k].name));
		(void)json_array_append_new(
			libs, json_pack("{s:s, s:o, s:o, s:s*, s:I}", "name", lib->name, "parts",
					parts_json(lib, i, r), "probes", probes, "disabled",
					r->disabled[i], "spans",
					(json_int_t)(count ? count->spans[i] : 0)));
	}
	return libs;
}

/* What the SDK in the program means for its spans; null without one. */
static json_t *sdk_json(const struct worker_result *r, const struct count *count)
{
	if (!r->sdk[0])
		return json_null();
	return json_pack("{s:o, s:I, s:I}", "what", repaired(r->sdk), "operations_left_to_it",
			 (json_int_t)(count ? count->left : 0), "operations_under_its_spans",
			 (json_int_t)(count ? count->below : 0));
}

/* Which go.* metrics the process lacks, and why; null: none is asked for. */
static json_t *runtime_json(const struct worker_result *r)
{
	json_t *lacks = json_object();
	json_int_t n = 0;

	if (!r->runtime) {
		json_decref(lacks);
		return json_null();
	}
	for (enum runtime_value v = 0; v < RUNTIME_VALUES; v++)
		if (r->no_runtime[v])
			(void)json_object_set_new(lacks, runtime_value_name(v),
						  json_string(r->no_runtime[v]));
		else
			n++;
	return json_pack("{s:I, s:o}", "read", n, "missing", lacks);
}

static json_t *process_json(const struct status *s, const struct counts *counts,
			    const struct entry *e)
{
	const struct worker_result *r = e->result;
	const struct count *count = r ? count_of(counts, r) : NULL;
	const struct pod *pod = pod_of(s->pods, e), *unused;
	const struct container *c = pods_find(s->pods, e->proc.container_id, &unused);
	uint64_t spans = 0;
	json_t *j;

	j = json_pack("{s:i, s:o, s:s*, s:s*, s:s*, s:s*, s:s, s:o}", "pid", e->proc.pid,
		      "executable", repaired(e->proc.exe), "namespace",
		      pod ? pod->namespace_ : NULL, "pod", pod ? pod->name : NULL, "container",
		      c ? c->name : NULL, "container_id", text_or_null(e->proc.container_id),
		      "state", roster_state_name(e->state), "reason", repaired(e->reason));
	if (!j || !r || (r->outcome == WORKER_NOT_GO))
		return j;
	for (size_t i = 0; count && i < LIBS_MAX; i++)
		spans += count->spans[i];
	(void)json_object_set_new(j, "go_version", repaired(r->go_version));
	(void)json_object_set_new(
		j, "probes",
		json_integer(r->outcome == WORKER_TRACED ? (json_int_t)r->nprobes : 0));
	(void)json_object_set_new(j, "libraries", libraries_json(r, count));
	(void)json_object_set_new(j, "sdk", sdk_json(r, count));
	(void)json_object_set_new(j, "runtime_metrics", runtime_json(r));
	(void)json_object_set_new(j, "spans",
				  e->state == ROSTER_ENDED ? json_null()
							   : json_integer((json_int_t)spans));
	(void)json_object_set_new(j, "last_event",
				  count && count->last_event_ns
					  ? json_real(unix_time(count->last_event_ns))
					  : json_null());
	return j;
}

static bool append_process(struct entry *e, void *arg)
{
	struct appending *a = arg;

	if (json_array_append_new(a->processes, process_json(a->status, a->counts, e)))
		a->err = -ENOMEM;
	return true;
}

/* How many processes each pod has, and of these are traced; by its index in the list. */
struct tally {
	const struct pods *pods;
	size_t (*of)[2];
};

static bool tally_process(struct entry *e, void *arg)
{
	const struct tally *t = arg;
	const struct pod *pod = pod_of(t->pods, e);

	if (pod) {
		size_t i = (size_t)(pod - pods_at(t->pods, 0));

		t->of[i][0]++;
		t->of[i][1] += e->state == ROSTER_TRACED;
	}
	return true;
}

static json_t *pods_json(const struct status *s)
{
	json_t *pods = json_array();
	struct tally tally = { s->pods, calloc(pods_count(s->pods) + 1, sizeof(*tally.of)) };

	if (tally.of)
		roster_foreach(s->roster, tally_process, &tally);
	for (size_t i = 0; i < pods_count(s->pods) && tally.of; i++) {
		const struct pod *pod = pods_at(s->pods, i);
		struct decision d = decide_pod(s->cfg, pod);

		(void)json_array_append_new(
			pods,
			json_pack("{s:s, s:s, s:s, s:s, s:b, s:o, s:I, s:I}", "namespace",
				  pod->namespace_, "name", pod->name, "uid", pod->uid, "phase",
				  pod->phase, "selected", d.state == DECIDE_TRACE, "reason",
				  repaired(d.reason), "processes", (json_int_t)tally.of[i][0],
				  "traced", (json_int_t)tally.of[i][1]));
	}
	free(tally.of);
	return pods;
}

static json_t *kubelet_json(const struct status *s)
{
	struct kubelet_state state;

	if (!s->kubelet)
		return json_pack("{s:b}", "asked", 0);
	kubelet_state(s->kubelet, &state);
	return json_pack("{s:b, s:s, s:o, s:s, s:o, s:I}", "asked", 1, "state",
			 kubelet_why_label(state.why), "message", repaired(state.message),
			 "tls_mode", state.tls_mode, "last_success",
			 state.last_success > 0 ? json_real(state.last_success) : json_null(),
			 "pods", (json_int_t)pods_count(s->pods));
}

int status_append(const struct status *s, json_t *root)
{
	struct counts counts = { 0 };
	struct appending a = { s, &counts, json_array(), 0 };

	if (s->targets)
		targets_foreach(s->targets, copy_count, &counts);
	roster_foreach(s->roster, append_process, &a);
	for (struct entry *e = s->roster->ended; e; e = e->next)
		(void)append_process(e, &a);
	free(counts.v);
	if (json_object_set_new(root, "pods", pods_json(s)) ||
	    json_object_set_new(root, "processes", a.processes) ||
	    json_object_set_new(root, "kubelet", kubelet_json(s)))
		return -ENOMEM;
	return a.err;
}
