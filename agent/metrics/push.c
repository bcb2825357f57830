#include "metrics/push.h"

#include "base/config.h"
#include "base/log.h"
#include "export/otlp_metrics.h"
#include "export/otlp_signal.h"
#include "export/post.h"
#include "metrics/delta.h"
#include "metrics/metrics.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000ull
#define BEAT_NS   (5 * NS_PER_S)

struct request {
	struct request *next;
	size_t size, points;
	uint8_t body[];
};

/* METRICS thread only, but for stop_ns, and lock and wake, by which push_stop() ends a wait. */
struct push {
	struct metrics *metrics;
	struct otlp_metrics *otlp;
	struct post *post;
	uint64_t interval_ns, retry_min_ns, retry_max_ns;
	bool delta;
	struct delta *sources; /* makes deltas of sources that know only sums; or NULL */
	struct request *first, **last;
	size_t bytes, bytes_max, points;
	unsigned attempts; /* of the first one */
	unsigned failures; /* since the last success */
	uint64_t next_ns, not_before_ns, failing_since_ns;
	struct log_limit failed, dropped, said;
	_Atomic uint64_t stop_ns; /* deadline of push_stop(), 0: runs */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool started;
};

static const struct post_kind kind = {
	.signal = OTLP_METRICS,
	.heart = HEART_METRICS,
	.items = "data points",
	.answer = "ExportMetricsServiceResponse",
	.answered_2xx = &stats[STAT_otlp_metrics_2xx],
	.answered_4xx = &stats[STAT_otlp_metrics_4xx],
	.answered_5xx = &stats[STAT_otlp_metrics_5xx],
	.not_answered = &stats[STAT_otlp_metrics_none],
	.sent_bytes = &stats[STAT_otlp_metrics_bytes],
	.last_success = &stats[STAT_otlp_metrics_last_success],
};

static _Atomic uint64_t *const failures[EXPORT_REASON_COUNT] = {
	[EXPORT_HTTP_4XX] = &stats[STAT_otlp_points_4xx],
	[EXPORT_HTTP_5XX] = &stats[STAT_otlp_points_5xx],
	[EXPORT_TIMEOUT] = &stats[STAT_otlp_points_timeout],
	[EXPORT_CONNECT] = &stats[STAT_otlp_points_connect],
	[EXPORT_TLS] = &stats[STAT_otlp_points_tls],
	[EXPORT_TOO_LARGE] = &stats[STAT_otlp_points_too_large],
	[EXPORT_REJECTED] = &stats[STAT_otlp_points_rejected],
	[EXPORT_SHUTDOWN] = &stats[STAT_otlp_points_shutdown],
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec ts;

	(void)clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void say(struct log_limit *limit, enum log_level level, const char *what, const char *more)
{
	uint64_t skipped;

	if (!log_allow(limit, &skipped))
		return;
	if (skipped)
		log_write(level, "metrics: %s%s (%llu more like this were not logged)", what, more,
			  (unsigned long long)skipped);
	else
		log_write(level, "metrics: %s%s", what, more);
}

static void remove_first(struct push *p)
{
	struct request *r = p->first;

	p->first = r->next;
	if (!p->first)
		p->last = &p->first;
	p->bytes -= r->size;
	p->points -= r->points;
	p->attempts = 0;
	stat_set(points_queued, p->points);
	free(r);
}

static void lose(_Atomic uint64_t *counter, size_t points)
{
	(void)atomic_fetch_add_explicit(counter, points, memory_order_relaxed);
}

/* Called by the encoder. */
static void add(void *arg, const uint8_t *body, size_t size, size_t points)
{
	struct push *p = arg;
	struct request *r = malloc(sizeof(*r) + size);

	stat_add(otlp_points, points);
	if (!r) {
		lose(&stats[STAT_otlp_points_too_large], points);
		say(&p->dropped, LOG_ERROR, "dropped: ", "no memory for a request");
		return;
	}
	*r = (struct request){ .size = size, .points = points };
	memcpy(r->body, body, size);
	*p->last = r;
	p->last = &r->next;
	p->bytes += size;
	p->points += points;
	while (p->bytes > p->bytes_max && p->first != r) {
		lose(&stats[STAT_otlp_points_queue], p->first->points);
		say(&p->dropped, LOG_ERROR, "dropped the oldest: ",
		    "more waits for the receiver than metrics.queue allows");
		remove_first(p);
	}
	stat_set(points_queued, p->points);
}

static void collect(struct push *p)
{
	struct collecting how = { .now_ns = now_ns(CLOCK_REALTIME),
				  .delta = p->delta,
				  .ended = true };
	size_t lost;

	otlp_metrics_begin(p->otlp, p->delta);
	if (p->sources) {
		delta_begin(p->sources, &otlp_metrics_sink, p->otlp);
		metrics_collect(p->metrics, &how, &delta_sink, p->sources);
		lost = delta_end(p->sources, how.now_ns);
		stat_add(otlp_points, lost);
		lose(&stats[STAT_otlp_points_too_large], lost);
	} else {
		metrics_collect(p->metrics, &how, &otlp_metrics_sink, p->otlp);
	}
	if (otlp_metrics_end(p->otlp, &lost) < 0) {
		stat_add(otlp_points, lost);
		lose(&stats[STAT_otlp_points_too_large], lost);
		say(&p->dropped, LOG_ERROR, "dropped: ", "no memory to encode them");
	}
}

static void retry_later(struct push *p, const struct export_result *r)
{
	uint64_t now = now_ns(CLOCK_MONOTONIC), wait;
	char more[64];

	if (p->failures++ == 0)
		p->failing_since_ns = now;
	wait = export_back_off(p->retry_min_ns, p->retry_max_ns, p->failures);
	if (r->after_ms)
		wait = r->after_ms * NS_PER_MS;
	p->not_before_ns = now + wait;
	(void)snprintf(more, sizeof(more), "; next attempt in %.1f s", (double)wait / NS_PER_S);
	say(&p->failed, LOG_WARN, r->message, more);
}

static void delivered(struct push *p, const struct export_result *r)
{
	if (*r->message)
		say(&p->said, LOG_WARN, r->message, "");
	if (p->failures)
		log_info("metrics: delivers again, after %u failed attempts in %.1f s", p->failures,
			 (double)(now_ns(CLOCK_MONOTONIC) - p->failing_since_ns) / NS_PER_S);
	p->failures = 0;
	p->not_before_ns = 0;
}

/* Sends what waits, the oldest first, until there is nothing or the receiver does not take it. */
static void send_all(struct push *p, struct export_result *r)
{
	while (p->first && now_ns(CLOCK_MONOTONIC) >= p->not_before_ns) {
		size_t points = p->first->points;

		if (p->attempts++)
			stat_add(otlp_metrics_retries, 1);
		post_send(p->post, p->first->body, p->first->size, points, &p->stop_ns, r);
		if (r->verdict == EXPORT_RETRY) {
			retry_later(p, r);
			return;
		}
		if (r->verdict == EXPORT_DONE) {
			delivered(p, r);
			lose(failures[EXPORT_REJECTED], r->rejected);
		} else {
			lose(failures[r->reason], points);
			say(&p->dropped, LOG_ERROR, "dropped, refused for good: ", r->message);
		}
		remove_first(p);
	}
}

/* Sleeps until then, or until push_stop(), or for BEAT_NS: whatever comes first. */
static void sleep_until(struct push *p, uint64_t until_ns)
{
	uint64_t most = now_ns(CLOCK_MONOTONIC) + BEAT_NS;
	uint64_t until = until_ns < most ? until_ns : most;
	struct timespec ts = { .tv_sec = (time_t)(until / NS_PER_S),
			       .tv_nsec = (long)(until % NS_PER_S) };

	(void)pthread_mutex_lock(&p->lock);
	while (!p->stop_ns && pthread_cond_timedwait(&p->wake, &p->lock, &ts) == 0)
		;
	(void)pthread_mutex_unlock(&p->lock);
}

/* The agent ends: at once, and again while there is time. */
static void flush(struct push *p)
{
	struct export_result r = { .reason = EXPORT_SHUTDOWN };

	if (now_ns(CLOCK_MONOTONIC) < p->not_before_ns && p->failures)
		p->not_before_ns = 0;
	collect(p);
	while (p->first && now_ns(CLOCK_MONOTONIC) < p->stop_ns) {
		send_all(p, &r);
		if (!p->first || p->not_before_ns >= p->stop_ns)
			break;
		heart_beat(HEART_METRICS);
		(void)usleep(10000);
	}
	while (p->first) {
		lose(failures[r.reason], p->first->points);
		say(&p->dropped, LOG_ERROR,
		    "dropped, the agent ends: ", *r.message ? r.message : "not tried");
		remove_first(p);
	}
}

static void *run(void *arg)
{
	struct push *p = arg;
	struct export_result r;
	sigset_t all;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, NULL);
	(void)pthread_setname_np(pthread_self(), "metrics");
	p->next_ns = now_ns(CLOCK_MONOTONIC) + p->interval_ns;
	while (!p->stop_ns) {
		uint64_t now = now_ns(CLOCK_MONOTONIC), until;

		heart_beat(HEART_METRICS);
		if (now >= p->next_ns) {
			/* A time that was missed is not made up for. */
			p->next_ns += (now - p->next_ns) / p->interval_ns * p->interval_ns +
				      p->interval_ns;
			collect(p);
		}
		send_all(p, &r);
		until = p->next_ns;
		if (p->first && p->not_before_ns < until)
			until = p->not_before_ns;
		sleep_until(p, until);
	}
	flush(p);
	heart_stop(HEART_METRICS);
	return NULL;
}

int push_new(struct push **out, const struct config *cfg, struct metrics *m)
{
	__attribute__((cleanup(push_free))) struct push *p = calloc(1, sizeof(*p));
	pthread_condattr_t attr;
	int err = 0;

	if (!p)
		return fail(-ENOMEM, "metrics: out of memory");
	p->metrics = m;
	p->last = &p->first;
	p->bytes_max = cfg->metrics_queue;
	p->interval_ns = cfg->metrics_interval * NS_PER_MS;
	p->retry_min_ns = cfg->export_retry_min * NS_PER_MS;
	p->retry_max_ns = cfg->export_retry_max * NS_PER_MS;
	p->delta = strcmp(cfg->metrics_temporality, "cumulative") != 0;
	(void)pthread_mutex_init(&p->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&p->wake, &attr);
	(void)pthread_condattr_destroy(&attr);
	if (strcmp(cfg->metrics_temporality, "delta") == 0)
		err = delta_new(&p->sources, now_ns(CLOCK_REALTIME));
	if (!err)
		err = post_new(&p->post, cfg, &kind);
	if (!err)
		err = otlp_metrics_new(&p->otlp, cfg->otlp_max_request,
				       otlp_options(cfg, OTLP_METRICS).gzip, add, p);
	if (err == -ENOMEM)
		log_error("metrics: out of memory");
	if (!err)
		*out = take(p);
	return err;
}

int push_start(struct push *p)
{
	int err = pthread_create(&p->thread, NULL, run, p);

	if (err)
		return fail(-err, "metrics: no thread: %s", strerror(err));
	p->started = true;
	return 0;
}

void push_stop(struct push *p, uint64_t deadline_ns)
{
	if (!p || !p->started)
		return;
	(void)pthread_mutex_lock(&p->lock);
	p->stop_ns = deadline_ns ? deadline_ns : 1;
	(void)pthread_cond_broadcast(&p->wake);
	(void)pthread_mutex_unlock(&p->lock);
	(void)pthread_join(p->thread, NULL);
	p->started = false;
}

void push_free(struct push **pp)
{
	struct push *p = take(*pp);

	if (!p)
		return;
	while (p->first)
		remove_first(p);
	post_free(&p->post);
	otlp_metrics_free(&p->otlp);
	delta_free(&p->sources);
	(void)pthread_cond_destroy(&p->wake);
	(void)pthread_mutex_destroy(&p->lock);
	free(p);
}
