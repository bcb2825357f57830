#include "discover/tracer.h"

#include "base/config.h"
#include "base/log.h"
#include "base/slow.h"
#include "base/stats.h"
#include "discover/places.h"
#include "discover/plans.h"
#include "discover/sdk.h"
#include "discover/trial.h"
#include "discover/worker.h"
#include "gobin/gobin.h"
#include "metrics/metrics.h"
#include "pipeline/identity.h"
#include "pipeline/resource.h"
#include "trace/attach.h"
#include "trace/literals.h"
#include "trace/target.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define PLANS_MAX     64
#define TOLD_A_MINUTE 20
#define TRIALS_A_TICK 4

struct tracer {
	const struct config *cfg;
	struct attach *attach;
	struct targets *targets;
	struct plans *plans;
	struct traced *all; /* that were given out and not taken back */
};

struct traced {
	struct traced *next;
	int pid;
	struct attached *attached;
	struct trial trial;
	uint16_t slot;
};

int tracer_new(struct tracer **out, const struct config *cfg, struct attach *a, struct targets *t)
{
	struct tracer *tracer = calloc(1, sizeof(*tracer));

	if (!tracer || plans_new(&tracer->plans, PLANS_MAX, a ? attach_features(a) : 0,
				 metrics_wanted(cfg) && cfg->metrics_runtime)) {
		free(tracer);
		return -ENOMEM;
	}
	tracer->cfg = cfg;
	tracer->attach = a;
	tracer->targets = t;
	*out = tracer;
	return 0;
}

void tracer_free(struct tracer **p)
{
	struct tracer *t = take(*p);

	if (t)
		plans_free(&t->plans);
	free(t);
}

__attribute__((format(printf, 3, 4))) static void
verdict(struct worker_result *out, enum worker_outcome outcome, const char *fmt, ...)
{
	va_list ap;

	out->outcome = outcome;
	va_start(ap, fmt);
	(void)vsnprintf(out->reason, sizeof(out->reason), fmt, ap);
	va_end(ap);
}

static void gone(struct worker_result *out)
{
	stat_add(attach_failed_gone, 1);
	verdict(out, WORKER_GONE,
		"the process has ended, or has become another program, before probes were "
		"attached");
}

/* The executable that the job speaks of, held: whatever the process does, this is the file. By
 * O_PATH, for neither open() nor close() of that waits for its file system. -1: result says why. */
static int open_exe(const struct tracer *t, const struct worker_job *job, struct worker_result *out)
{
	char path[PATH_MAX];
	uint64_t start_time;
	struct stat st;
	auto_close int fd = -1;
	int err;

	(void)snprintf(path, sizeof(path), "%s/%d/exe", t->cfg->proc_root, job->proc.pid);
	fd = open(path, O_PATH | O_CLOEXEC);
	err = errno;
	if (fd < 0 && err != ENOENT && err != ESRCH) {
		stat_add(analysis_open, 1);
		verdict(out, WORKER_FAILED, "its executable cannot be opened: %s", strerror(err));
		return -1;
	}
	if (fd < 0 || slow_stat(fd, &st) != 0 || st.st_dev != job->proc.dev ||
	    st.st_ino != job->proc.ino ||
	    proc_start_time(t->cfg->proc_root, job->proc.pid, &start_time) ||
	    start_time != job->proc.start_time) {
		gone(out);
		return -1;
	}
	return take_fd(fd);
}

static void count_refusal(enum gobin_why why)
{
	switch (why) {
	case GOBIN_OPEN:
		stat_add(analysis_open, 1);
		break;
	case GOBIN_BITS:
		stat_add(analysis_bits, 1);
		break;
	case GOBIN_MACHINE:
		stat_add(analysis_machine, 1);
		break;
	case GOBIN_MALFORMED:
		stat_add(analysis_malformed, 1);
		break;
	case GOBIN_TRUNCATED:
		stat_add(analysis_truncated, 1);
		break;
	case GOBIN_GO_VERSION:
		stat_add(analysis_go_version, 1);
		break;
	case GOBIN_TOO_LARGE:
		stat_add(analysis_too_large, 1);
		break;
	case GOBIN_NO_MEMORY:
		stat_add(analysis_no_memory, 1);
		break;
	case GOBIN_TIMEOUT:
		stat_add(analysis_timeout, 1);
		break;
	default:; /* OK, NOT_ELF, NOT_GO: no failures */
	}
}

static void refuse(const struct analysed *exe, struct worker_result *out)
{
	count_refusal(exe->why);
	if (exe->why == GOBIN_NOT_GO || exe->why == GOBIN_NOT_ELF)
		verdict(out, WORKER_NOT_GO, "%s", gobin_why_text(exe->why));
	else if (exe->why == GOBIN_OPEN || exe->why == GOBIN_NO_MEMORY || exe->why == GOBIN_TIMEOUT)
		verdict(out, WORKER_FAILED, "%s", gobin_why_text(exe->why));
	else
		verdict(out, WORKER_UNSUPPORTED, "%s", gobin_why_text(exe->why));
}

/* What of each library is in the binary, and what keeps the rest from being traced. */
static void describe(const struct tracer *t, const struct plan *plan, struct worker_result *out)
{
	for (size_t i = 0; i < plan->nlibs && i < LIBS_MAX; i++) {
		const struct plan_lib *p = &plan->libs[i];

		out->disabled[i] = t->attach ? attach_lib_disabled(t->attach, i) : NULL;
		out->parts[i] = out->disabled[i] ? 0 : p->parts;
		out->probes[i] = out->disabled[i] ? 0 : p->probes;
		out->absent[i] = plan_sdk_absent(p);
		for (size_t part = 0; part < p->lib->nparts && out->nlacks < WORKER_LACKS_MAX;
		     part++) {
			struct worker_lack *lack = &out->lacks[out->nlacks];

			if (out->absent[i] || p->parts >> part & 1)
				continue;
			lack->lib = (uint8_t)i;
			lack->part = (uint8_t)part;
			(void)plan_missing(p, part, lack->why, sizeof(lack->why));
			out->nlacks++;
		}
	}
}

static int make_resource(const struct tracer *t, const struct worker_job *job,
			 const char *go_version, struct resource **out)
{
	auto_free char *service = NULL, *attributes = NULL;
	struct process proc = job->proc;
	struct identity id = {
		.cfg = t->cfg,
		.proc = &proc,
		.pod = job->pod,
		.container = job->pod ? job->container : NULL,
		.go_version = *go_version ? go_version : NULL,
	};

	/* Without them the resource says less; that they cannot be read is no reason not to trace.
	 */
	if (proc_ns_pid(t->cfg->proc_root, proc.pid, &proc.ns_pid))
		proc.ns_pid = proc.pid;
	if (proc_getenv(t->cfg->proc_root, proc.pid, "OTEL_SERVICE_NAME", &service) == 0)
		id.service_name = service;
	if (proc_getenv(t->cfg->proc_root, proc.pid, "OTEL_RESOURCE_ATTRIBUTES", &attributes) == 0)
		id.attributes = attributes;
	return identity_resource(out, &id);
}

/* Who it is, and whose series its operations feed. Takes *literals over (may be NULL). */
static int make_target(const struct tracer *t, const struct worker_job *job, const char *go_version,
		       struct literals **literals, uint16_t slot, uint32_t generation,
		       struct target **out)
{
	struct resource *resource = NULL;
	int err = make_resource(t, job, go_version, &resource);

	if (!err)
		err = target_new(out, slot, generation, job->proc.pid, &resource, literals,
				 job->container ? job->container->probe_paths : NULL,
				 job->container ? job->container->nprobe_paths : 0, job->signals);
	if (!err)
		target_born(*out, job->proc.start_time);
	if (!err && job->signals & SIGNAL_METRICS)
		(*out)->owner = metrics_owner(targets_metrics(t->targets), (*out)->resource->series,
					      job->pod ? job->pod->uid : "");
	resource_put(&resource);
	return err;
}

/* The target of a reserved slot, visible to the events thread: the first record may come before
 * attach_process() returns. */
static int publish(struct tracer *t, const struct worker_job *job, const struct analysed *exe,
		   int fd, uint64_t bias, uint16_t slot, uint32_t generation)
{
	struct literals *literals = NULL;
	struct target *target = NULL;
	int own = exe->ro_size ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	int err;

	if (own >= 0 && literals_new(&literals, own, exe->ro_offset, exe->ro_size))
		literals = NULL;
	err = make_target(t, job, exe->go_version, &literals, slot, generation, &target);
	if (!err && target->owner && exe->runtime.layout)
		target->runtime = go_runtime_new(&exe->runtime, job->proc.pid, job->proc.start_time,
						 job->proc.stack, bias);
	if (!err)
		targets_publish(t->targets, target);
	literals_free(&literals);
	return err;
}

static bool still_there(const struct tracer *t, const struct worker_job *job)
{
	uint64_t start_time;

	return proc_start_time(t->cfg->proc_root, job->proc.pid, &start_time) == 0 &&
	       start_time == job->proc.start_time;
}

/* What hangs in that process from before (it has executed itself, its pod's signals have changed,
 * it was opted out and in again) waits to be detached, and until then each request would be two
 * spans. */
static void silence(const struct tracer *t, int pid)
{
	for (const struct traced *it = t->all; it; it = it->next)
		if (it->pid == pid)
			attach_silence(t->attach, it->attached);
}

static void remember(struct tracer *t, struct traced *traced, int pid)
{
	traced->pid = pid;
	traced->next = t->all;
	t->all = traced;
}

static void forget(struct tracer *t, const struct traced *traced)
{
	struct traced **at = &t->all;

	while (*at && *at != traced)
		at = &(*at)->next;
	if (*at)
		*at = traced->next;
}

/* False: result says why. */
static bool look(const struct tracer *t, const struct worker_job *job, const struct analysed *exe,
		 int fd, uint64_t *bias, struct worker_result *out)
{
	int err = places_look(t->cfg->proc_root, job->proc.pid, fd, exe->plan, exe->pie, bias);

	if (err == -ETIMEDOUT) {
		stat_add(analysis_timeout, 1);
		verdict(out, WORKER_FAILED, "%s", gobin_why_text(GOBIN_TIMEOUT));
	} else if (err == -ESRCH || (err && !still_there(t, job))) {
		gone(out);
	} else if (err) {
		stat_add(attach_failed, 1);
		verdict(out, WORKER_FAILED,
			"its executable, or from its maps where that is loaded, cannot be read: %s",
			strerror(-err));
	}
	return !err;
}

static void attach(struct tracer *t, const struct worker_job *job, const struct analysed *exe,
		   int fd, struct traced *traced, struct worker_result *out)
{
	struct sdk_verdict sdk;
	uint64_t bias = 0;
	char path[64];
	const char *why = NULL;
	bool measured = job->signals & SIGNAL_METRICS && targets_metrics(t->targets);
	int err;

	sdk_judge(&sdk, t->cfg, exe->plan, job->proc.pid);
	memcpy(out->sdk, sdk.text, sizeof(out->sdk));
	if (sdk.refused) {
		verdict(out, WORKER_DECLINED, "%s", sdk.text);
		return;
	}
	if (!look(t, job, exe, fd, &bias, out))
		return;
	if (targets_reserve(t->targets, &traced->slot, &out->generation)) {
		stat_add(attach_failed_no_slot, 1);
		verdict(out, WORKER_FAILED, "%u processes are traced already (targets.max)",
			t->cfg->targets_max);
		return;
	}
	err = publish(t, job, exe, fd, bias, traced->slot, out->generation);
	if (err) {
		targets_cancel(t->targets, traced->slot);
		stat_add(attach_failed, 1);
		verdict(out, WORKER_FAILED, "its resource could not be made: %s", strerror(-err));
		return;
	}
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	silence(t, job->proc.pid);
	err = attach_process(&traced->attached, t->attach, exe->plan, job->proc.pid, path,
			     traced->slot, out->generation, bias,
			     sdk.use | (measured ? USE_METRICS : 0), &out->nprobes, &why);
	/* The pid may have been another process's by then. */
	if (!err && !still_there(t, job)) {
		attach_detach(t->attach, &traced->attached, 1);
		err = -ESRCH;
	}
	out->slot = traced->slot;
	if (!err) {
		stat_add(attach_total, 1);
		out->runtime = measured && t->cfg->metrics_runtime;
		memcpy(out->no_runtime, exe->runtime.missing, sizeof(out->no_runtime));
		verdict(out, WORKER_TRACED, "%zu probes", out->nprobes);
		return;
	}
	targets_retire(t->targets, traced->slot);
	if (err == -ESRCH || !still_there(t, job)) {
		gone(out);
	} else if (err == -ENODATA) {
		stat_add(attach_failed_nothing, 1);
		verdict(out, WORKER_UNSUPPORTED,
			"a Go program, but none of the traced libraries is in it, or all are "
			"disabled");
	} else {
		stat_add(attach_failed, 1);
		verdict(out, WORKER_FAILED, "probes could not be attached: %s (%s)",
			why ? why : "unknown", strerror(-err));
	}
}

/* Its pod has other labels or annotations. Who runs is who ran: the worker is told of every process
 * that becomes another one before. */
static void rename_target(struct tracer *t, const struct worker_job *job, struct worker_result *out)
{
	struct target *target = NULL;
	int err = make_target(t, job, job->go_version, NULL, job->slot, job->generation, &target);

	out->renamed = true;
	if (!err)
		err = targets_rename(t->targets, &target);
	log_debug("discover: process %d (%s) is told of anew: %s", job->proc.pid, job->proc.exe,
		  err ? strerror(-err) : "its pod's labels or annotations say something else");
	target_free(&target);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void trace(struct tracer *t, const struct worker_job *job, struct worker_result *out)
{
	auto_close int fd = open_exe(t, job, out);
	const struct analysed *exe = fd < 0 ? NULL : plans_get(t->plans, fd);
	auto_free struct traced *traced = NULL;

	if (!exe)
		return;
	(void)snprintf(out->go_version, sizeof(out->go_version), "%s", exe->go_version);
	if (exe->why != GOBIN_OK) {
		refuse(exe, out);
		return;
	}
	traced = calloc(1, sizeof(*traced));
	if (!traced) {
		verdict(out, WORKER_FAILED, "no memory");
		return;
	}
	if (exe->plan->nplaces == 0) {
		stat_add(attach_failed_nothing, 1);
		verdict(out, WORKER_UNSUPPORTED,
			"a Go program, but none of the traced libraries is in it");
	} else {
		attach(t, job, exe, fd, traced, out);
	}
	/* Last: a library that the kernel refuses is known as such now. */
	describe(t, exe->plan, out);
	if (out->outcome == WORKER_TRACED) {
		remember(t, traced, job->proc.pid);
		out->traced = take(traced);
	}
}

/* A process in no pod was named on its own: whoever did that wants to hear what became of it. What
 * a wide glob matches besides Go programs is not told one by one. */
static void log_outcome(const struct worker_job *job, const struct worker_result *out)
{
	static struct log_limit limit, told;
	bool traced = out->outcome == WORKER_TRACED, never = out->outcome == WORKER_NOT_GO ||
							     out->outcome == WORKER_UNSUPPORTED ||
							     out->outcome == WORKER_DECLINED;
	uint64_t skipped = 0;
	bool tell = !job->pod && ((traced && log_allow_some(&told, TOLD_A_MINUTE, &skipped)) ||
				  (never && log_allow(&limit, &skipped)));
	char more[64] = "";

	if (skipped)
		(void)snprintf(more, sizeof(more), " (%llu more of these in the last minutes)",
			       (unsigned long long)skipped);
	log_write(tell ? LOG_INFO : LOG_DEBUG, "discover: process %d (%s) is %s: %s; %.1f ms%s",
		  job->proc.pid, job->proc.exe, traced ? "traced" : "not traced", out->reason,
		  (double)out->took_ns / 1e6, more);
}

static void tracer_trace(void *arg, const struct worker_job *job, struct worker_result *out)
{
	uint64_t begin = now_ns();

	if (job->rename) {
		rename_target(arg, job, out);
		return;
	}
	trace(arg, job, out);
	out->took_ns = now_ns() - begin;
	log_outcome(job, out);
}

static void tracer_untrace(void *arg, struct traced **list, size_t n)
{
	struct tracer *t = arg;
	auto_free struct attached **attached = calloc(n, sizeof(*attached));

	for (size_t i = 0; i < n; i++) {
		forget(t, list[i]);
		if (attached)
			attached[i] = list[i]->attached;
		else
			attach_detach(t->attach, &list[i]->attached, 1);
	}
	if (attached)
		attach_detach(t->attach, attached, n);
	for (size_t i = 0; i < n; i++) {
		targets_retire(t->targets, list[i]->slot);
		free(list[i]);
	}
	log_debug("worker: probes removed from %zu processes", n);
}

/* Taking probes away waits for the kernel: a few at a time. */
static void tracer_tick(void *arg)
{
	struct tracer *t = arg;
	uint64_t counts[TARGET_TRIALS];
	int n = 0;

	for (struct traced *it = t->all; it && n < TRIALS_A_TICK; it = it->next)
		if (attach_has_trial(it->attached) && targets_trials(t->targets, it->slot, counts))
			n += trial_run(&it->trial, t->attach, it->attached, counts, it->pid);
}

struct worker_backend tracer_backend(struct tracer *t)
{
	return (struct worker_backend){ t, tracer_trace, tracer_untrace, tracer_tick };
}
