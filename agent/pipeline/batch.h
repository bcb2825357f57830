/* batch.h - spans plus the memory they live in, recycled whole. The pool is made at start: number
 * of batches x size is the memory ceiling of the pipeline. EVENTS fills, EXPORT empties; the pool's
 * lock guards the two lists only. */
#pragma once
#include "base/arena.h"
#include "trace/span.h"

struct resource;

#define BATCH_RESOURCES_MAX 64

struct batch {
	struct batch *next;
	struct arena arena;
	struct span *spans; /* max_spans of them */
	size_t nspans, max_spans;
	struct resource *resources[BATCH_RESOURCES_MAX]; /* a reference each */
	size_t nresources;
	bool cold;         /* its pages have been given back since it was used */
	uint64_t first_ns; /* CLOCK_MONOTONIC, when its first span came in */
};

struct pool;

int pool_new(struct pool **out, size_t nbatches, size_t max_spans, size_t arena_size) must_check;
void pool_free(struct pool **p);
/* Bytes that pool_new() allocates for these figures. */
size_t pool_bytes(size_t nbatches, size_t max_spans, size_t arena_size);
/* Events: an empty batch; when there is none, the oldest queued one is emptied and *dropped is its
 * number of spans, which the caller counts. Never NULL as long as one batch is neither being filled
 * nor being sent (nbatches >= 3). */
struct batch *pool_get(struct pool *p, size_t *dropped);
/* Events: queues a full batch. */
void pool_send(struct pool *p, struct batch *b);
/* Export: the oldest queued batch; waits up to timeout_ms (-1: for ever). NULL: timed out, or
 * closed and empty. */
struct batch *pool_receive(struct pool *p, int timeout_ms);
/* Export: hands an emptied batch back. Drops its references to resources. */
void pool_put(struct pool *p, struct batch *b);
/* Export, now and then: gives the pages of batches that nobody has needed since the last call back
 * to the system. They stay in the pool. */
void pool_trim(struct pool *p);
/* No more pool_send(); wakes the receiver. */
void pool_close(struct pool *p);
bool pool_closed(struct pool *p);
/* Spans that wait in the queue. */
size_t pool_queued(struct pool *p);

/* Events: adds *span (in a batch is counted as queued, in stats), whose strings lie in b->arena
 * already; copies its attributes into the arena, takes a reference to r the first time. 0; -ENOSPC:
 * the batch is full in one of its three measures, send it and begin anew; -EBADMSG: an id is zero.
 */
int batch_add(struct batch *b, const struct span *span, struct resource *r) must_check;
