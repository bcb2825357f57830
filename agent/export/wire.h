/* wire.h - writes a protobuf message from its end to its beginning: the length that goes before a
 * part is known when its turn comes. So nothing is measured ahead, and nothing moved. Numbers of
 * fields and wire types: protobuf.dev, "Encoding". Any one thread. */
#pragma once
#include "base/base.h"

struct wire {
	uint8_t *base, *p; /* p: the first byte that is written */
	size_t size;
	int err; /* -ENOMEM: what follows is not written */
};

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

#define WIRE_HEAD_MAX 15 /* bytes of a field's number and length, or value */

/* Makes room for n more bytes before p. False: there is no memory. */
bool wire_grow(struct wire *w, size_t n);
void wire_clear(struct wire *w);

static inline void wire_begin(struct wire *w)
{
	w->p = w->base + w->size;
	w->err = 0;
}

/* Bytes that are written. */
static inline size_t wire_used(const struct wire *w)
{
	return (size_t)(w->base + w->size - w->p);
}

static inline bool wire_room(struct wire *w, size_t n)
{
	return (size_t)(w->p - w->base) >= n || wire_grow(w, n);
}

/* These two take room for granted. */
static inline void wire_number(struct wire *w, uint64_t v)
{
	uint8_t *p = w->p -= v < 0x80 ? 1 : (size_t)(70 - __builtin_clzll(v)) / 7;

	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p = (uint8_t)v;
}

static inline void wire_head(struct wire *w, uint32_t field, enum wire_type type)
{
	wire_number(w, field << 3 | type);
}

/* A field that is absent when it is empty. */
static inline void wire_bytes(struct wire *w, uint32_t field, const void *p, size_t n)
{
	if (n == 0 || !wire_room(w, n + WIRE_HEAD_MAX))
		return;
	w->p -= n;
	memcpy(w->p, p, n);
	wire_number(w, n);
	wire_head(w, field, WIRE_BYTES);
}

static inline void wire_varint(struct wire *w, uint32_t field, uint64_t v)
{
	if (!wire_room(w, WIRE_HEAD_MAX))
		return;
	wire_number(w, v);
	wire_head(w, field, WIRE_VARINT);
}

static inline void wire_fixed64(struct wire *w, uint32_t field, uint64_t v)
{
	uint64_t little = __builtin_bswap64(v);

	if (!wire_room(w, WIRE_HEAD_MAX))
		return;
	little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v : little;
	w->p -= sizeof(little);
	memcpy(w->p, &little, sizeof(little));
	wire_head(w, field, WIRE_FIXED64);
}

static inline void wire_fixed32(struct wire *w, uint32_t field, uint32_t v)
{
	uint32_t little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? v : __builtin_bswap32(v);

	if (!wire_room(w, WIRE_HEAD_MAX))
		return;
	w->p -= sizeof(little);
	memcpy(w->p, &little, sizeof(little));
	wire_head(w, field, WIRE_FIXED32);
}

/* Puts what has been written since wire_used() was `before` into a field, as its message. */
static inline void wire_message(struct wire *w, uint32_t field, size_t before)
{
	if (!wire_room(w, WIRE_HEAD_MAX))
		return;
	wire_number(w, wire_used(w) - before);
	wire_head(w, field, WIRE_BYTES);
}
