/* arena.h - memory that is handed out in order and taken back whole. One owner at a time, no lock.
 */
#pragma once
#include "base/base.h"

struct arena {
	char *base; /* NULL: not initialised */
	size_t size, used;
};

/* Allocates size bytes, once. 0 or -ENOMEM. */
int arena_init(struct arena *a, size_t size) must_check;
/* Gives the memory back; a cleared arena can be cleared again. */
void arena_clear(struct arena *a);
/* n bytes aligned to 8, or NULL when the arena is full: the caller sends the batch and goes on in
 * the next one. */
void *arena_get(struct arena *a, size_t n);
/* A copy of n bytes, or NULL when the arena is full. */
char *arena_copy(struct arena *a, const void *p, size_t n);

static inline void arena_reset(struct arena *a)
{
	a->used = 0;
}
