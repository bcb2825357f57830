#include "discover/discover.h"

#include "base/config.h"
#include "base/heart.h"
#include "base/log.h"
#include "base/stats.h"
#include "discover/decide.h"
#include "discover/kubelet.h"
#include "discover/neighbours.h"
#include "discover/pod.h"
#include "discover/roster.h"
#include "discover/status.h"
#include "discover/tracer.h"
#include "discover/tracker.h"
#include "discover/worker.h"
#include "metrics/metrics.h"
#include "trace/attach.h"
#include "trace/ringbuf.h"
#include "trace/target.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>

#define MS 1000000ULL
#define S  1000000000ULL

#define SCAN_NS    (30 * S)  /* safety net: as often, or with each refresh of the pod list */
#define HINT_NS    (20 * MS) /* a burst of hints makes one scan */
#define SCAN_SHARE 20        /* of the time, at most one part in so many goes into scans */
#define BEAT_MS    2000
#define EVENTS_MAX 64
#define FILES_MAX  65536
#define EXECS_RUN  256 /* notifications that are looked at before the rest has its turn */

/* Data of the epoll events; pidfds have TRACKER_PIDFD. */
enum source { SOURCE_STOP, SOURCE_EXECS, SOURCE_WORKER, SOURCE_KUBELET };

struct discover {
	const struct config *cfg;
	struct targets *targets;
	struct tracer *tracer;     /* NULL: somebody else's backend */
	struct ringbuf *exec_ring; /* NULL: somebody else's notification */
	struct discover_execs execs;
	struct worker *worker;
	pthread_t thread;
	bool started;
	int epoll_fd, stop_fd;
	pthread_mutex_t
		lock; /* guards what follows; CONTROL holds it while it works, not while it waits */
	struct tracker tracker;
	struct kubelet *kubelet; /* NULL: not asked */
	uint64_t scan_ns;        /* CLOCK_BOOTTIME of the next scan */
	uint64_t scan_cost_ns, scanned_ns, scan_every_ns;
	bool scanned;
};

static int add_fd(struct discover *d, int fd, enum source source)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = source };

	return fd >= 0 && epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0 ? -errno : 0;
}

int discover_new_with(struct discover **out, const struct config *cfg,
		      const struct worker_backend *backend, const struct discover_execs *execs,
		      struct targets *t)
{
	struct discover *d = calloc(1, sizeof(*d));
	int err;

	if (!d)
		return -ENOMEM;
	d->cfg = cfg;
	d->targets = t;
	d->execs = *execs;
	(void)pthread_mutex_init(&d->lock, NULL);
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	d->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = d->epoll_fd < 0 || d->stop_fd < 0 ? -errno : worker_new(&d->worker, backend);
	if (!err)
		err = roster_new(&d->tracker.roster);
	if (!err && kubelet_wanted(cfg)) {
		err = kubelet_new(&d->kubelet, cfg);
		d->tracker.kubernetes = !err;
	}
	d->tracker.cfg = cfg;
	d->scan_every_ns =
		cfg->kubelet_refresh * MS < SCAN_NS ? cfg->kubelet_refresh * MS : SCAN_NS;
	d->tracker.worker = d->worker;
	d->tracker.epoll_fd = d->epoll_fd;
	if (!err)
		err = add_fd(d, d->stop_fd, SOURCE_STOP);
	if (!err)
		err = add_fd(d, d->execs.fd, SOURCE_EXECS);
	if (!err)
		err = add_fd(d, worker_fd(d->worker), SOURCE_WORKER);
	if (!err && d->kubelet)
		err = add_fd(d, kubelet_fd(d->kubelet), SOURCE_KUBELET);
	if (err) {
		discover_free(&d);
		return err;
	}
	*out = d;
	return 0;
}

struct seen {
	void (*fn)(const struct exec_event *ev, void *arg);
	void *arg;
	size_t run; /* records of this drain */
};

/* In a storm of execve the ring is never empty: a run ends also by its length, and what is left
 * makes the fd readable again. */
static bool exec_record(void *arg, const void *data, size_t size)
{
	struct seen *seen = arg;

	if (size >= sizeof(struct exec_event))
		seen->fn(data, seen->arg);
	return ++seen->run < EXECS_RUN;
}

static void exec_drain(void *arg, void (*fn)(const struct exec_event *ev, void *arg), void *fn_arg)
{
	struct seen seen = { fn, fn_arg, 0 };

	(void)ringbuf_read(arg, exec_record, &seen);
}

/* A traced process takes six fds, one that waits for its pod takes one; some runtimes start us
 * with 1024. */
static void raise_file_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= FILES_MAX)
		return;
	files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}

int discover_new(struct discover **out, const struct config *cfg, struct attach *a,
		 struct targets *t)
{
	struct discover_execs execs = { .fd = -1, .drain = exec_drain };
	struct ringbuf *ring = NULL;
	struct tracer *tracer = NULL;
	struct worker_backend backend;
	struct discover *d;
	int err = tracer_new(&tracer, cfg, a, t);

	raise_file_limit();
	if (err)
		return fail(err, "discover: %s", strerror(-err));
	backend = tracer_backend(tracer);
	if (attach_kernel(a)->exec_events) {
		err = ringbuf_open(&ring, attach_exec_fd(a));
		if (err)
			log_error("discover: no ring of execve notifications: %s; new processes "
				  "are seen only by scans",
				  strerror(-err));
	}
	if (ring) {
		execs.fd = attach_exec_fd(a);
		execs.arg = ring;
		execs.hints = attach_kernel(a)->own_pid_namespace;
	}
	err = discover_new_with(&d, cfg, &backend, &execs, t);
	if (err) {
		ringbuf_close(&ring);
		tracer_free(&tracer);
		return fail(err, "discover: %s", strerror(-err));
	}
	d->tracer = tracer;
	d->exec_ring = ring;
	*out = d;
	return 0;
}

static void exec_seen(const struct exec_event *ev, void *arg)
{
	struct discover *d = arg;
	uint64_t now, next;

	stat_add(exec_events, 1);
	if (!d->execs.hints) {
		tracker_exec(&d->tracker, ev);
		return;
	}
	now = tracker_now();
	next = d->scanned_ns + SCAN_SHARE * d->scan_cost_ns;
	if (next < now + HINT_NS)
		next = now + HINT_NS;
	if (next < d->scan_ns)
		d->scan_ns = next;
}

/* Its series go on, also while no process of it runs. */
static bool is_measured(const char *uid, void *arg)
{
	const struct discover *d = arg;

	for (size_t i = 0; d->tracker.pods && i < pods_count(d->tracker.pods); i++) {
		const struct pod *pod = pods_at(d->tracker.pods, i);
		struct decision decision;

		if (strcmp(pod->uid, uid) != 0)
			continue;
		if (strcmp(pod->phase, "Succeeded") == 0 || strcmp(pod->phase, "Failed") == 0)
			return false;
		decision = decide_pod(d->cfg, pod);
		return decision.state == DECIDE_TRACE && decision.signals & SIGNAL_METRICS;
	}
	return false;
}

static void scan(struct discover *d)
{
	uint64_t begin = tracker_now();

	tracker_scan(&d->tracker);
	if (d->targets)
		metrics_pods(targets_metrics(d->targets), is_measured, d);
	d->scanned = true;
	d->scanned_ns = tracker_now();
	d->scan_cost_ns = d->scanned_ns - begin;
	d->scan_ns = d->scanned_ns + d->scan_every_ns;
	if (d->scan_ns < d->scanned_ns + SCAN_SHARE * d->scan_cost_ns)
		d->scan_ns = d->scanned_ns + SCAN_SHARE * d->scan_cost_ns;
}

/* Who answers at which address, for whoever draws who asks whom. */
static void tell_neighbours(struct discover *d)
{
	struct peers *peers = NULL;

	if (!d->cfg->metrics_service_graph || !d->targets)
		return;
	if (neighbours(&peers, d->cfg, d->tracker.pods) < 0)
		log_warn("discover: no memory for the addresses of pods: the service graph has "
			 "their names as they are asked for");
	metrics_peers(targets_metrics(d->targets), &peers);
}

static void ask_kubelet(struct discover *d)
{
	struct pods *pods = NULL;

	if (kubelet_run(d->kubelet, &pods) == 1 && tracker_pods(&d->tracker, pods)) {
		d->scan_ns = tracker_now();
		tell_neighbours(d);
	}
	if (d->targets)
		metrics_pods(targets_metrics(d->targets), is_measured, d);
}

static void handle(struct discover *d, uint64_t source)
{
	if (source & TRACKER_PIDFD)
		tracker_exited(&d->tracker, source & ~TRACKER_PIDFD);
	else if (source == SOURCE_EXECS)
		d->execs.drain(d->execs.arg, exec_seen, d);
	else if (source == SOURCE_WORKER)
		tracker_results(&d->tracker);
	else if (source == SOURCE_KUBELET)
		ask_kubelet(d);
}

/* Milliseconds until something is due; a beat at the latest. */
static int timeout_ms(const struct discover *d)
{
	uint64_t now = tracker_now(), next = d->scan_ns;

	if (d->tracker.next_ns && d->tracker.next_ns < next)
		next = d->tracker.next_ns;
	if (next <= now)
		return 0;
	return next - now > BEAT_MS * MS ? BEAT_MS : (int)((next - now) / MS) + 1;
}

static void work(struct discover *d, const struct epoll_event *events, int n)
{
	for (int i = 0; i < n; i++)
		handle(d, events[i].data.u64);
	if (d->scan_ns <= tracker_now())
		scan(d);
	tracker_retry(&d->tracker);
	if (d->tracker.refresh && d->kubelet)
		kubelet_refresh(d->kubelet);
	d->tracker.refresh = false;
	roster_publish(d->tracker.roster);
}

static void *discover_run(void *arg)
{
	struct discover *d = arg;
	struct epoll_event events[EVENTS_MAX];
	bool stopping = false;

	(void)pthread_setname_np(pthread_self(), "control");
	while (!stopping) {
		int timeout, n;

		heart_beat(HEART_CONTROL);
		(void)pthread_mutex_lock(&d->lock);
		timeout = timeout_ms(d);
		(void)pthread_mutex_unlock(&d->lock);
		n = epoll_wait(d->epoll_fd, events, EVENTS_MAX, timeout);
		for (int i = 0; i < n; i++)
			stopping = stopping || events[i].data.u64 == SOURCE_STOP;
		if (stopping)
			break;
		(void)pthread_mutex_lock(&d->lock);
		work(d, events, n);
		(void)pthread_mutex_unlock(&d->lock);
	}
	heart_stop(HEART_CONTROL);
	return NULL;
}

int discover_start(struct discover *d)
{
	int err = worker_start(d->worker);

	if (err)
		return fail(err, "discover: no thread: %s", strerror(-err));
	if (d->kubelet)
		kubelet_refresh(d->kubelet);
	err = pthread_create(&d->thread, NULL, discover_run, d);
	d->started = !err;
	return err ? fail(-err, "discover: no thread: %s", strerror(err)) : 0;
}

void discover_stop(struct discover *d)
{
	uint64_t one = 1;

	(void)!write(d->stop_fd, &one, sizeof(one));
	if (d->started)
		(void)pthread_join(d->thread, NULL);
	d->started = false;
	(void)pthread_mutex_lock(&d->lock);
	tracker_stop(&d->tracker);
	(void)pthread_mutex_unlock(&d->lock);
	worker_stop(d->worker);
}

void discover_free(struct discover **p)
{
	struct discover *d = take(*p);

	if (!d)
		return;
	if (d->worker && d->tracker.roster)
		discover_stop(d);
	worker_free(&d->worker);
	roster_free(&d->tracker.roster);
	pods_free(&d->tracker.pods);
	kubelet_free(&d->kubelet);
	ringbuf_close(&d->exec_ring);
	tracer_free(&d->tracer);
	if (d->epoll_fd >= 0)
		(void)close(d->epoll_fd);
	if (d->stop_fd >= 0)
		(void)close(d->stop_fd);
	(void)pthread_mutex_destroy(&d->lock);
	free(d);
}

bool discover_ready(struct discover *d, char *reason, size_t n)
{
	struct kubelet_state state = { 0 };
	bool ready;

	(void)pthread_mutex_lock(&d->lock);
	ready = d->scanned && (!d->kubelet || d->tracker.pods);
	if (d->kubelet)
		kubelet_state(d->kubelet, &state);
	(void)pthread_mutex_unlock(&d->lock);
	if (ready && n)
		reason[0] = '\0';
	else if (!ready)
		(void)snprintf(reason, n, "%s",
			       *state.message ? state.message
			       : d->kubelet   ? "the kubelet has not told its pods yet"
					      : "/proc has not been looked through yet");
	return ready;
}

int discover_status(struct discover *d, struct json_t *root)
{
	struct status status = { .cfg = d->cfg, .targets = d->targets };
	int err;

	(void)pthread_mutex_lock(&d->lock);
	status.roster = d->tracker.roster;
	status.pods = d->tracker.pods;
	status.kubelet = d->kubelet;
	err = status_append(&status, root);
	(void)pthread_mutex_unlock(&d->lock);
	return err;
}
