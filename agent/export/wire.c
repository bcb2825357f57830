#include "export/wire.h"

#define FIRST_BYTES 65536

bool wire_grow(struct wire *w, size_t n)
{
	size_t used = wire_used(w), size = w->size ? w->size : FIRST_BYTES;
	uint8_t *base;

	if (w->err)
		return false;
	while (size - used < n)
		size *= 2;
	base = malloc(size);
	if (!base) {
		w->err = -ENOMEM;
		return false;
	}
	if (used)
		memcpy(base + size - used, w->p, used);
	free(w->base);
	*w = (struct wire){ .base = base, .p = base + size - used, .size = size };
	return true;
}

void wire_clear(struct wire *w)
{
	free(w->base);
	*w = (struct wire){ 0 };
}
