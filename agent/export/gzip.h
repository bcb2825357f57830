/* gzip.h - compresses whole requests. Allocates when it is made, and while gzip_all() grows to the
 * largest request, not after. Any one thread. */
#pragma once
#include "base/base.h"

struct gzip;

int gzip_new(struct gzip **out) must_check;
void gzip_free(struct gzip **z);
/* Most bytes that n become. */
size_t gzip_most(size_t n);
/* out has room for gzip_most(n). 0 or -EINVAL. */
int gzip_pack(struct gzip *z, const void *in, size_t n, uint8_t *out, size_t *size) must_check;
/* The same into memory of its own, valid until the next call. 0; -ENOMEM; -EINVAL. */
int gzip_all(struct gzip *z, const void *in, size_t n, const uint8_t **out,
	     size_t *size) must_check;
