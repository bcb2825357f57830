#include "base/arena.h"

int arena_init(struct arena *a, size_t size)
{
	char *p = malloc(size);

	if (!p)
		return -ENOMEM;
	*a = (struct arena){ .base = p, .size = size };
	return 0;
}

void arena_clear(struct arena *a)
{
	free(a->base);
	*a = (struct arena){ 0 };
}

void *arena_get(struct arena *a, size_t n)
{
	size_t at = (a->used + 7) & ~(size_t)7;

	if (at > a->size || n > a->size - at)
		return NULL;
	a->used = at + n;
	return a->base + at;
}

char *arena_copy(struct arena *a, const void *p, size_t n)
{
	char *copy = arena_get(a, n);

	if (copy && n)
		memcpy(copy, p, n);
	return copy;
}
