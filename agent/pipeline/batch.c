#include "pipeline/batch.h"

#include "base/stats.h"
#include "pipeline/resource.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000ull

struct pool {
	pthread_mutex_t lock; /* guards the lists, queued and closed */
	pthread_cond_t ready;
	struct batch *empty; /* a stack: the same few batches are used again, the others stay
				untouched pages */
	struct batch *queue, **tail;
	size_t queued;              /* spans in queue */
	size_t nempty, least_empty; /* batches; the latter since pool_trim() */
	bool closed;
	size_t nbatches;
	struct batch all[];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* The one place where spans leave a batch; whoever calls has counted them as exported or dropped.
 */
static void batch_reset(struct batch *b)
{
	for (size_t i = 0; i < b->nresources; i++)
		resource_put(&b->resources[i]);
	stat_add(spans_queued, -b->nspans);
	arena_reset(&b->arena);
	b->nresources = 0;
	b->nspans = 0;
	b->cold = false;
	b->first_ns = 0;
	b->next = NULL;
}

/* Index of r in the batch, which takes a reference the first time; -1: no room for another one. */
static int batch_resource(struct batch *b, struct resource *r)
{
	/* Neighbours mostly come from the same process, so the newest is looked at first. */
	for (size_t i = b->nresources; i-- > 0;)
		if (b->resources[i] == r)
			return (int)i;
	if (b->nresources == BATCH_RESOURCES_MAX)
		return -1;
	b->resources[b->nresources] = resource_ref(r);
	return (int)b->nresources++;
}

int batch_add(struct batch *b, const struct span *span, struct resource *r)
{
	static const uint8_t none[sizeof(span->trace_id)];
	size_t used = b->arena.used;
	struct attr *attrs = NULL;
	struct span *s;
	int idx;

	/* A receiver would refuse the whole request. */
	if (memcmp(span->trace_id, none, sizeof(span->trace_id)) == 0 ||
	    memcmp(span->span_id, none, sizeof(span->span_id)) == 0)
		return -EBADMSG;
	if (b->nspans == b->max_spans)
		return -ENOSPC;
	if (span->nattrs) {
		attrs = (struct attr *)arena_copy(&b->arena, span->attrs,
						  span->nattrs * sizeof(*attrs));
		if (!attrs)
			return -ENOSPC;
	}
	idx = batch_resource(b, r);
	if (idx < 0) {
		b->arena.used = used;
		return -ENOSPC;
	}
	if (b->nspans == 0)
		b->first_ns = now_ns();
	s = &b->spans[b->nspans++];
	*s = *span;
	s->attrs = attrs;
	s->resource = (uint16_t)idx;
	stat_add(spans_queued, 1);
	return 0;
}

size_t pool_bytes(size_t nbatches, size_t max_spans, size_t arena_size)
{
	return sizeof(struct pool) +
	       nbatches * (sizeof(struct batch) + max_spans * sizeof(struct span) + arena_size);
}

int pool_new(struct pool **out, size_t nbatches, size_t max_spans, size_t arena_size)
{
	struct pool *p = calloc(1, sizeof(*p) + nbatches * sizeof(p->all[0]));
	pthread_condattr_t attr;

	if (!p)
		return -ENOMEM;
	(void)pthread_mutex_init(&p->lock, NULL);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&p->ready, &attr);
	(void)pthread_condattr_destroy(&attr);
	p->tail = &p->queue;
	p->nbatches = p->nempty = p->least_empty = nbatches;
	for (size_t i = nbatches; i-- > 0;) {
		struct batch *b = &p->all[i];

		b->spans = calloc(max_spans, sizeof(*b->spans));
		b->max_spans = max_spans;
		if (!b->spans || arena_init(&b->arena, arena_size) < 0) {
			pool_free(&p);
			return -ENOMEM;
		}
		b->next = p->empty;
		p->empty = b;
	}
	*out = p;
	return 0;
}

void pool_free(struct pool **p)
{
	struct pool *pool = take(*p);

	if (!pool)
		return;
	for (size_t i = 0; i < pool->nbatches; i++) {
		struct batch *b = &pool->all[i];

		batch_reset(b);
		arena_clear(&b->arena);
		free(b->spans);
	}
	(void)pthread_cond_destroy(&pool->ready);
	(void)pthread_mutex_destroy(&pool->lock);
	free(pool);
}

/* Under the lock. */
static struct batch *queue_pop(struct pool *p)
{
	struct batch *b = p->queue;

	if (!b)
		return NULL;
	p->queue = b->next;
	if (!p->queue)
		p->tail = &p->queue;
	p->queued -= b->nspans;
	b->next = NULL;
	return b;
}

struct batch *pool_get(struct pool *p, size_t *dropped)
{
	struct batch *b;

	*dropped = 0;
	(void)pthread_mutex_lock(&p->lock);
	b = p->empty;
	if (b) {
		p->empty = b->next;
		p->nempty--;
	} else {
		b = queue_pop(p);
	}
	if (p->nempty < p->least_empty)
		p->least_empty = p->nempty;
	(void)pthread_mutex_unlock(&p->lock);
	if (!b)
		return NULL;
	*dropped = b->nspans;
	batch_reset(b);
	return b;
}

void pool_send(struct pool *p, struct batch *b)
{
	(void)pthread_mutex_lock(&p->lock);
	b->next = NULL;
	*p->tail = b;
	p->tail = &b->next;
	p->queued += b->nspans;
	(void)pthread_cond_signal(&p->ready);
	(void)pthread_mutex_unlock(&p->lock);
}

struct batch *pool_receive(struct pool *p, int timeout_ms)
{
	uint64_t until = now_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * NS_PER_MS;
	struct timespec ts = { .tv_sec = (time_t)(until / NS_PER_S),
			       .tv_nsec = (long)(until % NS_PER_S) };
	struct batch *b;
	int err = 0;

	(void)pthread_mutex_lock(&p->lock);
	while (!p->queue && !p->closed && err == 0)
		err = timeout_ms < 0 ? pthread_cond_wait(&p->ready, &p->lock)
				     : pthread_cond_timedwait(&p->ready, &p->lock, &ts);
	b = queue_pop(p);
	(void)pthread_mutex_unlock(&p->lock);
	return b;
}

void pool_put(struct pool *p, struct batch *b)
{
	batch_reset(b);
	(void)pthread_mutex_lock(&p->lock);
	b->next = p->empty;
	p->empty = b;
	p->nempty++;
	(void)pthread_mutex_unlock(&p->lock);
}

/* The whole pages within p..p+n, whose contents nobody needs, become fresh ones. */
static void give_back(void *p, size_t n)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t skip = -(uintptr_t)p & (page - 1);

	if (n >= skip + page)
		(void)madvise((char *)p + skip, (n - skip) & ~(page - 1), MADV_DONTNEED);
}

void pool_trim(struct pool *p)
{
	size_t hot;

	(void)pthread_mutex_lock(&p->lock);
	/* A stack: those at its end are the ones that were not needed. */
	hot = p->nempty - p->least_empty;
	for (struct batch *b = p->empty; b; b = b->next) {
		if (hot) {
			hot--;
		} else if (!b->cold) {
			give_back(b->arena.base, b->arena.size);
			give_back(b->spans, b->max_spans * sizeof(*b->spans));
			b->cold = true;
		}
	}
	p->least_empty = p->nempty;
	(void)pthread_mutex_unlock(&p->lock);
}

void pool_close(struct pool *p)
{
	(void)pthread_mutex_lock(&p->lock);
	p->closed = true;
	(void)pthread_cond_broadcast(&p->ready);
	(void)pthread_mutex_unlock(&p->lock);
}

bool pool_closed(struct pool *p)
{
	bool closed;

	(void)pthread_mutex_lock(&p->lock);
	closed = p->closed;
	(void)pthread_mutex_unlock(&p->lock);
	return closed;
}

size_t pool_queued(struct pool *p)
{
	size_t n;

	(void)pthread_mutex_lock(&p->lock);
	n = p->queued;
	(void)pthread_mutex_unlock(&p->lock);
	return n;
}
