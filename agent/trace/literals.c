#include "trace/literals.h"

#include "base/arena.h"

/* Few literals of a program are ever sent (routes, method names), and they lie together: a page is
 * read when it is first needed and stays until another one takes its place. */
#define PAGE_BYTES  4096u
#define PAGES       16u
#define LITERAL_MAX 1024u

struct page {
	uint64_t number; /* of the file's read-only data */
	size_t n;        /* bytes that could be read */
	char *bytes;     /* NULL: not used yet */
};

struct literals {
	int fd;
	uint64_t offset, size;
	struct page pages[PAGES];
};

int literals_new(struct literals **out, int fd, uint64_t ro_offset, uint64_t ro_size)
{
	auto_close int own = fd;
	struct literals *l;

	if (ro_offset > INT64_MAX || ro_size > INT64_MAX - ro_offset)
		return -EINVAL;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->fd = take_fd(own);
	l->offset = ro_offset;
	l->size = ro_size;
	*out = l;
	return 0;
}

void literals_free(struct literals **p)
{
	struct literals *l = take(*p);

	if (!l)
		return;
	for (size_t i = 0; i < PAGES; i++)
		free(l->pages[i].bytes);
	if (l->fd >= 0)
		(void)close(l->fd);
	free(l);
}

static int read_page(const struct literals *l, uint64_t number, struct page *page)
{
	size_t got = 0;

	if (!page->bytes)
		page->bytes = malloc(PAGE_BYTES);
	if (!page->bytes)
		return -EIO;
	page->n = 0;
	while (got < PAGE_BYTES) {
		uint64_t at = l->offset + number * PAGE_BYTES + got;
		ssize_t n = pread(l->fd, page->bytes + got, PAGE_BYTES - got, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	page->number = number;
	page->n = got;
	return 0;
}

/* Copies what [at, at + n) has of its first page; returns how much, 0: unreadable. */
static size_t copy_page(struct literals *l, uint64_t at, size_t n, char *to)
{
	uint64_t number = at / PAGE_BYTES;
	struct page *page = &l->pages[number % PAGES];
	size_t from = at % PAGE_BYTES, part = PAGE_BYTES - from < n ? PAGE_BYTES - from : n;

	if ((!page->bytes || page->number != number || page->n == 0) && read_page(l, number, page))
		return 0;
	if (!page->bytes || from + part > page->n)
		return 0;
	memcpy(to, page->bytes + from, part);
	return part;
}

int literals_get(struct literals *l, struct arena *arena, uint64_t at, size_t n, struct str *out)
{
	size_t used = arena->used, done = 0;
	char *to;

	if (!l || n > LITERAL_MAX || at > l->size || n > l->size - at)
		return -ERANGE;
	to = arena_get(arena, n);
	if (!to)
		return -ENOSPC;
	while (done < n) {
		size_t part = copy_page(l, at + done, n - done, to + done);

		if (!part) {
			arena->used = used;
			return -EIO;
		}
		done += part;
	}
	*out = (struct str){ to, n };
	return 0;
}
