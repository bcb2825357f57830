#include "discover/worker.h"

#include "base/footprint.h"
#include "base/heart.h"
#include "base/log.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>

#define BEAT_S          2
#define TICK_NS         (2 * 1000000000ull)
/* Attaching goes first, for a program that has just started is losing requests; but what waits to
 * be detached gets its turn after so many. */
#define TRACES_IN_A_ROW 8

struct worker {
	struct worker_backend backend;
	pthread_t thread;
	bool started;
	int event_fd;
	uint64_t tick_ns; /* of the thread: when the next one is due */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* guarded by lock */
	bool stopping;
	struct worker_job *first, **last;
	struct traced **untrace;
	size_t nuntrace, untrace_room;
	struct worker_result *results, **results_last;
};

int worker_new(struct worker **out, const struct worker_backend *backend)
{
	struct worker *w = calloc(1, sizeof(*w));
	pthread_condattr_t attr;

	if (!w)
		return -ENOMEM;
	w->backend = *backend;
	w->last = &w->first;
	w->results_last = &w->results;
	w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->event_fd < 0) {
		int err = -errno;

		free(w);
		return err;
	}
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&w->wake, &attr);
	(void)pthread_condattr_destroy(&attr);
	*out = w;
	return 0;
}

int worker_job_new(struct worker_job **out)
{
	struct worker_job *job = calloc(1, sizeof(*job));

	if (job)
		job->result = calloc(1, sizeof(*job->result));
	if (!job || !job->result) {
		free(job);
		return -ENOMEM;
	}
	*out = job;
	return 0;
}

void worker_job_free(struct worker_job **p)
{
	struct worker_job *job = take(*p);

	if (!job)
		return;
	pods_free(&job->pods);
	free(job->result);
	free(job);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Under the lock, which it leaves for that time. */
static void tick_if_due(struct worker *w)
{
	if (!w->backend.tick || now_ns() < w->tick_ns)
		return;
	(void)pthread_mutex_unlock(&w->lock);
	w->backend.tick(w->backend.arg);
	w->tick_ns = now_ns() + TICK_NS;
	(void)pthread_mutex_lock(&w->lock);
}

/* Waits for work under the lock; a beat now and then, also when idle. What the last work took of
 * memory goes back when there has been no other for a while. */
static void wait_for_work(struct worker *w)
{
	bool worked = true;

	while (!w->stopping && !w->first && !w->nuntrace) {
		struct timespec until;

		(void)clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += BEAT_S;
		if (pthread_cond_timedwait(&w->wake, &w->lock, &until) == ETIMEDOUT && worked) {
			worked = false;
			footprint_trim();
		}
		heart_beat(HEART_WORKER);
		tick_if_due(w);
	}
}

static void untrace_all(struct worker *w)
{
	auto_free struct traced **list = w->untrace;
	size_t n = w->nuntrace;

	w->untrace = NULL;
	w->nuntrace = w->untrace_room = 0;
	(void)pthread_mutex_unlock(&w->lock);
	w->backend.untrace(w->backend.arg, list, n);
	(void)pthread_mutex_lock(&w->lock);
}

static void trace_first(struct worker *w)
{
	struct worker_job *job = w->first;
	struct worker_result *result;
	uint64_t one = 1;

	w->first = job->next;
	if (!w->first)
		w->last = &w->first;
	(void)pthread_mutex_unlock(&w->lock);
	result = take(job->result);
	w->backend.trace(w->backend.arg, job, result);
	result->serial = job->serial;
	result->next = NULL;
	worker_job_free(&job);
	(void)pthread_mutex_lock(&w->lock);
	*w->results_last = result;
	w->results_last = &result->next;
	(void)!write(w->event_fd, &one, sizeof(one));
}

static void *worker_run(void *arg)
{
	struct worker *w = arg;
	int row = 0;

	(void)pthread_setname_np(pthread_self(), "worker");
	heart_beat(HEART_WORKER);
	(void)pthread_mutex_lock(&w->lock);
	for (;;) {
		wait_for_work(w);
		if (w->stopping)
			break;
		tick_if_due(w);
		if (w->first && (!w->nuntrace || row < TRACES_IN_A_ROW)) {
			trace_first(w);
			row++;
		} else {
			untrace_all(w);
			row = 0;
		}
		heart_beat(HEART_WORKER);
	}
	(void)pthread_mutex_unlock(&w->lock);
	heart_stop(HEART_WORKER);
	return NULL;
}

int worker_start(struct worker *w)
{
	int err = pthread_create(&w->thread, NULL, worker_run, w);

	w->started = !err;
	return -err;
}

int worker_fd(const struct worker *w)
{
	return w->event_fd;
}

void worker_trace(struct worker *w, struct worker_job *job)
{
	job->next = NULL;
	(void)pthread_mutex_lock(&w->lock);
	*w->last = job;
	w->last = &job->next;
	(void)pthread_cond_signal(&w->wake);
	(void)pthread_mutex_unlock(&w->lock);
}

/* Under the lock. */
static int add_untrace(struct worker *w, struct traced *traced)
{
	if (w->nuntrace == w->untrace_room) {
		size_t room = w->untrace_room ? 2 * w->untrace_room : 16;
		struct traced **more = reallocarray(w->untrace, room, sizeof(struct traced *));

		if (!more)
			return -ENOMEM;
		w->untrace = more;
		w->untrace_room = room;
	}
	w->untrace[w->nuntrace++] = traced;
	return 0;
}

int worker_untrace(struct worker *w, struct traced *traced)
{
	int err;

	(void)pthread_mutex_lock(&w->lock);
	err = add_untrace(w, traced);
	(void)pthread_cond_signal(&w->wake);
	(void)pthread_mutex_unlock(&w->lock);
	return err;
}

struct worker_result *worker_results(struct worker *w)
{
	struct worker_result *results;
	uint64_t n;

	(void)!read(w->event_fd, &n, sizeof(n));
	(void)pthread_mutex_lock(&w->lock);
	results = take(w->results);
	w->results_last = &w->results;
	(void)pthread_mutex_unlock(&w->lock);
	return results;
}

void worker_stop(struct worker *w)
{
	struct worker_result *result;

	(void)pthread_mutex_lock(&w->lock);
	w->stopping = true;
	(void)pthread_cond_signal(&w->wake);
	(void)pthread_mutex_unlock(&w->lock);
	if (w->started)
		(void)pthread_join(w->thread, NULL);
	w->started = false;
	while (w->first) {
		struct worker_job *job = w->first;

		w->first = job->next;
		worker_job_free(&job);
	}
	w->last = &w->first;
	(void)pthread_mutex_lock(&w->lock);
	for (result = take(w->results); result;) {
		struct worker_result *next = result->next;

		if (result->traced && add_untrace(w, result->traced))
			log_error("worker: no memory to detach a process; its probes go when the "
				  "agent ends");
		free(result);
		result = next;
	}
	w->results_last = &w->results;
	if (w->nuntrace)
		untrace_all(w);
	(void)pthread_mutex_unlock(&w->lock);
}

void worker_free(struct worker **p)
{
	struct worker *w = take(*p);

	if (!w)
		return;
	worker_stop(w);
	(void)close(w->event_fd);
	(void)pthread_cond_destroy(&w->wake);
	(void)pthread_mutex_destroy(&w->lock);
	free(w);
}
