#include "trace/ringbuf.h"

#include <bpf/bpf.h>
#include <sys/mman.h>

/* The layout is kernel/bpf/ringbuf.c's: a page with the position of the reader, one with that of
 * the writers, the data, and the data once more, so that a record across the end lies in one piece.
 * Of that second time we map no more than the longest record needs. */
struct ringbuf {
	unsigned long *done;          /* a page of its own: all that we may write */
	const unsigned long *written; /* begins what we may read */
	const uint8_t *data;
	size_t page, size, mapped; /* bytes; the latter of data */
};

static int map_pages(struct ringbuf *r, int fd)
{
	size_t again = r->size < RINGBUF_LONGEST ? r->size : RINGBUF_LONGEST;
	void *p = mmap(NULL, r->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	r->done = p;
	p = mmap(NULL, r->page + r->size + again, PROT_READ, MAP_SHARED, fd, (off_t)r->page);
	if (p == MAP_FAILED)
		return -errno;
	r->written = p;
	r->data = (const uint8_t *)p + r->page;
	r->mapped = r->size + again;
	return 0;
}

int ringbuf_open(struct ringbuf **out, int fd)
{
	struct ringbuf *r = calloc(1, sizeof(*r));
	struct bpf_map_info info = { 0 };
	uint32_t n = sizeof(info);
	int err = 0;

	if (!r)
		return -ENOMEM;
	if (bpf_obj_get_info_by_fd(fd, &info, &n) != 0)
		err = -errno;
	else if (info.type != BPF_MAP_TYPE_RINGBUF)
		err = -EINVAL;
	r->page = (size_t)getpagesize();
	r->size = info.max_entries;
	if (!err)
		err = map_pages(r, fd);
	if (err) {
		ringbuf_close(&r);
		return err;
	}
	*out = r;
	return 0;
}

void ringbuf_close(struct ringbuf **p)
{
	struct ringbuf *r = take(*p);

	if (!r)
		return;
	if (r->done)
		(void)munmap(r->done, r->page);
	if (r->written)
		(void)munmap((void *)r->written, r->page + r->mapped);
	free(r);
}

unsigned long ringbuf_written(const struct ringbuf *r)
{
	return __atomic_load_n(r->written, __ATOMIC_ACQUIRE);
}

unsigned long ringbuf_done(const struct ringbuf *r)
{
	return __atomic_load_n(r->done, __ATOMIC_ACQUIRE);
}

bool ringbuf_read(struct ringbuf *r, ringbuf_take fn, void *arg)
{
	unsigned long at = ringbuf_done(r);
	bool more = true;

	while (more && at != ringbuf_written(r)) {
		const uint8_t *head = r->data + (at & (r->size - 1));
		uint32_t state = __atomic_load_n((const uint32_t *)head, __ATOMIC_ACQUIRE);
		size_t size = state & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);
		const uint8_t *data = head + BPF_RINGBUF_HDR_SZ;

		if (state & BPF_RINGBUF_BUSY_BIT)
			return false;
		if (!(state & BPF_RINGBUF_DISCARD_BIT))
			more = fn(arg, data, data + size <= r->data + r->mapped ? size : 0);
		at += (BPF_RINGBUF_HDR_SZ + size + 7) & ~7ul;
		/* Before we look whether there is more: the kernel wakes nobody for a record that
		 * comes while others wait. */
		__atomic_store_n(r->done, at, __ATOMIC_SEQ_CST);
	}
	return more;
}
