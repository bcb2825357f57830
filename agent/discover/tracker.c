#include "discover/tracker.h"

#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"
#include "discover/decide.h"
#include "discover/pod.h"
#include "discover/proc.h"
#include "discover/roster.h"
#include "discover/worker.h"

#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>

#define MS 1000000ULL
#define S  1000000000ULL

/* A process that is in no container may be on its way into one. Afterwards the scans find it. */
static const uint64_t young_ns[] = { 100 * MS, 300 * MS, 1 * S, 2 * S, 4 * S, 8 * S, 15 * S };
/* A container that a list does not have which was had so long after it was first seen is in none:
 * sandboxes are not. */
#define LATER_END_NS       (60 * S)
#define NO_MEMORY_NS       (10 * S)
/* Failures of the worker: 1 s, doubled, for ever: slots get free. A process that the worker finds
 * gone and we do not: so often. */
#define FAILED_FIRST_NS    (1 * S)
#define FAILED_MOST_NS     (60 * S)
#define GONE_RETRIES       5
/* Programs that come and go by the thousand are not worth remembering between two scans, unless
 * they are selected. */
#define FLEETING_MAX       2048
/* A process that is just starting or ending, or becoming another program. */
#define UNREADABLE_NS      (50 * MS)
#define UNREADABLE_RETRIES 5

enum how { HOW_EXEC, HOW_SCAN, HOW_RETRY };

uint64_t tracker_now(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * S + (uint64_t)now.tv_nsec;
}

static void retry_in(struct tracker *t, struct entry *e, uint64_t delay)
{
	e->retry_ns = tracker_now() + delay;
	if (!t->next_ns || e->retry_ns < t->next_ns)
		t->next_ns = e->retry_ns;
}

static uint64_t doubled(uint64_t first, unsigned int times, uint64_t most)
{
	return times > 20 || first << times > most ? most : first << times;
}

static void untrace(struct tracker *t, struct entry *e)
{
	if (!e->traced)
		return;
	if (worker_untrace(t->worker, e->traced))
		log_error("discover: no memory to detach process %d; its probes go when it ends",
			  e->proc.pid);
	e->traced = NULL;
	t->roster->probes -= e->result ? e->result->nprobes : 0;
	stat_add(detach_total, 1);
}

/* The process has ended or become another one. */
static void lose(struct tracker *t, struct entry *e, const char *why)
{
	bool was = e->traced;

	untrace(t, e);
	if (was)
		roster_set(t->roster, e, ROSTER_ENDED, "%s", why);
	roster_remove(t->roster, e, was);
}

/* Has its end told by a pidfd. False: it has ended already. */
static bool watch(struct tracker *t, struct entry *e)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = TRACKER_PIDFD | e->serial };
	uint64_t start_time;

	if (e->pidfd >= 0)
		return true;
	e->pidfd = (int)syscall(SYS_pidfd_open, e->proc.pid, 0);
	/* Behind the pidfd is the process that we looked at, or it is gone. Without one (too many
	 * files) the next scan tells. */
	if (proc_start_time(t->cfg->proc_root, e->proc.pid, &start_time) ||
	    start_time != e->proc.start_time)
		return false;
	if (e->pidfd >= 0 && epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, e->pidfd, &ev) != 0) {
		(void)close(e->pidfd);
		e->pidfd = -1;
	}
	return true;
}

static void unwatch(struct entry *e)
{
	if (e->pidfd >= 0)
		(void)close(e->pidfd);
	e->pidfd = -1;
}

static void submit(struct tracker *t, struct entry *e, const struct decide_on *on)
{
	struct worker_job *job;

	if (worker_job_new(&job)) {
		if (e->traced)
			return; /* what is told of it stays as it is */
		roster_set(t->roster, e, ROSTER_FAILED, "no memory");
		retry_in(t, e, NO_MEMORY_NS);
		return;
	}
	job->serial = e->serial;
	job->proc = e->proc;
	job->pods = on->pod ? pods_ref(t->pods) : NULL;
	job->pod = on->pod;
	job->container = on->container;
	job->signals = e->job_signals = e->signals;
	e->names = on->pod ? pod_names(on->pod) : 0;
	if (e->traced) {
		job->rename = true;
		job->slot = e->result->slot;
		job->generation = e->result->generation;
		memcpy(job->go_version, e->result->go_version, sizeof(job->go_version));
	}
	e->working = true;
	worker_trace(t->worker, job);
}

/* The worker has refused it before: that holds until it becomes another program, but for what may
 * pass. */
static void show_refusal(struct tracker *t, struct entry *e)
{
	static const enum roster_state states[] = {
		[WORKER_NOT_GO] = ROSTER_NOT_GO,
		[WORKER_UNSUPPORTED] = ROSTER_UNSUPPORTED,
		[WORKER_DECLINED] = ROSTER_NOT_SELECTED,
		[WORKER_FAILED] = ROSTER_FAILED,
	};

	roster_set(t->roster, e, states[e->result->outcome], "%s", e->result->reason);
	if (e->result->outcome == WORKER_FAILED && !e->retry_ns)
		retry_in(t, e, doubled(FAILED_FIRST_NS, e->retries, FAILED_MOST_NS));
}

static void want(struct tracker *t, struct entry *e, const struct decision *d,
		 const struct decide_on *on)
{
	if (e->state == ROSTER_NOT_SELECTED && !e->fleeting)
		e->found_ns = tracker_now(); /* its pod opts in while it runs */
	e->fleeting = e->later = false;
	e->wanted = true;
	e->signals = d->signals;
	if (!watch(t, e)) {
		lose(t, e, "the process has ended");
		return;
	}
	if (e->working)
		return; /* the result will be looked at in this light */
	if (e->traced && e->job_signals != e->signals) {
		untrace(t, e);
		free(take(e->result));
	}
	if (e->traced) {
		roster_set(t->roster, e, ROSTER_TRACED, "%s", d->reason);
		if (on->container && e->names != pod_names(on->pod))
			submit(t, e, on);
	} else if (e->result && !e->again) {
		show_refusal(t, e);
	} else {
		e->again = false;
		if (!e->result) /* else its last failure is shown until there is news */
			roster_set(t->roster, e, ROSTER_PENDING, "probes are being attached: %s",
				   d->reason);
		submit(t, e, on);
	}
}

static void unwant(struct tracker *t, struct entry *e, const struct decision *d)
{
	e->wanted = e->later = false;
	if (e->traced) {
		untrace(t, e);
		free(take(e->result));
	}
	unwatch(e);
	roster_set(t->roster, e,
		   d->state == DECIDE_UNSUPPORTED ? ROSTER_UNSUPPORTED : ROSTER_NOT_SELECTED, "%s",
		   d->reason);
	if (e->fleeting && t->roster->count[ROSTER_NOT_SELECTED] > FLEETING_MAX)
		roster_remove(t->roster, e, false);
	else if (e->young && !e->retry_ns && t->kubernetes && !e->proc.container_id[0] &&
		 e->retries < ARRAY_SIZE(young_ns))
		retry_in(t, e, young_ns[e->retries]);
}

static void wait_for_pod(struct tracker *t, struct entry *e, const struct decision *d)
{
	uint64_t first;

	if (e->traced || e->working)
		return; /* the pod has left the list before its process */
	e->fleeting = false;
	if (!watch(t, e)) {
		lose(t, e, "the process has ended");
		return;
	}
	first = waiting_add(&t->waiting, e->proc.container_id, tracker_now());
	e->later = !t->pods || t->listed_ns < first + LATER_END_NS;
	if (!e->later)
		roster_set(t->roster, e, ROSTER_NOT_SELECTED,
			   "the kubelet lists no container %.12s: a pod's sandbox, or no container "
			   "of Kubernetes",
			   e->proc.container_id);
	else
		roster_set(t->roster, e, ROSTER_PENDING, "%s",
			   t->pods ? d->reason : "the kubelet has not told its pods yet");
	if (t->waiting.ask_ns && (!t->next_ns || t->waiting.ask_ns < t->next_ns))
		t->next_ns = t->waiting.ask_ns;
}

/* May remove e. */
static void decide_entry(struct tracker *t, struct entry *e)
{
	struct decide_on on = { .proc = &e->proc, .kubernetes = t->kubernetes };
	struct decision d;

	if (t->kubernetes && e->proc.container_id[0]) {
		stat_add(container_lookups, 1);
		on.container = pods_find(t->pods, e->proc.container_id, &on.pod);
		if (on.container) {
			waiting_done(&t->waiting, e->proc.container_id);
		} else {
			stat_add(container_lookup_misses, 1);
			on.pod = pods_find_cgroup(t->pods, e->proc.pod_uid);
		}
	}
	d = decide(t->cfg, &on);
	if (d.state == DECIDE_TRACE)
		want(t, e, &d, &on);
	else if (d.state == DECIDE_LATER)
		wait_for_pod(t, e, &d);
	else
		unwant(t, e, &d);
}

static void look_unreadable(struct tracker *t, struct entry *e, int pid)
{
	const struct process unread = { .pid = pid };

	if (!e) {
		e = roster_add(t->roster, &unread);
		if (!e)
			return;
		roster_set(t->roster, e, ROSTER_PENDING, "the process is just starting, or ending");
	}
	e->scan = t->scan;
	if (e->retry_ns || e->proc.start_time)
		return; /* something of an older look; a scan or its pidfd will tell */
	if (e->retries < UNREADABLE_RETRIES)
		retry_in(t, e, UNREADABLE_NS << e->retries);
	else
		roster_remove(t->roster, e, false);
}

static bool same_program(const struct entry *e, const struct process *proc)
{
	bool executed = e->proc.stack && proc->stack && e->proc.stack != proc->stack;

	return e->proc.start_time == proc->start_time && !executed && e->proc.dev == proc->dev &&
	       e->proc.ino == proc->ino && strcmp(e->proc.exe, proc->exe) == 0;
}

static void look(struct tracker *t, int pid, enum how how, uint64_t exec_ns)
{
	struct entry *e = roster_find(t->roster, pid);
	uint64_t now = tracker_now();
	struct process proc;
	bool moved;
	int err;

	if (e && how == HOW_EXEC && exec_ns < e->looked_ns)
		return; /* it was that program already when we looked */
	err = proc_read(&proc, t->cfg->proc_root, pid);
	if (err == -EAGAIN) {
		look_unreadable(t, e, pid);
		return;
	}
	if (err) { /* ended; or a kernel thread */
		if (e)
			lose(t, e, "the process has ended");
		return;
	}
	moved = e && strcmp(e->proc.container_id, proc.container_id) != 0;
	/* Who it is was told to the worker: of another container it is another one. */
	if (e &&
	    (how == HOW_EXEC || !same_program(e, &proc) || (moved && (e->traced || e->working)))) {
		lose(t, e,
		     moved ? "the process is in another container now"
			   : "the process has executed another program");
		e = NULL;
	}
	moved = moved || !e;
	if (!e) {
		e = roster_add(t->roster, &proc);
		if (!e)
			return;
		e->found_ns = now;
		e->fleeting = e->young = how == HOW_EXEC;
	}
	e->proc = proc;
	e->looked_ns = now;
	e->scan = t->scan;
	e->fleeting = e->fleeting && how != HOW_SCAN;
	if (moved || how != HOW_SCAN)
		decide_entry(t, e);
}

void tracker_exec(struct tracker *t, const struct exec_event *ev)
{
	look(t, (int)ev->pid, HOW_EXEC, ev->time_ns);
}

static int scan_one(int pid, void *arg)
{
	look(arg, pid, HOW_SCAN, 0);
	return 0;
}

static bool lose_unseen(struct entry *e, void *arg)
{
	struct tracker *t = arg;

	if (e->scan != t->scan)
		lose(t, e, "the process has ended");
	return true;
}

void tracker_scan(struct tracker *t)
{
	static struct log_limit limit;
	uint64_t skipped;
	int err;

	t->scan++;
	err = proc_foreach(t->cfg->proc_root, scan_one, t);
	if (!err)
		roster_foreach(t->roster, lose_unseen, t);
	else if (log_allow(&limit, &skipped))
		log_error("discover: %s cannot be read: %s", t->cfg->proc_root, strerror(-err));
}

static bool decide_one(struct entry *e, void *arg)
{
	if (e->proc.start_time)
		decide_entry(arg, e);
	return true;
}

static bool decide_later(struct entry *e, void *arg)
{
	if (e->later)
		decide_entry(arg, e);
	return true;
}

bool tracker_pods(struct tracker *t, struct pods *pods)
{
	bool changed = !t->pods || pods_hash(pods) != pods_hash(t->pods);

	pods_free(&t->pods);
	t->pods = pods;
	t->listed_ns = tracker_now();
	stat_set(pods, pods_count(pods));
	roster_foreach(t->roster, changed ? decide_one : decide_later, t);
	return changed;
}

void tracker_exited(struct tracker *t, uint64_t serial)
{
	struct entry *e = roster_find_serial(t->roster, serial);

	if (e)
		lose(t, e, "the process has ended");
}

static void take_result(struct tracker *t, struct worker_result *result)
{
	auto_free struct worker_result *r = result;
	struct entry *e = roster_find_serial(t->roster, r->serial);
	static struct log_limit limit;
	uint64_t skipped;

	if (e)
		e->working = false;
	if (r->renamed) {
		; /* nothing else has changed */
	} else if (r->traced && (!e || !e->wanted || e->signals != e->job_signals)) {
		if (worker_untrace(t->worker, r->traced))
			log_error("discover: no memory to detach a process; its probes go when it "
				  "ends");
		stat_add(detach_total, 1);
		r->traced = NULL;
	} else if (e && r->outcome == WORKER_GONE) {
		if (e->retries >= GONE_RETRIES)
			roster_set(t->roster, e, ROSTER_FAILED, "%s", r->reason);
		else
			retry_in(t, e, UNREADABLE_NS << e->retries);
		return;
	} else if (e && e->wanted) {
		if (r->outcome == WORKER_FAILED && log_allow(&limit, &skipped))
			log_warn("discover: process %d (%s) is not traced: %s (%llu more such "
				 "messages left out)",
				 e->proc.pid, e->proc.exe, r->reason, (unsigned long long)skipped);
		if (r->outcome == WORKER_TRACED) {
			stat_observe(attach, tracker_now() - e->found_ns);
			e->retries = 0;
			e->traced = r->traced;
			t->roster->probes += r->nprobes;
		}
		free(e->result);
		e->result = take(r);
	}
	if (e && e->wanted)
		decide_entry(t, e);
}

void tracker_results(struct tracker *t)
{
	struct worker_result *next;

	for (struct worker_result *r = worker_results(t->worker); r; r = next) {
		next = r->next;
		take_result(t, r);
	}
}

static bool retry_one(struct entry *e, void *arg)
{
	struct tracker *t = arg;
	uint64_t now = tracker_now();

	if (!e->retry_ns || e->retry_ns > now)
		return true;
	e->retry_ns = 0;
	e->retries++;
	e->again = e->state == ROSTER_FAILED;
	look(t, e->proc.pid, HOW_RETRY, 0);
	return true;
}

struct due {
	uint64_t next_ns;
	bool later; /* somebody waits for a newer list */
};

static bool find_due(struct entry *e, void *arg)
{
	struct due *due = arg;

	due->later = due->later || e->later;
	if (e->retry_ns && (!due->next_ns || e->retry_ns < due->next_ns))
		due->next_ns = e->retry_ns;
	return true;
}

void tracker_retry(struct tracker *t)
{
	struct due due = { 0 };

	if (!t->next_ns || t->next_ns > tracker_now())
		return;
	roster_foreach(t->roster, retry_one, t);
	roster_foreach(t->roster, find_due, &due);
	t->refresh = waiting_due(&t->waiting, tracker_now(), due.later) || t->refresh;
	t->next_ns = due.next_ns;
	if (t->waiting.ask_ns && (!t->next_ns || t->waiting.ask_ns < t->next_ns))
		t->next_ns = t->waiting.ask_ns;
}

static bool stop_one(struct entry *e, void *arg)
{
	untrace(arg, e);
	return true;
}

void tracker_stop(struct tracker *t)
{
	roster_foreach(t->roster, stop_one, t);
}
