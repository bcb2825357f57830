#include "trace/attach.h"

#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"
#include "propagate/propagate.h"
#include "trace/core.h"
#include "trace/library.h"
#include "trace/links.h"
#include "trace/sampler.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>

/* So many threads close links at a time: each waits for the kernel's grace period. */
#define CLOSERS_MAX 16

struct attach {
	const struct config *cfg;
	struct core core;
	struct sampler sampler;
	struct propagate *propagate; /* NULL: not asked for */
	struct keyed announced;      /* what is about to be written */
	struct library libs[LIBS_MAX];
	_Atomic(const char *) disabled[LIBS_MAX]; /* worker writes, anybody reads */
	bool again[LIBS_MAX];                     /* disabled for what may pass */
	struct log_limit refused[LIBS_MAX];
	pthread_mutex_t counting; /* guards the rest */
	int ncpus;
	uint64_t *per_cpu; /* ncpus */
	uint64_t counted[KERNEL_COUNTERS];
};

/* What hangs in one process. */
struct attached {
	struct links links;
	int pidfd, pid;
	uint16_t slot;
	uint32_t libs; /* bit n: library n's slot is filled */
	bool propagates;
	struct propagate_socket owner; /* what its sockets are marked with */
	uint32_t tgid;                 /* of the first PID namespace */
};

static void disable_by_config(struct attach *a)
{
	const struct list *names = &a->cfg->libraries_disabled;

	for (size_t i = 0; i < lib_count(); i++)
		if (config_has(names, lib_at(i)->name))
			atomic_store(&a->disabled[i], "disabled by libraries.disabled");
	for (size_t i = 0; i < names->n; i++) {
		bool known = false;

		lib_foreach (it)
			known = known || strcmp((*it)->name, names->v[i]) == 0;
		if (!known)
			log_warn("config: libraries.disabled: there is no library '%s'",
				 names->v[i]);
	}
}

/* What the kernel lacks now it may have later. */
static bool may_pass(int err)
{
	return err == -ENOMEM || err == -EMFILE || err == -ENFILE || err == -EAGAIN;
}

/* On first use. True when its programs are behind the dispatcher. */
static bool ready(struct attach *a, size_t i)
{
	const struct lib *lib = lib_at(i);
	const char *why = NULL;
	uint64_t skipped;
	int err;

	if (!lib->object || (atomic_load(&a->disabled[i]) && !a->again[i]))
		return false;
	if (a->libs[i].object)
		return true;
	err = library_load(&a->libs[i], lib, i, &a->core, a->cfg, attach_features(a), &why);
	if (!err) {
		stat_set(bpf_memory, attach_memory(a));
		if (a->again[i])
			log_info("%s: is traced from now on", lib->name);
		atomic_store(&a->disabled[i], NULL);
		a->again[i] = false;
		return true;
	}
	stat_add(libraries_refused, 1);
	a->again[i] = may_pass(err);
	if (a->again[i])
		why = "there was no memory or file descriptor for its programs";
	atomic_store(&a->disabled[i], why);
	if (log_allow(&a->refused[i], &skipped))
		log_error("%s: is not traced: %s: %s (log.level debug says more)%s", lib->name, why,
			  strerror(-err),
			  a->again[i] ? "; it is tried again with the next program" : "");
	return false;
}

/* For counters, which the kernel keeps for each CPU that it might have. */
static int count_cpus(struct attach *a)
{
	a->ncpus = libbpf_num_possible_cpus();
	if (a->ncpus <= 0)
		return fail(a->ncpus ? a->ncpus : -ENOENT,
			    "bpf: /sys/devices/system/cpu/possible cannot be read: %s",
			    strerror(-a->ncpus));
	a->per_cpu = calloc((size_t)a->ncpus, sizeof(*a->per_cpu));
	return a->per_cpu ? 0 : -ENOMEM;
}

int attach_open(struct attach **out, const struct config *cfg)
{
	struct attach *a = calloc(1, sizeof(*a));
	int err;

	if (!a)
		return -ENOMEM;
	a->cfg = cfg;
	(void)pthread_mutex_init(&a->counting, NULL);
	for (size_t i = 0; i < LIBS_MAX; i++)
		a->libs[i].slots = -1;
	err = core_open(&a->core, cfg);
	if (!err)
		err = propagate_open(&a->propagate, cfg, a->core.counters);
	if (!err) {
		a->core.pending = propagate_pending(a->propagate);
		err = a->core.pending ? keyed_add(&a->announced, a->core.pending) : 0;
	}
	if (!err)
		err = count_cpus(a);
	if (!err && lib_count() > LIBS_MAX)
		err = fail(-E2BIG, "bpf: more than %d libraries are built in", LIBS_MAX);
	if (!err && sampler_parse(&a->sampler, cfg->sampler, cfg->sampler_arg))
		err = fail(-EINVAL,
			   "config: traces.sampler_arg: '%s' is not a ratio between 0 and 1",
			   cfg->sampler_arg);
	if (err) {
		attach_close(&a);
		return err;
	}
	disable_by_config(a);
	for (size_t i = 0; i < lib_count(); i++)
		if (lib_at(i)->at_start)
			(void)ready(a, i);
	stat_set(bpf_memory, attach_memory(a));
	*out = a;
	return 0;
}

void attach_close(struct attach **p)
{
	struct attach *a = take(*p);

	if (!a)
		return;
	for (size_t i = 0; i < LIBS_MAX; i++)
		library_close(&a->libs[i]);
	propagate_close(&a->propagate);
	if (a->core.object)
		core_close(&a->core);
	(void)pthread_mutex_destroy(&a->counting);
	free(a->per_cpu);
	free(a);
}

const struct attach_kernel *attach_kernel(const struct attach *a)
{
	return &a->core.kernel;
}

int attach_events_fd(const struct attach *a)
{
	return a->core.events;
}

int attach_exec_fd(const struct attach *a)
{
	return a->core.execs;
}

volatile uint32_t *attach_sleeping(const struct attach *a)
{
	return &a->core.control_word->sleeping;
}

const char *attach_lib_disabled(const struct attach *a, size_t lib)
{
	return lib < LIBS_MAX ? atomic_load(&a->disabled[lib]) : NULL;
}

uint32_t attach_features(const struct attach *a)
{
	return (propagate_off(a->propagate) ? 0 : FEATURE_PROPAGATION) |
	       (propagate_write_off(a->propagate) ? 0 : FEATURE_WRITE);
}

const struct propagate *attach_propagate(const struct attach *a)
{
	return a->propagate;
}

size_t attach_memory(const struct attach *a)
{
	const struct bpf_object *propagate = propagate_maps(a->propagate);
	size_t bytes = core_memory(&a->core, a->core.object);

	for (size_t i = 0; i < LIBS_MAX; i++)
		if (a->libs[i].object)
			bytes += core_memory(&a->core, a->libs[i].object);
	return propagate ? bytes + core_memory(&a->core, propagate) : bytes;
}

/* Requests come to the program that no probe will see. */
static bool is_blind(struct attach *a, const struct plan *p)
{
	bool blind = false;

	for (size_t i = 0; i < p->nlibs && !blind; i++) {
		enum plan_serves serves = plan_serves(&p->libs[i]);

		blind = serves == PLAN_SERVES_UNSEEN ||
			(serves == PLAN_SERVES_SEEN && !ready(a, i));
	}
	return blind;
}

/* What one library's probes see in the program, another's ask for. */
static bool is_asked(const struct plan *p)
{
	for (size_t i = 0; i < p->nlibs; i++)
		if (plan_asks(&p->libs[i]))
			return true;
	return false;
}

/* Slots first: the first hit must find them. */
static int fill(struct attach *a, struct attached *t, const struct plan *p, uint32_t generation,
		uint64_t bias, uint8_t use)
{
	struct go_slot shared = p->slot;
	int err = core_begin(&a->core, t->slot);

	shared.generation = generation;
	shared.sample_below = a->sampler.sample_below;
	shared.sample_inbound = a->sampler.sample_inbound;
	if (config_has(&a->cfg->propagators, "b3") || config_has(&a->cfg->propagators, "b3multi"))
		shared.inbound = INBOUND_B3;
	shared.options = (a->cfg->starting_goroutine ? GO_OPTION_STARTED : 0) |
			 (use & USE_METRICS ? GO_OPTION_METRICS : 0) |
			 (is_blind(a, p) ? GO_OPTION_BLIND : 0) |
			 (is_asked(p) ? GO_OPTION_LEND : 0);
	if (shared.ro_hi) {
		shared.ro_lo += bias;
		shared.ro_hi += bias;
	}
	if (shared.types)
		shared.types += bias;
	library_share_sdk(&shared.sdk, use, bias);
	for (size_t i = 0; i < p->nlibs && !err; i++) {
		if (!p->libs[i].parts || (p->libs[i].lib->sdk && !(use & SDK_LEFT)) || !ready(a, i))
			continue;
		err = library_fill(&a->libs[i], t->slot, &shared, &p->libs[i]);
		if (!err)
			t->libs |= 1u << i;
	}
	for (size_t i = 0; i < p->nplaces && !err; i++)
		if (p->places[i].addr && t->libs >> p->places[i].lib & 1)
			err = library_add_exit(&a->libs[p->places[i].lib], t->slot, bias,
					       &p->places[i]);
	return err;
}

/* True: one of the libraries is more than an SDK, which is only looked at beside others. */
static bool traces(const struct attached *t)
{
	for (size_t i = 0; i < lib_count(); i++)
		if (t->libs >> i & 1 && !lib_at(i)->sdk)
			return true;
	return false;
}

static int hang(const struct attach *a, struct attached *t, const struct plan *p,
		const char *exe_path, uint32_t generation, size_t *nprobes)
{
	const struct links_process process = { .pid = t->pid,
					       .exe_path = exe_path,
					       .slot = t->slot,
					       .generation = generation,
					       .libs = t->libs,
					       .trials = strcmp(a->cfg->routes, "exact") == 0 };

	return traces(t) ? links_hang(&t->links, &a->core, p, &process, nprobes) : -ENODATA;
}

int attach_trial(const struct attach *a, struct attached *t, bool on)
{
	return links_trial(&t->links, &a->core, on);
}

bool attach_has_trial(const struct attached *t)
{
	return links_has_trial(&t->links);
}

void attach_silence(const struct attach *a, const struct attached *t)
{
	for (size_t i = 0; i < LIBS_MAX; i++)
		if (t->libs >> i & 1)
			library_clear(&a->libs[i], t->slot);
}

static void free_attached(struct attached **p)
{
	struct attached *t = take(*p);

	if (!t)
		return;
	if (t->pidfd >= 0)
		(void)close(t->pidfd);
	links_clear(&t->links);
	free(t);
}

/* Before the first hit: what a probe announces must be seen when it is written. A process whose
 * sockets cannot be had is traced all the same. */
static void propagate(const struct attach *a, struct attached *t, const struct plan *p,
		      uint32_t generation)
{
	int err;

	if (!(p->features & FEATURE_PROPAGATION) || propagate_off(a->propagate))
		return;
	t->owner = (struct propagate_socket){ .slot = t->slot, .generation = generation };
	err = propagate_add(a->propagate, t->pid, t->pidfd, &t->owner, &t->tgid);
	t->propagates = !err;
	if (err)
		log_debug("propagation: process %d: its sockets cannot be had: %s", t->pid,
			  strerror(-err));
}

static void stop_propagating(const struct attach *a, struct attached *t)
{
	if (t->propagates)
		propagate_remove(a->propagate, t->pid, t->pidfd, &t->owner, t->tgid);
	t->propagates = false;
}

int attach_process(struct attached **out, struct attach *a, const struct plan *p, int pid,
		   const char *exe_path, uint16_t slot, uint32_t generation, uint64_t bias,
		   uint8_t use, size_t *nprobes, const char **why)
{
	__attribute__((cleanup(free_attached))) struct attached *t = calloc(1, sizeof(*t));
	struct attached *failed;
	int err;

	*why = "no memory";
	if (!t)
		return -ENOMEM;
	t->slot = slot;
	links_init(&t->links);
	t->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (t->pidfd < 0) {
		err = -errno;
		*why = err == -ESRCH ? "the process is gone" : core_link_text(err);
		return err;
	}
	t->pid = pid;
	err = fill(a, t, p, generation, bias, use);
	if (!err)
		propagate(a, t, p, generation);
	if (!err)
		err = hang(a, t, p, exe_path, generation, nprobes);
	if (err) {
		*why = err == -ENODATA ? "nothing to trace in it" : core_link_text(err);
		failed = take(t);
		attach_detach(a, &failed, 1); /* the slot's next process finds nothing of it */
		return err;
	}
	*why = NULL;
	*out = take(t);
	return 0;
}

static void *close_links_of(void *arg)
{
	struct attached *t = arg;

	links_close(&t->links);
	return NULL;
}

/* A link's close waits until no CPU runs a probe of it: threads wait together. */
static void close_links(struct attached **list, size_t n)
{
	pthread_t threads[CLOSERS_MAX];
	size_t i = 0;

	while (i < n) {
		size_t started = 0;

		for (; i < n && started < CLOSERS_MAX; i++) {
			if (!list[i])
				continue;
			if (n > 1 &&
			    pthread_create(&threads[started], NULL, close_links_of, list[i]) == 0)
				started++;
			else
				(void)close_links_of(list[i]);
		}
		for (size_t k = 0; k < started; k++)
			(void)pthread_join(threads[k], NULL);
	}
}

/* For keyed_purge(): which of the slots belong to a process that has ended. */
#define GONE_EXITED  1
#define GONE_OPT_OUT 2

static void abandoned(uint16_t slot, void *arg)
{
	const uint8_t *gone = arg;

	if (gone[slot] == GONE_EXITED)
		stat_add(ops_process_exit, 1);
	else
		stat_add(ops_opt_out, 1);
}

void attach_detach(struct attach *a, struct attached **list, size_t n)
{
	auto_free uint8_t *gone = calloc(1, UINT16_MAX + 1);
	uint32_t libs = 0;

	for (size_t i = 0; i < n; i++) {
		struct pollfd exited = { .fd = list[i] ? list[i]->pidfd : -1, .events = POLLIN };

		if (!list[i])
			continue;
		if (gone)
			gone[list[i]->slot] = poll(&exited, 1, 0) == 1 ? GONE_EXITED : GONE_OPT_OUT;
		libs |= list[i]->libs;
		/* A probe that runs meanwhile does nothing. */
		attach_silence(a, list[i]);
	}
	close_links(list, n);
	for (size_t i = 0; i < n; i++)
		if (list[i])
			stop_propagating(a, list[i]);
	for (size_t i = 0; i < LIBS_MAX && gone; i++)
		if (libs >> i & 1)
			keyed_purge(&a->libs[i].keyed, gone, abandoned, gone);
	if (gone) {
		keyed_purge(&a->core.keyed, gone, abandoned, gone);
		keyed_purge(&a->announced, gone, abandoned, gone);
	}
	for (size_t i = 0; i < n; i++)
		free_attached(&list[i]);
}

/* Rows of the kernel are rows of the agent's table: what has been added since the last time is
 * added there. */
static void add_row(enum kernel_counter row, uint64_t n)
{
	static const enum stat_id to[] = {
#define X(id, ...) [COUNTER_##id] = STAT_##id,
		KERNEL_STATS(X)
#undef X
	};

	(void)atomic_fetch_add_explicit(&stats[to[row]], n, memory_order_relaxed);
	if (row == COUNTER_lost_ring_full) {
		stat_add(spans_produced, n);
		stat_add(spans_dropped_ring_full, n);
	}
}

void attach_collect_stats(struct attach *a)
{
	(void)pthread_mutex_lock(&a->counting);
	for (uint32_t row = 0; row < KERNEL_COUNTERS; row++) {
		uint64_t sum = 0;

		if (bpf_map_lookup_elem(a->core.counters, &row, a->per_cpu))
			continue;
		for (int i = 0; i < a->ncpus; i++)
			sum += a->per_cpu[i];
		if (sum > a->counted[row])
			add_row((enum kernel_counter)row, sum - a->counted[row]);
		a->counted[row] = sum;
	}
	(void)pthread_mutex_unlock(&a->counting);
}
