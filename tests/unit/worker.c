#include "discover/worker.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>

struct traced {
	int pid;
};

/* What the thread was asked for, in order: a pid, or minus the number of a batch that was let go.
 */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t go;
	int log[64];
	size_t n;
	bool held; /* the first job waits */
} seen = { .lock = PTHREAD_MUTEX_INITIALIZER, .go = PTHREAD_COND_INITIALIZER };

static void note(int what)
{
	seen.log[seen.n++] = what;
	(void)pthread_cond_broadcast(&seen.go);
}

static void trace(void *arg, const struct worker_job *job, struct worker_result *out)
{
	(void)arg;
	(void)pthread_mutex_lock(&seen.lock);
	note(job->proc.pid);
	while (seen.held)
		(void)pthread_cond_wait(&seen.go, &seen.lock);
	(void)pthread_mutex_unlock(&seen.lock);
	out->outcome = WORKER_TRACED;
	out->traced = calloc(1, sizeof(*out->traced));
	out->serial = 99; /* not the backend's to say */
}

static void untrace(void *arg, struct traced **list, size_t n)
{
	(void)arg;
	(void)pthread_mutex_lock(&seen.lock);
	note(-(int)n);
	(void)pthread_mutex_unlock(&seen.lock);
	for (size_t i = 0; i < n; i++)
		free(list[i]);
}

static const struct worker_backend backend = { NULL, trace, untrace, NULL };
static struct worker *w;

static void set_up(void)
{
	cr_assert_eq(worker_new(&w, &backend), 0);
}

static void tear_down(void)
{
	worker_free(&w);
}

static void submit(int pid)
{
	struct worker_job *job = NULL;

	cr_assert_eq(worker_job_new(&job), 0);
	job->proc.pid = pid;
	job->serial = (uint64_t)pid + 1000;
	worker_trace(w, job);
}

static void let_go(void)
{
	struct traced *traced = calloc(1, sizeof(*traced));

	cr_assert_eq(worker_untrace(w, traced), 0);
}

static void wait_for(size_t n)
{
	(void)pthread_mutex_lock(&seen.lock);
	while (seen.n < n)
		(void)pthread_cond_wait(&seen.go, &seen.lock);
	(void)pthread_mutex_unlock(&seen.lock);
}

TestSuite(worker, .init = set_up, .fini = tear_down, .timeout = 30);

Test(worker, a_result_comes_for_each_job_in_its_order)
{
	struct pollfd ready = { .fd = worker_fd(w), .events = POLLIN };
	uint64_t next = 1001;

	cr_assert_eq(worker_start(w), 0);
	cr_expect_eq(poll(&ready, 1, 0), 0);
	for (int pid = 1; pid <= 5; pid++)
		submit(pid);
	while (next < 1006) {
		struct worker_result *r, *after;

		cr_assert_eq(poll(&ready, 1, 5000), 1);
		for (r = worker_results(w); r; r = after) {
			after = r->next;
			cr_expect_eq(r->serial, next++);
			free(r->traced);
			free(r);
		}
	}
	cr_expect_null(worker_results(w));
	cr_expect_eq(poll(&ready, 1, 0), 0);
}

Test(worker, attaching_goes_first_but_not_for_ever_and_what_waits_is_detached_together)
{
	static const int want[] = { 1, 2, 3, 4, 5, 6, 7, 8, -3, 9, 10 };

	for (int pid = 1; pid <= 10; pid++)
		submit(pid);
	for (int i = 0; i < 3; i++)
		let_go();
	cr_assert_eq(worker_start(w), 0);
	wait_for(ARRAY_SIZE(want));
	worker_stop(w);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		cr_expect_eq(seen.log[i], want[i], "%zu: %d", i, seen.log[i]);
}

Test(worker, at_the_stop_jobs_are_forgotten_and_all_that_was_traced_is_let_go)
{
	seen.held = true;
	submit(1);
	submit(2);
	let_go();
	cr_assert_eq(worker_start(w), 0);
	wait_for(1);
	(void)pthread_mutex_lock(&seen.lock);
	seen.held = false;
	(void)pthread_cond_broadcast(&seen.go);
	(void)pthread_mutex_unlock(&seen.lock);
	worker_stop(w);
	/* The second may have been begun; each traced one and the one that waited have been let go,
	 * whoever did it. */
	int let = 0, traced = 0;

	for (size_t i = 0; i < seen.n; i++) {
		let -= seen.log[i] < 0 ? seen.log[i] : 0;
		traced += seen.log[i] > 0;
	}
	cr_expect_eq(let, traced + 1);
	worker_stop(w); /* and again: nothing happens */
}

Test(worker, one_that_was_never_started_can_be_stopped)
{
	submit(1);
	let_go();
	worker_stop(w);
	cr_expect_eq(seen.n, 1);
	cr_expect_eq(seen.log[0], -1);
}
