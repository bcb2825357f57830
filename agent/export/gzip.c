#include "export/gzip.h"

#include <isa-l/igzip_lib.h>

#define LEVEL 1 /* of 0..3: the next ones take longer and save nearly nothing of our requests */

struct gzip {
	struct isal_zstream stream;
	/* What a block of the output is made of. A larger one is not faster. */
	uint8_t tokens[ISAL_DEF_LVL1_SMALL];
	uint8_t *bytes; /* gzip_all() */
	size_t room;
};

int gzip_new(struct gzip **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void gzip_free(struct gzip **z)
{
	if (*z)
		free((*z)->bytes);
	free(take(*z));
}

size_t gzip_most(size_t n)
{
	/* What does not become shorter is stored, in blocks of at most 64 KiB with a head of 5
	 * bytes; head and end of the whole are 18 bytes (RFC 1951, RFC 1952). */
	return n + n / 1024 + ISAL_DEF_MAX_HDR_SIZE + 64;
}

int gzip_pack(struct gzip *z, const void *in, size_t n, uint8_t *out, size_t *size)
{
	struct isal_zstream *s = &z->stream;

	if (n > UINT32_MAX / 2)
		return -EINVAL;
	isal_deflate_stateless_init(s);
	s->gzip_flag = IGZIP_GZIP;
	s->level = LEVEL;
	s->level_buf = z->tokens;
	s->level_buf_size = sizeof(z->tokens);
	s->end_of_stream = 1;
	s->next_in = (uint8_t *)in;
	s->avail_in = (uint32_t)n;
	s->next_out = out;
	s->avail_out = (uint32_t)gzip_most(n);
	if (isal_deflate_stateless(s) != COMP_OK)
		return -EINVAL;
	*size = s->total_out;
	return 0;
}

int gzip_all(struct gzip *z, const void *in, size_t n, const uint8_t **out, size_t *size)
{
	size_t most = gzip_most(n);

	if (most > z->room) {
		free(z->bytes);
		z->room = 0;
		z->bytes = malloc(2 * most); /* not anew for each one that is a little longer */
		if (!z->bytes)
			return -ENOMEM;
		z->room = 2 * most;
	}
	*out = z->bytes;
	return gzip_pack(z, in, n, z->bytes, size);
}
