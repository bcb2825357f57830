#include "discover/tracker.h"

#include "base/config.h"
#include "base/log.h"
#include "bpf/event.h"
#include "discover/roster.h"
#include "discover/worker.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/wait.h>

/* CONTROL's decisions about one process, a child of ours that only waits, chosen by its pid. */
struct traced {
	int unused;
};

static struct tracker t;
static struct config cfg;
static char pid_text[16], *pids[] = { pid_text, NULL };
static pid_t child;
static enum worker_outcome outcome = WORKER_TRACED;
static pthread_mutex_t hold = PTHREAD_MUTEX_INITIALIZER; /* the worker works while it is free */

static void fake_trace(void *arg, const struct worker_job *job, struct worker_result *out)
{
	(void)arg;
	(void)job;
	(void)pthread_mutex_lock(&hold);
	out->outcome = outcome;
	if (outcome == WORKER_TRACED)
		out->traced = calloc(1, sizeof(*out->traced));
	(void)pthread_mutex_unlock(&hold);
}

static void fake_untrace(void *arg, struct traced **list, size_t n)
{
	(void)arg;
	for (size_t i = 0; i < n; i++)
		free(list[i]);
}

static void set_up(void)
{
	const struct worker_backend backend = { NULL, fake_trace, fake_untrace, NULL };

	log_setup(LOG_ERROR, false);
	child = fork();
	if (child == 0) {
		(void)pause();
		_exit(0);
	}
	(void)snprintf(pid_text, sizeof(pid_text), "%d", child);
	cfg = (struct config){ .proc_root = "/proc", .select_pids = { pids, 1 } };
	t = (struct tracker){ .cfg = &cfg, .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
	cr_assert_eq(roster_new(&t.roster), 0);
	cr_assert_eq(worker_new(&t.worker, &backend), 0);
	cr_assert_eq(worker_start(t.worker), 0);
}

static void tear_down(void)
{
	tracker_stop(&t);
	worker_free(&t.worker);
	roster_free(&t.roster);
	(void)close(t.epoll_fd);
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
}

TestSuite(tracker, .init = set_up, .fini = tear_down, .timeout = 30);

static struct entry *seen(void)
{
	const struct exec_event ev = { .pid = (uint32_t)child, .time_ns = tracker_now() };

	tracker_exec(&t, &ev);
	return roster_find(t.roster, child);
}

static void take_results(void)
{
	struct pollfd ready = { .fd = worker_fd(t.worker), .events = POLLIN };

	cr_assert_eq(poll(&ready, 1, 5000), 1);
	tracker_results(&t);
}

Test(tracker, what_fails_is_tried_again_for_as_long_as_it_is_wanted)
{
	struct entry *e;

	outcome = WORKER_FAILED;
	e = seen();
	take_results();
	for (unsigned int tries = 1; tries < 40; tries++) {
		cr_assert_eq(e->state, ROSTER_FAILED);
		cr_assert_neq(e->retry_ns, 0, "after %u", tries);
		cr_assert_lt(e->retry_ns, tracker_now() + 301000000000u);
		e->retry_ns = t.next_ns = 1; /* its time has come */
		tracker_retry(&t);
		take_results();
	}
	outcome = WORKER_TRACED;
	e->retry_ns = t.next_ns = 1;
	tracker_retry(&t);
	take_results();
	cr_assert_eq(e->state, ROSTER_TRACED);
}

Test(tracker, the_end_is_watched_of_one_that_was_let_go_and_wanted_again_during_its_job)
{
	struct entry *e;

	(void)pthread_mutex_lock(&hold);
	e = seen();
	cr_assert_geq(e->pidfd, 0);
	cfg.select_pids.n = 0;
	(void)tracker_pods(&t, NULL); /* all is decided anew */
	cr_assert_eq(e->state, ROSTER_NOT_SELECTED);
	cr_assert_lt(e->pidfd, 0);
	cfg.select_pids.n = 1;
	(void)tracker_pods(&t, NULL);
	(void)pthread_mutex_unlock(&hold);
	take_results();
	cr_assert_eq(e->state, ROSTER_TRACED);
	cr_assert_geq(e->pidfd, 0);
}
