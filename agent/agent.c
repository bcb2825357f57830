/* agent.c - `spoor agent`: makes every stage of the flow, connects them, runs until a signal, and
 * takes them down in order. */
#include "agent.h"

#include "base/admin.h"
#include "base/footprint.h"
#include "base/heart.h"
#include "base/log.h"
#include "base/option.h"
#include "base/stats.h"
#include "commands.h"
#include "discover/discover.h"
#include "discover/kubelet.h"
#include "export/export.h"
#include "export/otlp_url.h"
#include "metrics/metrics.h"
#include "metrics/process.h"
#include "metrics/prometheus.h"
#include "metrics/push.h"
#include "runtime/source.h"
#include "trace/ring.h"
#include "trace/target.h"
#include "version.h"

#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

/* How much longer than shutdown.timeout the whole stop may take before the process ends without it.
 */
#define STOP_GRACE_S 5

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Both signals are blocked in every thread: only main's sigwaitinfo() takes them. */
static void block_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	(void)pthread_sigmask(SIG_BLOCK, set, NULL);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN); /* a log file at its limit */
}

static void end_now(int sig)
{
	static const char second[] = "agent: second signal, ending at once\n",
			  late[] = "agent: stopping took too long, ending at once\n";
	ssize_t n = sig == SIGALRM ? write(STDERR_FILENO, late, sizeof(late) - 1)
				   : write(STDERR_FILENO, second, sizeof(second) - 1);

	(void)n;
	_exit(128 + sig); /* nothing stays behind: probes and maps live by file descriptors */
}

/* From here on the alarm ends the process at once, and another signal, if there was a first one: an
 * agent that could not start ends anyway. A handler, for process 1 of a PID namespace ignores what
 * has none. */
static void arm_second_signal(const sigset_t *set, bool first, uint64_t timeout_ms)
{
	struct sigaction sa = { .sa_handler = end_now };

	(void)sigaction(SIGTERM, &sa, NULL);
	(void)sigaction(SIGINT, &sa, NULL);
	(void)sigaction(SIGALRM, &sa, NULL);
	if (first)
		(void)pthread_sigmask(SIG_UNBLOCK, set, NULL);
	(void)alarm((unsigned)(timeout_ms / 1000) + STOP_GRACE_S);
}

/* What the configuration allows at most, and what the kernel has counted already. */
static void log_memory(const struct config *cfg, const struct attach *attach)
{
	uint64_t pool = pool_bytes(cfg->batch_count, cfg->batch_spans, cfg->batch_bytes);
	uint64_t maps = attach_memory(attach);

	log_info("agent: memory ceiling: %.1f MiB of batches (%u of %u spans) and %.1f MiB of "
		 "kernel maps (ring of %.1f MiB, up to %u "
		 "processes), and what each traced process and the pod list take",
		 (double)pool / 1048576, cfg->batch_count, cfg->batch_spans, (double)maps / 1048576,
		 (double)cfg->ring_size / 1048576, cfg->targets_max);
}

/* "otlp http://host:4318/v1/traces, stdout" */
static void describe_exporters(char *out, size_t size, const struct config *cfg)
{
	size_t n = (size_t)snprintf(out, size, "%s", cfg->exporters.n ? "" : "nowhere");

	for (size_t i = 0; i < cfg->exporters.n && n < size; i++) {
		const char *name = cfg->exporters.v[i], *bad;
		char url[256] = "";

		if (strcmp(name, "otlp") == 0 &&
		    otlp_url(url, sizeof(url), cfg, OTLP_TRACES, &bad) != 0)
			(void)snprintf(url, sizeof(url), "?");
		n += (size_t)snprintf(out + n, size - n, "%s%s%s%s", i ? ", " : "", name,
				      *url ? " " : "", url);
	}
}

/* Paths are matched whole: a glob that can begin no absolute path is a mistake. */
static void warn_of_relative(const struct config *cfg)
{
	for (size_t i = 0; i < cfg->select_executables.n; i++) {
		const char *glob = cfg->select_executables.v[i], *slash = strrchr(glob, '/');

		if (!strchr("/*?[", glob[0]))
			log_warn("agent: discovery.executables: '%s' matches no process: it is "
				 "compared with whole paths, so write /path/to/%s or */%s",
				 glob, slash ? slash + 1 : glob, slash ? slash + 1 : glob);
	}
}

/* Whom it looks for, and where spans go: the two things that are most often not what one thought.
 */
static void log_intent(const struct config *cfg)
{
	bool named = cfg->select_executables.n || cfg->select_pids.n;
	const char *also =
		named ? ", and the processes that discovery.executables and .pids name" : "";
	char where[512];

	describe_exporters(where, sizeof(where), cfg);
	warn_of_relative(cfg);
	if (!kubelet_wanted(cfg) && !named)
		log_warn("agent: nothing will be traced: no kubelet is asked for pods, and neither "
			 "discovery.executables nor discovery.pids names a process");
	else if (!kubelet_wanted(cfg))
		log_info("agent: traces the processes that discovery.executables and .pids name; "
			 "spans go to: %s",
			 where);
	else if (strcmp(cfg->discovery_mode, "annotation") == 0)
		log_info("agent: traces pods with the annotation %s/instrument: \"true\"%s; spans "
			 "go to: %s",
			 cfg->annotation_prefix, also, where);
	else
		log_info("agent: traces by discovery.mode %s, and pods with the annotation "
			 "%s/instrument: \"true\"; spans go to: %s",
			 cfg->discovery_mode, cfg->annotation_prefix, where);
}

static int open_stages(struct agent *a)
{
	const struct config *cfg = a->cfg;
	int err = attach_open(&a->attach, cfg);

	check_attached(&a->checks, err, err ? NULL : attach_kernel(a->attach));
	check_propagation(&a->checks, cfg, a->attach);
	check_writing(&a->checks, cfg, a->attach);
	if (!err &&
	    (err = pool_new(&a->pool, cfg->batch_count, cfg->batch_spans, cfg->batch_bytes)) != 0)
		log_error("agent: no memory for %u batches; batch.count, batch.spans and "
			  "batch.bytes set their size",
			  cfg->batch_count);
	if (!err && (err = targets_new(&a->targets, cfg->targets_max)) != 0)
		log_error("agent: no memory for %u targets (targets.max)", cfg->targets_max);
	if (!err && metrics_wanted(cfg))
		err = metrics_new(&a->metrics, cfg);
	if (!err && a->metrics && cfg->metrics_process) {
		err = process_source_new(&a->processes, cfg, a->targets);
		metrics_source(a->metrics, process_collect, a->processes);
	}
	if (!err && a->metrics && cfg->metrics_runtime) {
		err = runtime_source_new(&a->runtimes, cfg, a->targets);
		metrics_source(a->metrics, runtime_collect, a->runtimes);
	}
	if (!err && metrics_pushed(cfg))
		err = push_new(&a->push, cfg, a->metrics);
	if (!err)
		targets_measure(a->targets, a->metrics);
	if (!err && (err = export_new(&a->export, cfg, a->pool)) == -ENOMEM)
		log_error("agent: no memory for the exporters");
	if (!err && (err = ring_new(&a->ring, cfg, attach_events_fd(a->attach),
				    attach_sleeping(a->attach), a->targets, a->pool)) != 0)
		log_error("agent: the events ring cannot be opened: %s", strerror(-err));
	if (!err)
		err = discover_new(&a->discover, cfg, a->attach, a->targets);
	return err;
}

/* Downstream first: nobody sends to a stage that does not run. */
static int start_stages(struct agent *a)
{
	int err = export_start(a->export);

	a->export_runs = !err;
	if (!err && a->push) {
		err = push_start(a->push);
		a->push_runs = !err;
	}
	if (!err) {
		err = ring_start(a->ring);
		a->ring_runs = !err;
	}
	if (!err) {
		err = discover_start(a->discover);
		a->discover_runs = !err;
	}
	if (err)
		log_error("agent: a thread cannot be started: %s", strerror(-err));
	return err;
}

/* Upstream first, each step safe when it was never begun: detach, drain the ring, flush until the
 * deadline. */
static void stop_stages(struct agent *a, uint64_t deadline_ns)
{
	atomic_store(&a->stopping, true);
	if (a->discover_runs)
		discover_stop(a->discover);
	if (a->ring_runs)
		ring_stop(a->ring);
	metrics_settle(a->metrics);
	if (a->pool)
		pool_close(a->pool);
	if (a->export_runs)
		export_stop(a->export, deadline_ns);
	if (a->push_runs)
		push_stop(a->push, deadline_ns);
	if (a->attach)
		attach_collect_stats(a->attach);
}

static void free_stages(struct agent *a)
{
	prometheus_stop(&a->prometheus);
	admin_stop(&a->admin); /* its callbacks look into all of the rest */
	stats_no_collectors();
	discover_free(&a->discover);
	ring_free(&a->ring);
	export_free(&a->export);
	push_free(&a->push);
	targets_free(&a->targets);
	metrics_free(&a->metrics);
	process_source_free(&a->processes);
	runtime_source_free(&a->runtimes);
	pool_free(&a->pool);
	attach_close(&a->attach);
}

static int run(struct agent *a)
{
	const struct admin_source source = agent_source(a);
	uint64_t deadline = now_ns();
	sigset_t set;
	siginfo_t got;
	int err;

	block_signals(&set);
	check_system(&a->checks, a->cfg);
	err = open_stages(a);
	check_log(&a->checks);
	if (!err) {
		agent_stats(a);
		err = admin_start(&a->admin, a->cfg, &source);
	}
	if (!err && config_has(&a->cfg->metrics_exporters, "prometheus"))
		err = prometheus_start(&a->prometheus, a->cfg, a->metrics);
	if (!err)
		log_memory(a->cfg, a->attach); /* before the worker may load more */
	if (!err)
		err = start_stages(a);
	if (!err) {
		(void)footprint_settle();
		log_intent(a->cfg);
		log_info("agent: spoor %s (%s) runs", SPOOR_VERSION, SPOOR_REVISION);
		while (sigwaitinfo(&set, &got) < 0)
			;
		log_info("agent: %s: detaching and flushing, up to %.1f s",
			 got.si_signo == SIGINT ? "SIGINT" : "SIGTERM",
			 (double)a->cfg->shutdown_timeout / 1000);
		deadline = now_ns() + a->cfg->shutdown_timeout * 1000000;
	}
	arm_second_signal(&set, !err, a->cfg->shutdown_timeout);
	stop_stages(a, deadline);
	if (!err)
		agent_summary();
	free_stages(a);
	return err;
}

int agent_main(int argc, char **argv)
{
	auto_config struct config *cfg = NULL;
	auto_free struct agent *a = NULL;
	int rest, err;

	footprint_setup();
	a = calloc(1, sizeof(*a));
	err = config_load(&cfg, argc, argv, &rest);
	if (err == 1)
		return 0;
	if (!a)
		log_error("agent: out of memory");
	if (err || !a)
		return EXIT_USAGE;
	if (rest < argc) {
		log_error("agent: '%s' is not a flag; --help lists them", argv[rest]);
		return EXIT_USAGE;
	}
	log_setup_config(cfg);
	(void)curl_global_init(CURL_GLOBAL_DEFAULT);
	a->cfg = cfg;
	a->started_ns = now_ns();
	err = run(a);
	curl_global_cleanup();
	return err ? 1 : 0;
}
