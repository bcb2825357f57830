#include "discover/credential.h"

#include <fcntl.h>
#include <sys/stat.h>

void credential_clear(struct credential *c)
{
	if (c->text)
		explicit_bzero(c->text, c->size);
	free(c->text);
	*c = (struct credential){ 0 };
}

static bool same_time(struct timespec a, struct timespec b)
{
	return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool same_file(const struct credential *c, const struct stat *st)
{
	return c->text && c->dev == st->st_dev && c->ino == st->st_ino &&
	       c->file_size == (uint64_t)st->st_size && same_time(c->mtime, st->st_mtim) &&
	       same_time(c->ctime, st->st_ctim);
}

static int credential_load(struct credential *c, int fd, size_t max)
{
	size_t have = 0;

	c->text = malloc(max + 2);
	if (!c->text)
		return -ENOMEM;
	while (have <= max) {
		ssize_t n = read(fd, c->text + have, max + 1 - have);

		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		have += (size_t)n;
		c->size = have;
	}
	c->text[have] = '\0';
	return have > max ? -EFBIG : 0;
}

int credential_read(struct credential *c, const char *path, size_t max, bool force)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int err;

	if (fd < 0 || fstat(fd, &st) != 0) {
		err = -errno;
		credential_clear(c);
		return err;
	}
	if (!force && same_file(c, &st))
		return 0;
	credential_clear(c);
	err = S_ISREG(st.st_mode) ? credential_load(c, fd, max) : -EINVAL;
	if (err) {
		credential_clear(c);
		return err;
	}
	c->dev = st.st_dev;
	c->ino = st.st_ino;
	c->file_size = (uint64_t)st.st_size;
	c->mtime = st.st_mtim;
	c->ctime = st.st_ctim;
	return 1;
}
