#include "export/export.h"

#include "base/config.h"
#include "base/heart.h"
#include "base/log.h"
#include "base/stats.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>

#define EXPORTERS_MAX 8
#define NS_PER_S      1000000000ull
#define NS_PER_MS     1000000ull
#define TRIM_NS       (60 * NS_PER_S) /* how often memory that a burst needed is looked for */
#define IDLE_MS       5000            /* between two heartbeats of a thread that waits */

/* An exporter in use. */
struct outlet {
	const struct exporter *exporter;
	void *state;
	uint64_t not_before_ns; /* no attempt until then */
	bool told;              /* by the receiver, not by our back-off */
	bool hurried;           /* the agent ends: our back-off has begun anew */
	unsigned failures;      /* attempts since the last success */
	unsigned waits;         /* of them, since the back-off began */
	uint64_t failing_since_ns;
	struct log_limit failed, dropped, said;
};

/* EXPORT thread only, but for stop_ns, and lock and wake, by which export_stop() ends a wait. */
struct export
{
	struct pool *pool;
	uint64_t retry_min_ns, retry_max_ns, max_age_ns;
	size_t gather_max; /* batches in one job */
	struct outlet outlets[EXPORTERS_MAX];
	size_t noutlets;
	_Atomic uint64_t stop_ns; /* deadline of export_stop(), 0: runs */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_t thread;
	bool started;
};

/* What became of the spans of a batch at one outlet: lost by what spans_dropped_total says, failed
 * by what the exporter says. */
enum lost { LOST_REJECTED, LOST_REFUSED, LOST_TOO_LARGE, LOST_TOO_OLD, LOST_SHUTDOWN, LOST_COUNT };

struct outcome {
	size_t lost[LOST_COUNT];
	size_t failed[EXPORT_REASON_COUNT];
};

static _Atomic uint64_t *const lost_counters[LOST_COUNT] = {
	[LOST_REJECTED] = &stats[STAT_spans_dropped_rejected],
	[LOST_REFUSED] = &stats[STAT_spans_dropped_refused],
	[LOST_TOO_LARGE] = &stats[STAT_spans_dropped_too_large],
	[LOST_TOO_OLD] = &stats[STAT_spans_dropped_too_old],
	[LOST_SHUTDOWN] = &stats[STAT_spans_dropped_shutdown],
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

bool export_expired(const _Atomic uint64_t *deadline_ns)
{
	uint64_t deadline = atomic_load_explicit(deadline_ns, memory_order_relaxed);

	return deadline && now_ns() >= deadline;
}

/* Sleeps until then, or until export_stop(), or for IDLE_MS: whatever comes first. */
static void sleep_until(struct export *e, uint64_t until_ns)
{
	uint64_t most = now_ns() + IDLE_MS * NS_PER_MS;
	uint64_t until = until_ns < most ? until_ns : most;
	struct timespec ts = { .tv_sec = (time_t)(until / NS_PER_S),
			       .tv_nsec = (long)(until % NS_PER_S) };
	uint64_t stop;

	(void)pthread_mutex_lock(&e->lock);
	stop = e->stop_ns;
	while (e->stop_ns == stop && pthread_cond_timedwait(&e->wake, &e->lock, &ts) == 0)
		;
	(void)pthread_mutex_unlock(&e->lock);
}

/* At the end there is little time: one attempt at once, unless the receiver said when. */
static void hurry(struct outlet *o)
{
	if (o->hurried)
		return;
	o->hurried = true;
	o->waits = 0;
	if (!o->told)
		o->not_before_ns = 0;
}

/* Waits until the outlet may be tried. LOST_COUNT: now; else why the batch is not sent any more. */
static enum lost wait_turn(struct export *e, struct outlet *o, const struct batch *b)
{
	for (;;) {
		uint64_t now = now_ns();
		uint64_t expires = b->first_ns + e->max_age_ns;
		uint64_t stop = e->stop_ns;

		heart_beat(HEART_EXPORT);
		if (stop)
			hurry(o);
		if (stop && (now >= stop || o->not_before_ns > stop))
			return LOST_SHUTDOWN;
		if (now >= expires)
			return LOST_TOO_OLD;
		if (now >= o->not_before_ns)
			return LOST_COUNT;
		sleep_until(e, o->not_before_ns < expires ? o->not_before_ns : expires);
	}
}

/* The wait doubles from retry_min to retry_max, of which up to a third is chance: many agents fail
 * at the same moment. */
uint64_t export_back_off(uint64_t min_ns, uint64_t max_ns, unsigned waits)
{
	uint64_t wait = min_ns, most = max_ns / 3 * 2;
	uint32_t chance = 0;

	(void)!getrandom(&chance, sizeof(chance), GRND_NONBLOCK);
	for (unsigned i = 1; i < waits && wait < most; i++)
		wait *= 2;
	if (wait > most)
		wait = most;
	return wait + wait / 2 * (chance >> 16) / 65536;
}

static void say(struct log_limit *limit, enum log_level level, const char *what, const char *more,
		const struct outlet *o)
{
	uint64_t skipped;

	if (!log_allow(limit, &skipped))
		return;
	if (skipped)
		log_write(level, "%s: %s%s (%llu more like this were not logged)",
			  o->exporter->name, what, more, (unsigned long long)skipped);
	else
		log_write(level, "%s: %s%s", o->exporter->name, what, more);
}

static void succeeded(struct outlet *o, const struct export_result *r)
{
	if (*r->message)
		say(&o->said, LOG_WARN, r->message, "", o);
	if (o->failures)
		log_info("%s: delivers again, after %u failed attempts in %.1f s",
			 o->exporter->name, o->failures,
			 (double)(now_ns() - o->failing_since_ns) / NS_PER_S);
	o->failures = 0;
	o->waits = 0;
	o->not_before_ns = 0;
}

static void failed(const struct export *e, struct outlet *o, const struct export_result *r)
{
	uint64_t now = now_ns();
	uint64_t wait;
	char more[64];

	if (o->failures++ == 0)
		o->failing_since_ns = now;
	o->told = r->after_ms > 0;
	wait = o->told ? r->after_ms * NS_PER_MS
		       : export_back_off(e->retry_min_ns, e->retry_max_ns, ++o->waits);
	/* No batch lives longer, so there is no point in waiting longer than that. */
	if (wait > e->max_age_ns)
		wait = e->max_age_ns;
	o->not_before_ns = now + wait;
	(void)snprintf(more, sizeof(more), "; next attempt in %.1f s", (double)wait / NS_PER_S);
	say(&o->failed, LOG_WARN, r->message, more, o);
}

static void lose(struct outlet *o, struct outcome *out, enum lost lost,
		 const struct export_result *r, size_t n)
{
	static const char *const texts[LOST_COUNT] = {
		[LOST_REFUSED] = "dropped, refused for good: ",
		[LOST_TOO_LARGE] = "dropped one span: ",
		[LOST_TOO_OLD] = "dropped, export.max_age has passed: ",
		[LOST_SHUTDOWN] = "dropped, the agent ends: ",
	};

	out->lost[lost] += n;
	out->failed[r->reason] += n;
	if (texts[lost])
		say(&o->dropped, LOG_ERROR, texts[lost], *r->message ? r->message : "not tried", o);
}

/* Gives the batches to one outlet, in parts if it must be, until each span is delivered or lost. */
static void deliver(struct export *e, struct outlet *o, const struct batch *list, size_t count,
		    struct outcome *out)
{
	struct export_job job = { .batch = list, .count = count, .deadline_ns = &e->stop_ns };
	struct export_result r = { .reason = EXPORT_SHUTDOWN };

	while (job.first < count) {
		size_t left = count - job.first;
		enum lost lost = wait_turn(e, o, list);

		if (lost != LOST_COUNT) {
			lose(o, out, lost, &r, left);
			return;
		}
		if (job.count > left)
			job.count = left;
		o->exporter->send(o->state, &job, &r);
		job.attempt++;
		if (r.verdict == EXPORT_RETRY) {
			failed(e, o, &r);
			continue;
		}
		if (r.verdict == EXPORT_SPLIT && job.count > 1) {
			job.count = (job.count + 1) / 2;
			continue;
		}
		if (r.verdict == EXPORT_DONE) {
			succeeded(o, &r);
			out->lost[LOST_REJECTED] += r.rejected;
			out->failed[r.reason] += r.rejected;
		} else {
			lose(o, out, r.verdict == EXPORT_SPLIT ? LOST_TOO_LARGE : LOST_REFUSED, &r,
			     job.count);
		}
		job.first += job.count;
		job.attempt = 0;
	}
}

static size_t total(const struct outcome *o)
{
	size_t n = 0;

	for (size_t i = 0; i < LOST_COUNT; i++)
		n += o->lost[i];
	return n;
}

/* Every span is counted once: as exported when every outlet took it, else under what the outlet
 * that lost most says. */
static void export_batches(struct export *e, const struct batch *list, size_t count)
{
	struct outcome worst = { 0 };

	for (size_t i = 0; i < e->noutlets; i++) {
		struct outlet *o = &e->outlets[i];
		struct outcome out = { 0 };

		deliver(e, o, list, count, &out);
		if (o->exporter->done)
			o->exporter->done(o->state, count, out.failed);
		if (total(&out) > total(&worst))
			worst = out;
	}
	for (size_t i = 0; i < LOST_COUNT; i++)
		(void)atomic_fetch_add_explicit(lost_counters[i], worst.lost[i],
						memory_order_relaxed);
	stat_add(spans_exported, count - total(&worst));
}

/* Appends what waits behind the first batch: under load fewer and larger requests, so that a slow
 * answer costs less. Number of spans in all. */
static size_t gather(struct export *e, struct batch *first)
{
	size_t count = first->nspans;
	struct batch *last = first;

	for (size_t n = 1; n < e->gather_max; n++) {
		last->next = pool_receive(e->pool, 0);
		if (!last->next)
			break;
		last = last->next;
		count += last->nspans;
	}
	return count;
}

static void *run(void *arg)
{
	struct export *e = arg;
	uint64_t trimmed_ns = now_ns();
	sigset_t all;

	/* Signals are the main thread's; a reader that is gone is EPIPE here. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, NULL);
	(void)pthread_setname_np(pthread_self(), "export");
	for (;;) {
		/* Asked before the look into the queue: nothing comes after it was closed. */
		bool closed = pool_closed(e->pool);
		struct batch *b = pool_receive(e->pool, IDLE_MS);

		heart_beat(HEART_EXPORT);
		if (b)
			export_batches(e, b, gather(e, b));
		else if (closed)
			break;
		if (now_ns() - trimmed_ns > TRIM_NS) {
			trimmed_ns = now_ns();
			pool_trim(e->pool);
		}
		while (b) {
			struct batch *next = b->next;

			pool_put(e->pool, b);
			b = next;
		}
	}
	heart_stop(HEART_EXPORT);
	return NULL;
}

static const struct exporter *find(const char *name)
{
	exporter_foreach (it)
		if (strcmp((*it)->name, name) == 0)
			return *it;
	return NULL;
}

/* Opens those that are local, or those that are not. */
static int open_outlets(struct export *e, const struct config *cfg, bool local)
{
	for (size_t i = 0; i < cfg->exporters.n; i++) {
		const struct exporter *x = find(cfg->exporters.v[i]);
		struct outlet *o = &e->outlets[e->noutlets];
		int err;

		if (!x)
			return fail(-EINVAL, "exporters: there is no '%s'", cfg->exporters.v[i]);
		if (x->local != local)
			continue;
		if (e->noutlets == EXPORTERS_MAX)
			return fail(-EINVAL, "exporters: more than %d", EXPORTERS_MAX);
		err = x->open(&o->state, cfg);
		if (err < 0)
			return err;
		o->exporter = x;
		e->noutlets++;
	}
	return 0;
}

/* What is being sent cannot be taken back for new spans: no more than an eighth of the pool, nor
 * more than fits into one request. */
static size_t gather_max(const struct config *cfg)
{
	size_t most = cfg->batch_count / 8;

	if (most > cfg->otlp_max_request / cfg->batch_bytes)
		most = cfg->otlp_max_request / cfg->batch_bytes;
	if (most > EXPORT_BATCHES_MAX)
		most = EXPORT_BATCHES_MAX;
	return most ? most : 1;
}

int export_new(struct export **out, const struct config *cfg, struct pool *pool)
{
	struct export *e = calloc(1, sizeof(*e));
	pthread_condattr_t attr;
	int err;

	if (!e)
		return -ENOMEM;
	e->pool = pool;
	e->gather_max = gather_max(cfg);
	e->retry_min_ns = cfg->export_retry_min * NS_PER_MS;
	e->retry_max_ns = cfg->export_retry_max * NS_PER_MS;
	e->max_age_ns = cfg->export_max_age * NS_PER_MS;
	(void)pthread_mutex_init(&e->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&e->wake, &attr);
	(void)pthread_condattr_destroy(&attr);
	err = open_outlets(e, cfg, true);
	if (err == 0)
		err = open_outlets(e, cfg, false);
	if (err < 0) {
		export_free(&e);
		return err;
	}
	stat_set(export_queue_capacity, (uint64_t)cfg->batch_count * cfg->batch_spans);
	*out = e;
	return 0;
}

int export_start(struct export *e)
{
	int err = pthread_create(&e->thread, NULL, run, e);

	if (err)
		return fail(-err, "export: no thread: %s", strerror(err));
	e->started = true;
	return 0;
}

void export_stop(struct export *e, uint64_t deadline_ns)
{
	if (!e->started)
		return;
	(void)pthread_mutex_lock(&e->lock);
	e->stop_ns = deadline_ns ? deadline_ns : 1;
	(void)pthread_cond_broadcast(&e->wake);
	(void)pthread_mutex_unlock(&e->lock);
	(void)pthread_join(e->thread, NULL);
	e->started = false;
}

void export_free(struct export **e)
{
	struct export *old = take(*e);

	if (!old)
		return;
	for (size_t i = 0; i < old->noutlets; i++)
		old->outlets[i].exporter->close(&old->outlets[i].state);
	(void)pthread_cond_destroy(&old->wake);
	(void)pthread_mutex_destroy(&old->lock);
	free(old);
}
