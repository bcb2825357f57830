#include "base/footprint.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

#define SIZE ((size_t)1 << 20)

static size_t page;

static void set_up(void)
{
	page = (size_t)getpagesize();
}

TestSuite(footprint, .init = set_up, .timeout = 60);

/* Pages of p..p+SIZE that are mapped now. */
static size_t resident(const void *p)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	cr_assert_geq(fd, 0);
	for (size_t i = 0; i < SIZE / page; i++) {
		uint64_t entry = 0;

		cr_assert_eq(pread(fd, &entry, 8, (off_t)(((uintptr_t)p / page + i) * 8)), 8);
		n += entry >> 63;
	}
	(void)close(fd);
	return n;
}

/* SIZE bytes of a file that count up, a page of each sort. */
static uint8_t *map_file(int prot, int how)
{
	FILE *f = tmpfile();
	uint8_t *p;

	cr_assert_not_null(f);
	for (size_t i = 0; i < SIZE; i++)
		(void)fputc((int)(i / page % 251), f);
	(void)fflush(f);
	p = mmap(NULL, SIZE, prot, how, fileno(f), 0);
	cr_assert_neq(p, MAP_FAILED);
	(void)fclose(f);
	return p;
}

static void touch(const uint8_t *p)
{
	for (size_t i = 0; i < SIZE; i += page)
		cr_assert_eq(p[i], i / page % 251);
	cr_assert_eq(resident(p), SIZE / page);
}

Test(footprint, code_leaves_memory_and_comes_back_when_it_is_needed)
{
	const uint8_t *p = map_file(PROT_READ, MAP_PRIVATE);

	touch(p);
	cr_assert_eq(footprint_settle(), 0);
	cr_assert_eq(resident(p), 0);
	touch(p);
}

Test(footprint, read_only_pages_that_were_written_once_keep_what_was_written)
{
	uint8_t *p = map_file(PROT_READ | PROT_WRITE, MAP_PRIVATE);

	touch(p);
	p[3 * page] = 255; /* as the dynamic linker relocates, and as a breakpoint is put */
	cr_assert_eq(mprotect(p, SIZE, PROT_READ), 0);
	cr_assert_eq(footprint_settle(), 0);
	cr_assert_eq(p[3 * page], 255);
	cr_assert_eq(p[4 * page], 4);
	cr_assert_eq(resident(p), SIZE / page);
}

Test(footprint, data_and_shared_memory_are_left_alone)
{
	uint8_t *data = map_file(PROT_READ | PROT_WRITE, MAP_PRIVATE);
	uint8_t *shared = map_file(PROT_READ, MAP_SHARED);

	touch(data);
	touch(shared);
	cr_assert_eq(footprint_settle(), 0);
	cr_assert_eq(resident(data), SIZE / page);
	cr_assert_eq(resident(shared), SIZE / page);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* have heaps of their own */
static void *allocate(void *arg)
{
	*(void **)arg = malloc(100);
	return NULL;
}

Test(footprint, threads_share_one_heap)
{
	void *here = malloc(100), *there = NULL;
	pthread_t thread;
	ptrdiff_t apart;

	footprint_setup();
	cr_assert_eq(pthread_create(&thread, NULL, allocate, &there), 0);
	(void)pthread_join(thread, NULL);
	apart = (char *)there - (char *)here;
	cr_assert_lt(labs(apart), 64 << 20, "a heap of its own begins at a multiple of 64 MiB");
	free(here);
	free(there);
}

Test(footprint, what_is_free_in_the_middle_of_the_heap_goes_back)
{
	enum { N = 400 };
	char *small[N], *last;
	size_t before = 0, after = 0;
	const char *middle;

	footprint_setup();
	for (int i = 0; i < N; i++) {
		small[i] = malloc(SIZE / 64);
		memset(small[i], 1, SIZE / 64);
	}
	last = malloc(100);
	middle = small[N / 2];
	before = resident(middle);
	for (int i = 0; i < N; i++)
		free(small[i]);
	footprint_trim();
	after = resident(middle);
	cr_assert_eq(before, SIZE / page);
	cr_assert_eq(after, 0);
	free(last);
}
#endif
