#include "trace/literals.h"

#include "base/arena.h"
#include "base/slow.h"
#include <fcntl.h>
#include <sys/stat.h>

/* Few literals of a program are ever sent (routes, method names): each is read once and stays until
 * there is no room for another one, then all are forgotten. */
#define LITERAL_MAX 1024u
#define TABLE_BITS  8
#define TABLE_SIZE  (1u << TABLE_BITS)
#define TABLE_FULL  (TABLE_SIZE * 3 / 4)
#define TEXT_BYTES  (32u << 10)
#define TIMEOUT_MS  200 /* the events thread waits, and the ring fills */

struct literal {
	uint64_t at;
	uint32_t n; /* 0: empty */
	uint32_t text;
	bool unreadable;
};

struct literals {
	int fd; /* O_PATH will do */
	uint64_t offset, size, dev;
	size_t count, used;    /* of: */
	struct literal *table; /* TABLE_SIZE; NULL: none was asked for yet */
	char *text;            /* TEXT_BYTES */
};

int literals_new(struct literals **out, int fd, uint64_t ro_offset, uint64_t ro_size)
{
	auto_close int own = fd;
	struct literals *l;
	struct stat st;
	int err;

	if (ro_offset > INT64_MAX || ro_size > INT64_MAX - ro_offset)
		return -EINVAL;
	err = slow_stat(own, &st);
	if (err)
		return err;
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->fd = take_fd(own);
	l->offset = ro_offset;
	l->size = ro_size;
	l->dev = st.st_dev;
	*out = l;
	return 0;
}

void literals_free(struct literals **p)
{
	struct literals *l = take(*p);

	if (!l)
		return;
	free(l->table);
	free(l->text);
	if (l->fd >= 0)
		(void)close(l->fd);
	free(l);
}

/* One read; it may be left behind. */
struct get {
	int fd; /* its own */
	uint64_t offset;
	size_t n, got;
	char text[LITERAL_MAX];
};

static void free_get(void *arg)
{
	struct get *g = arg;

	(void)close(g->fd);
	free(g);
}

static void get(void *arg)
{
	struct get *g = arg;
	auto_close int fd = slow_reopen(g->fd);

	while (fd >= 0 && g->got < g->n) {
		ssize_t n = pread(fd, g->text + g->got, g->n - g->got, (off_t)(g->offset + g->got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		g->got += (size_t)n;
	}
}

/* 0; -EIO: it is not in the file; else it may be there the next time. */
static int read_text(const struct literals *l, uint64_t at, size_t n, char *to)
{
	struct get *g = calloc(1, sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	g->offset = l->offset + at;
	g->n = n;
	g->fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
	err = g->fd < 0 ? -errno : slow_call(get, free_get, g, l->dev, TIMEOUT_MS);
	if (err == -ETIMEDOUT)
		return err;
	if (!err && g->got < n)
		err = -EIO;
	if (!err)
		memcpy(to, g->text, n);
	free_get(g);
	return err;
}

static struct literal *place_of(const struct literals *l, uint64_t at, size_t n)
{
	size_t i = (at ^ (uint64_t)n << 40) * 0x9e3779b97f4a7c15u >> (64 - TABLE_BITS);

	while (l->table[i].n && (l->table[i].at != at || l->table[i].n != n))
		i = (i + 1) % TABLE_SIZE;
	return &l->table[i];
}

static void forget(struct literals *l)
{
	memset(l->table, 0, TABLE_SIZE * sizeof(*l->table));
	l->count = l->used = 0;
}

static int make_room(struct literals *l, size_t n)
{
	if (!l->table) {
		l->table = calloc(TABLE_SIZE, sizeof(*l->table));
		l->text = malloc(TEXT_BYTES);
		if (!l->table || !l->text) {
			free(take(l->table));
			free(take(l->text));
			return -ENOMEM;
		}
	} else if (l->count == TABLE_FULL || n > TEXT_BYTES - l->used) {
		forget(l);
	}
	return 0;
}

/* Its entry, read if it is not there yet. NULL: it cannot be had now. */
static const struct literal *find(struct literals *l, uint64_t at, size_t n)
{
	struct literal *it = l->table ? place_of(l, at, n) : NULL;
	int err;

	if (it && it->n)
		return it;
	if (make_room(l, n))
		return NULL;
	err = read_text(l, at, n, l->text + l->used);
	if (err && err != -EIO)
		return NULL;
	it = place_of(l, at, n);
	*it = (struct literal){ at, (uint32_t)n, (uint32_t)l->used, err != 0 };
	l->count++;
	l->used += err ? 0 : n;
	return it;
}

int literals_get(struct literals *l, struct arena *arena, uint64_t at, size_t n, struct str *out)
{
	const struct literal *it;
	size_t used = arena->used;
	char *to;

	if (!l || n > LITERAL_MAX || at > l->size || n > l->size - at)
		return -ERANGE;
	to = arena_get(arena, n);
	if (!to)
		return -ENOSPC;
	it = n ? find(l, at, n) : NULL;
	if (n && (!it || it->unreadable)) {
		arena->used = used;
		return -EIO;
	}
	if (n)
		memcpy(to, l->text + it->text, n);
	*out = (struct str){ to, n };
	return 0;
}
