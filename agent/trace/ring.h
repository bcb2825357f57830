/* ring.h - the EVENTS thread: drains the ring, decodes whole runs into a batch, sends batches on.
 */
#pragma once
#include "base/base.h"

struct config;
struct pool;
struct ring;
struct targets;

/* fd: the ring's map; sleeping: see attach_sleeping(). 0 or -errno. */
int ring_new(struct ring **out, const struct config *cfg, int fd, volatile uint32_t *sleeping,
	     struct targets *t, struct pool *p) must_check;
int ring_start(struct ring *r) must_check;
/* Drains once more, sends what there is, joins. */
void ring_stop(struct ring *r);
void ring_free(struct ring **r);
/* One record through find, decode, resource and batch_add: what the thread does, for replay tests.
 */
void ring_record(struct ring *r, const void *data, size_t size);
