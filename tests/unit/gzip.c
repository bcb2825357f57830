#include "export/gzip.h"

#include <criterion/criterion.h>
#include <zlib.h>

#define LARGEST ((size_t)5 << 20)

static struct gzip *z;
static uint8_t *in, *packed, *out;

static void set_up(void)
{
	cr_assert_eq(gzip_new(&z), 0);
	in = malloc(LARGEST);
	packed = malloc(gzip_most(LARGEST));
	out = malloc(LARGEST);
	cr_assert(in && packed && out);
}

static void tear_down(void)
{
	gzip_free(&z);
	cr_assert_null(z);
	free(in);
	free(packed);
	free(out);
}

TestSuite(gzip, .init = set_up, .fini = tear_down, .timeout = 120);

/* What zlib reads of it; returns the packed size. */
static size_t round_trip(size_t n)
{
	z_stream s = { .next_in = packed, .next_out = out, .avail_out = LARGEST };
	size_t size = 0;

	memset(packed, 0xee, gzip_most(n));
	cr_assert_eq(gzip_pack(z, in, n, packed, &size), 0);
	cr_assert_gt(size, 0);
	cr_assert_leq(size, gzip_most(n));
	s.avail_in = (uInt)size;
	cr_assert_eq(inflateInit2(&s, MAX_WBITS + 16), Z_OK);
	cr_assert_eq(inflate(&s, Z_FINISH), Z_STREAM_END, "%zu bytes", n);
	cr_assert_eq(s.avail_in, 0);
	cr_assert_eq(s.total_out, n);
	cr_assert(memcmp(in, out, n) == 0, "%zu bytes", n);
	(void)inflateEnd(&s);
	return size;
}

static uint32_t chance(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16);
}

/* Pieces of what came before, and so many bytes of chance between them. */
static void fill(size_t n, uint32_t fresh)
{
	size_t i = 0;

	while (i < n) {
		size_t from = i ? chance() % i : 0, piece = i ? chance() % 200 : 0;

		for (size_t k = 0; k < fresh && i < n; k++)
			in[i++] = (uint8_t)chance();
		for (size_t k = 0; k < piece && i < n; k++)
			in[i++] = in[from + k];
	}
}

Test(gzip, any_length_comes_back_as_it_was)
{
	for (size_t n = 0; n < 600; n++) {
		fill(n, 1 + n % 7);
		(void)round_trip(n);
	}
	for (size_t i = 0; i < 300; i++) {
		size_t n = chance() % (1 << (10 + i % 11));

		fill(n, 1 + chance() % 64);
		(void)round_trip(n);
	}
	fill(LARGEST, 20);
	(void)round_trip(LARGEST);
}

Test(gzip, what_cannot_be_compressed_has_room)
{
	for (size_t n = 1; n <= LARGEST; n = n * 3 + 1) {
		for (size_t i = 0; i < n; i++)
			in[i] = (uint8_t)chance();
		(void)round_trip(n);
	}
	for (size_t n = 65530; n < 65545; n++)
		(void)round_trip(n);
	(void)round_trip(LARGEST);
}

Test(gzip, the_same_again_and_again_takes_little)
{
	memset(in, 'x', LARGEST);
	cr_assert_lt(round_trip(LARGEST), LARGEST / 100);
	memset(in, 0, LARGEST);
	cr_assert_lt(round_trip(LARGEST), LARGEST / 100);
}

Test(gzip, one_pack_leaves_nothing_for_the_next)
{
	size_t size;

	fill(100000, 20);
	fill(300000, 3);
	(void)round_trip(300000);
	memset(in, 1, 1000);
	(void)round_trip(1000);
	fill(100000, 20);
	size = round_trip(100000);
	cr_assert_eq(round_trip(100000), size);
}
