#include "trace/literals.h"

#include "base/arena.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>

#define OFFSET 5000u   /* of the read-only data in the file */
#define SIZE   200000u /* of it */

static char letter(size_t i)
{
	return (char)('A' + i * 7 % 57);
}

static int file_with(size_t size)
{
	auto_close int fd = memfd_create("literals", MFD_CLOEXEC);
	char *text = malloc(OFFSET + size);

	cr_assert(fd >= 0 && text);
	for (size_t i = 0; i < size; i++)
		text[OFFSET + i] = letter(i);
	memset(text, '-', OFFSET);
	cr_assert_eq(write(fd, text, OFFSET + size), (ssize_t)(OFFSET + size));
	free(text);
	return take_fd(fd);
}

static struct literals *literals;
static struct arena arena;

static void set_up(void)
{
	cr_assert_eq(literals_new(&literals, file_with(SIZE), OFFSET, SIZE), 0);
	cr_assert_eq(arena_init(&arena, 1 << 20), 0);
}

static void tear_down(void)
{
	literals_free(&literals);
	arena_clear(&arena);
}

TestSuite(literals, .init = set_up, .fini = tear_down);

static void expect(uint64_t at, size_t n)
{
	struct str s = { 0 };

	arena_reset(&arena);
	cr_assert_eq(literals_get(literals, &arena, at, n, &s), 0, "%zu bytes at %lu", n, at);
	cr_assert_eq(s.n, n);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(s.p[i], letter(at + i), "byte %zu of %zu at %lu", i, n, at);
}

Test(literals, a_string_is_what_the_file_says_wherever_it_lies)
{
	expect(0, 1);
	expect(4090, 20);
	expect(4096, 1024);
	expect(SIZE - 1, 1);
	expect(SIZE - 1024, 1024);
	expect(17, 0);
	for (uint64_t at = 0; at + 1024 <= SIZE; at += 1021)
		expect(at, 1024);
	expect(4090, 20);
}

Test(literals, a_string_lives_on_when_the_literals_are_gone)
{
	struct str s;

	cr_assert_eq(literals_get(literals, &arena, 100, 9, &s), 0);
	literals_free(&literals);
	for (size_t i = 0; i < 9; i++)
		cr_assert_eq(s.p[i], letter(100 + i));
}

Test(literals, what_is_not_within_the_read_only_data_is_refused)
{
	static const struct {
		uint64_t at;
		size_t n;
	} bad[] = { { SIZE, 1 },           { SIZE - 1, 2 }, { UINT64_MAX, 1 },
		    { UINT64_MAX - 3, 8 }, { 0, 1025 },     { 0, SIZE_MAX } };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct str s = { "as it was", 9 };

		cr_assert_eq(literals_get(literals, &arena, bad[i].at, bad[i].n, &s), -ERANGE,
			     "row %zu", i);
		cr_assert(str_eq(s, "as it was"));
		cr_assert_eq(arena.used, 0);
	}
}

Test(literals, without_literals_nothing_is_found)
{
	struct str s;

	cr_assert_eq(literals_get(NULL, &arena, 0, 1, &s), -ERANGE);
}

Test(literals, a_file_that_is_shorter_than_it_said_gives_no_bytes_and_takes_no_memory)
{
	struct literals *l = NULL;
	struct str s;

	cr_assert_eq(literals_new(&l, file_with(6000), OFFSET, SIZE), 0);
	cr_assert_eq(literals_get(l, &arena, 5990, 10, &s), 0);
	cr_assert_eq(arena.used, 10);
	cr_assert_eq(literals_get(l, &arena, 5995, 10, &s), -EIO);
	cr_assert_eq(literals_get(l, &arena, 150000, 10, &s), -EIO);
	cr_assert_eq(arena.used, 10);
	literals_free(&l);
}

Test(literals, a_full_arena_is_told_apart_from_an_unreadable_file)
{
	struct arena small = { 0 };
	struct str s;

	cr_assert_eq(arena_init(&small, 16), 0);
	cr_assert_eq(literals_get(literals, &small, 0, 17, &s), -ENOSPC);
	cr_assert_eq(literals_get(literals, &small, 0, 16, &s), 0);
	arena_clear(&small);
}

Test(literals, ranges_that_no_file_can_have_are_refused_and_the_file_is_closed)
{
	struct literals *l = NULL;
	int fd = file_with(10);

	cr_assert_eq(literals_new(&l, fd, UINT64_MAX, 1), -EINVAL);
	cr_assert_eq(fcntl(fd, F_GETFD), -1);
	cr_assert_null(l);
	cr_assert_eq(literals_new(&l, file_with(10), 1, INT64_MAX), -EINVAL);
}
