#include "trace/ring.h"

#include "base/config.h"
#include "base/heart.h"
#include "base/log.h"
#include "base/stats.h"
#include "metrics/metrics.h"
#include "pipeline/batch.h"
#include "trace/clock.h"
#include "trace/lib.h"
#include "trace/ringbuf.h"
#include "trace/span.h"
#include "trace/target.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

/* After so many records the thread looks at its clock, its heart and whether it is to stop. */
#define RUN_RECORDS 4096
/* Longest sleep, in ms: bounds what a wake-up that got lost could cost. */
#define SLEEP_MS    1000

/* Room for what one operation says that is measured only. */
#define SCRATCH_SIZE 65536

#define FLAGS_HAS_IS_REMOTE 0x100u
#define FLAGS_IS_REMOTE     0x200u

struct ring {
	struct targets *targets;
	struct pool *pool;
	struct metrics *metrics; /* NULL: nothing is measured */
	struct arena scratch;
	struct privacy privacy;
	bool health_spans, health_metrics; /* wanted, too */
	uint64_t interval_ms, delay_ms;
	struct clock clock;
	struct batch *batch;    /* being filled, or NULL */
	struct ringbuf *buffer; /* NULL: replay */
	volatile uint32_t *sleeping;
	int epoll, stop;
	size_t run;         /* records of this run */
	unsigned long mark; /* where the ring ended when targets_reap() was called last */
	pthread_t thread;
	bool started;
};

static void send_batch(struct ring *r)
{
	if (!r->batch || r->batch->nspans == 0)
		return;
	pool_send(r->pool, take(r->batch));
}

static struct batch *batch_of(struct ring *r)
{
	size_t dropped = 0;

	if (!r->batch) {
		r->batch = pool_get(r->pool, &dropped);
		stat_add(spans_dropped_queue, dropped);
	}
	return r->batch;
}

static void count_context(const struct event *ev)
{
	static const uint8_t nobody[sizeof(ev->parent_id)];

	if (ev->flags & EVENT_BAD_TP)
		stat_add(tp_invalid, 1);
	if (ev->flags & EVENT_REMOTE)
		stat_add(tp_header, 1);
	else if (memcmp(ev->parent_id, nobody, sizeof(nobody)) == 0)
		stat_add(tp_new, 1);
	else if (ev->flags & EVENT_STARTED)
		stat_add(tp_started, 1);
	else if (ev->flags & EVENT_LOCAL)
		stat_add(tp_local, 1);
}

_Static_assert(TRIAL_MISSED + 1 == TARGET_TRIALS, "struct target counts each");

/* The head of the record, as a span; the library adds the rest. */
static struct span begin_span(const struct event *ev, struct attr *attrs)
{
	struct span s = { .start_ns = ev->start_ns,
			  .end_ns = ev->end_ns,
			  .kind = SPAN_INTERNAL,
			  .lib = ev->cookie.lib,
			  .attrs = attrs };

	memcpy(s.trace_id, ev->trace_id, sizeof(s.trace_id));
	memcpy(s.span_id, ev->span_id, sizeof(s.span_id));
	memcpy(s.parent_id, ev->parent_id, sizeof(s.parent_id));
	s.flags = (ev->flags & EVENT_SAMPLED) | FLAGS_HAS_IS_REMOTE;
	if (ev->flags & EVENT_REMOTE)
		s.flags |= FLAGS_IS_REMOTE;
	return s;
}

/* A record that is being looked at. */
struct incoming {
	const void *data;
	size_t size;
	const struct lib *lib;
	struct target *target;
	bool measured;
};

/* Copies the record into the arena, where its strings may stay, and decodes it. 0; -ENOSPC: the
 * arena is full; -EBADMSG. */
static int decode(struct ring *r, const struct incoming *in, struct arena *arena, struct span *span,
		  struct attr *attrs)
{
	struct target *t = in->target;
	struct decode with = { .arena = arena,
			       .literals = t->literals,
			       .privacy = &r->privacy,
			       .probe_paths = t->probe_paths,
			       .nprobe_paths = t->nprobe_paths };
	const struct event *ev = (const void *)arena_copy(arena, in->data, in->size);
	int err;

	if (!ev)
		return -ENOSPC;
	if (ev->size < in->lib->event_size || !in->lib->decode)
		return -EBADMSG;
	*span = begin_span(ev, attrs);
	if (ev->flags & EVENT_STARTED)
		span_str(span, "spoor.parent", str_of("goroutine"));
	err = in->lib->decode(ev, &with, span);
	if (err)
		return err;
	span->health = span->health || ev->flags & EVENT_HEALTH;
	span->cut = span->cut || ev->flags & EVENT_CUT;
	span->start_ns = clock_unix(&r->clock, span->start_ns);
	span->end_ns = clock_unix(&r->clock, span->end_ns);
	if (span->end_ns < span->start_ns)
		span->end_ns = span->start_ns;
	return 0;
}

/* Once for each operation, also where its span does not fit into a batch. sent: its span is, so
 * that it may be an exemplar. */
static void measure(struct ring *r, struct incoming *in, const struct span *span, bool sent)
{
	if (in->measured || !r->metrics || !in->target->owner)
		return;
	in->measured = true;
	if ((!span->health || r->health_metrics) && !span->exports)
		metrics_record(r->metrics, in->target->owner, span->lib, span, sent);
}

/* Of an operation whose span is not sent. */
static void measure_only(struct ring *r, struct incoming *in)
{
	struct attr attrs[SPAN_ATTRS_MAX];
	struct span span;

	if (in->measured || !r->metrics || !in->target->owner)
		return;
	arena_reset(&r->scratch);
	if (decode(r, in, &r->scratch, &span, attrs) == 0)
		measure(r, in, &span, false);
}

/* Decodes the record into the batch. 0: it is there, or counted as filtered; -ENOSPC: the batch is
 * full; -EBADMSG. On error the batch is as it was. */
static int put(struct ring *r, struct batch *b, struct incoming *in)
{
	size_t used = b->arena.used;
	struct attr attrs[SPAN_ATTRS_MAX];
	struct span span;
	bool filtered;
	int err = decode(r, in, &b->arena, &span, attrs);

	filtered = !err && ((span.health && !r->health_spans) || span.exports);
	if (!err)
		measure(r, in, &span, !filtered);
	if (!err && !filtered)
		err = batch_add(b, &span, in->target->resource);
	if (err || filtered) {
		b->arena.used = used;
		if (filtered && span.exports)
			stat_add(spans_dropped_exports, 1);
		else
			stat_add(spans_dropped_filtered, filtered);
		return err;
	}
	stat_add(spans_truncated, span.cut);
	(void)atomic_fetch_add_explicit(&in->target->trials[span.trial], 1, memory_order_relaxed);
	return 0;
}

static void add(struct ring *r, struct incoming *in)
{
	struct batch *b = batch_of(r);
	bool fresh = b && b->nspans == 0;
	int err = b ? put(r, b, in) : -EAGAIN;

	if (err == -ENOSPC && !fresh) {
		send_batch(r);
		b = batch_of(r);
		err = b ? put(r, b, in) : -EAGAIN;
	}
	if (err == -EAGAIN)
		stat_add(spans_dropped_queue, 1);
	else if (err == -ENOSPC) /* does not even fit into an empty batch */
		stat_add(spans_dropped_too_large, 1);
	else if (err)
		stat_add(spans_dropped_decode, 1);
	if (b && b->nspans == b->max_spans)
		send_batch(r);
}

static void count_target(struct target *t, const struct event *ev)
{
	(void)atomic_fetch_add_explicit(&t->spans[ev->cookie.lib], 1, memory_order_relaxed);
	atomic_store_explicit(&t->last_event_ns, ev->end_ns, memory_order_relaxed);
	if (ev->sdk & SDK_PARENT)
		(void)atomic_fetch_add_explicit(&t->below, 1, memory_order_relaxed);
	if (ev->sdk & SDK_LEFT)
		(void)atomic_fetch_add_explicit(&t->left, 1, memory_order_relaxed);
}

static void look_at(struct ring *r, const void *data, size_t size)
{
	struct incoming in = { .data = data };
	const struct event *ev = data;

	stat_add(events, 1);
	stat_add(spans_produced, 1);
	if (size < sizeof(*ev) || ev->size < sizeof(*ev) || ev->size > size ||
	    !(in.lib = lib_at(ev->cookie.lib))) {
		stat_add(spans_dropped_decode, 1);
		return;
	}
	in.size = ev->size;
	in.target = targets_find(r->targets, ev->cookie);
	if (!in.target) {
		stat_add(spans_dropped_stale, 1);
		return;
	}
	count_target(in.target, ev);
	count_context(ev);
	if (ev->sdk & SDK_LEFT)
		stat_add(spans_dropped_sdk, 1);
	else if (!(ev->flags & EVENT_SAMPLED))
		stat_add(spans_sampled_out, 1);
	else if (ev->flags & EVENT_HEALTH && !r->health_spans)
		stat_add(spans_dropped_filtered, 1);
	else if (!(in.target->signals & SIGNAL_TRACES))
		stat_add(spans_dropped_traces_off, 1);
	else
		add(r, &in);
	measure_only(r, &in); /* ... if add() has not */
}

void ring_record(struct ring *r, const void *data, size_t size)
{
	metrics_enter(r->metrics);
	look_at(r, data, size);
	metrics_leave(r->metrics);
}

/* Under load the ring is never empty, so a run ends also by its length. */
static bool on_record(void *arg, const void *data, size_t size)
{
	struct ring *r = arg;

	look_at(r, data, size);
	return ++r->run < RUN_RECORDS;
}

/* True when the ring was found empty. */
static bool drain(struct ring *r)
{
	bool empty;

	r->run = 0;
	metrics_enter(r->metrics);
	empty = ringbuf_read(r->buffer, on_record, r);
	metrics_leave(r->metrics);
	return empty;
}

/* No record of what was retired lies behind the mark, so that all of them have been read once the
 * thread has come so far: also when the ring is never empty. */
static void reap(struct ring *r)
{
	if (!targets_retiring(r->targets) || ringbuf_done(r->buffer) < r->mark)
		return;
	targets_reap(r->targets);
	r->mark = ringbuf_written(r->buffer);
}

static uint64_t batch_age_ms(const struct ring *r)
{
	return r->batch && r->batch->nspans ? (clock_monotonic() - r->batch->first_ns) / 1000000
					    : 0;
}

/* True when the batch has waited long enough. While others wait to be exported it goes on being
 * filled: they are few, and a queue of nearly empty ones would soon be full. */
static bool is_due(const struct ring *r)
{
	return r->batch && r->batch->nspans && batch_age_ms(r) >= r->delay_ms &&
	       pool_queued(r->pool) == 0;
}

/* Milliseconds until the batch is due, at most `most`. */
static int until_due(const struct ring *r, uint64_t most)
{
	uint64_t age = batch_age_ms(r);
	/* Later than due: the exporter is behind. */
	uint64_t left = age < r->delay_ms ? r->delay_ms - age : r->interval_ms;

	if (!r->batch || r->batch->nspans == 0 || left > most)
		left = most;
	return (int)left;
}

/* Waits for a wake-up of the kernel, for ring_stop() or for the time. */
static bool wait_for(const struct ring *r, int ms)
{
	struct epoll_event got[2];
	int n = epoll_wait(r->epoll, got, 2, ms);

	for (int i = 0; i < n; i++)
		if (got[i].data.fd == r->stop)
			return true;
	return false;
}

/* Nothing came for an interval: from here on the next record wakes us. Returns true to stop. */
static bool sleep_until_record(struct ring *r)
{
	bool stop = false;

	/* The probe submits, then looks at the word; we write the word, then look at the ring: one
	 * of the two sees the other. */
	__atomic_store_n(r->sleeping, 1, __ATOMIC_SEQ_CST);
	if (drain(r) && r->run == 0) {
		reap(r);
		stop = wait_for(
			r, until_due(r, targets_retiring(r->targets) ? r->interval_ms : SLEEP_MS));
	}
	__atomic_store_n(r->sleeping, 0, __ATOMIC_SEQ_CST);
	return stop;
}

static void *events_thread(void *arg)
{
	struct ring *r = arg;
	bool stop = false;

	while (!stop) {
		bool empty;

		heart_beat(HEART_EVENTS);
		clock_refresh(&r->clock);
		empty = drain(r);
		if (is_due(r))
			send_batch(r);
		reap(r);
		if (empty && r->run == 0)
			stop = sleep_until_record(r);
		else
			stop = wait_for(r, empty ? until_due(r, r->interval_ms)
						 : r->run < RUN_RECORDS);
	}
	/* Probes of other processes may go on for ever: one ringful is enough. */
	clock_refresh(&r->clock);
	for (int i = 0; i < 64 && !drain(r); i++)
		heart_beat(HEART_EVENTS);
	send_batch(r);
	heart_stop(HEART_EVENTS);
	return NULL;
}

/* Edge-triggered: what counts is that the kernel woke us, not that there is something in the ring.
 */
static int watch(const struct ring *r, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	return epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int open_ring(struct ring *r, int fd)
{
	int err;

	err = ringbuf_open(&r->buffer, fd);
	if (err)
		return err;
	r->epoll = epoll_create1(EPOLL_CLOEXEC);
	r->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->epoll < 0 || r->stop < 0)
		return -errno;
	err = watch(r, fd, EPOLLIN | EPOLLET);
	return err ? err : watch(r, r->stop, EPOLLIN);
}

int ring_new(struct ring **out, const struct config *cfg, int fd, volatile uint32_t *sleeping,
	     struct targets *t, struct pool *p)
{
	struct ring *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return -ENOMEM;
	r->targets = t;
	r->pool = p;
	r->metrics = targets_metrics(t);
	r->privacy = config_privacy(cfg);
	r->health_spans = cfg->health_probes;
	r->health_metrics = cfg->metrics_health_probes;
	r->interval_ms = cfg->ring_interval;
	r->delay_ms = cfg->batch_delay;
	r->sleeping = sleeping;
	r->epoll = r->stop = -1;
	clock_refresh(&r->clock);
	err = r->metrics ? arena_init(&r->scratch, SCRATCH_SIZE) : 0;
	if (!err && fd >= 0)
		err = open_ring(r, fd);
	if (err) {
		ring_free(&r);
		return err;
	}
	*out = r;
	return 0;
}

int ring_start(struct ring *r)
{
	int err = r->buffer ? pthread_create(&r->thread, NULL, events_thread, r) : EBADF;

	r->started = !err;
	return -err;
}

void ring_stop(struct ring *r)
{
	if (!r->started) {
		send_batch(r);
		return;
	}
	(void)eventfd_write(r->stop, 1);
	(void)pthread_join(r->thread, NULL);
	r->started = false;
}

void ring_free(struct ring **p)
{
	struct ring *r = take(*p);

	if (!r)
		return;
	if (r->batch)
		pool_put(r->pool, r->batch);
	ringbuf_close(&r->buffer);
	if (r->epoll >= 0)
		(void)close(r->epoll);
	if (r->stop >= 0)
		(void)close(r->stop);
	arena_clear(&r->scratch);
	free(r);
}
