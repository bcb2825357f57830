/* hang.c - hang FOLDER FILE: a file system by FUSE on FOLDER whose one file, "web", is FILE. It
 * says "mounted", answers until it is stopped (SIGSTOP: then it is a file system that hangs), and
 * ends with its mount or by a signal. Kept in no cache but the page cache. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define WEB_INO   2
#define READ_MOST (128 << 10)

static int dev, file;
static struct stat st;

static void answer(const struct fuse_in_header *in, int err, const void *data, size_t n)
{
	struct fuse_out_header out = { (uint32_t)(sizeof(out) + n), -err, in->unique };
	struct iovec v[] = { { &out, sizeof(out) }, { (void *)data, n } };

	if (writev(dev, v, 2) < 0 && errno != ENOENT) /* ENOENT: who asked has gone */
		perror("answer");
}

static struct fuse_attr attr_of(uint64_t ino)
{
	struct fuse_attr a = { .ino = ino, .mode = S_IFDIR | 0755, .nlink = 1, .blksize = 4096 };

	if (ino == WEB_INO) {
		a.mode = S_IFREG | 0755;
		a.size = (uint64_t)st.st_size;
		a.blocks = (a.size + 511) / 512;
	}
	return a;
}

static void init(const struct fuse_in_header *in, const struct fuse_init_in *from)
{
	struct fuse_init_out out = { .major = FUSE_KERNEL_VERSION,
				     .minor = from->minor < FUSE_KERNEL_MINOR_VERSION
						      ? from->minor
						      : FUSE_KERNEL_MINOR_VERSION,
				     .max_readahead = 0,
				     .max_write = 4096,
				     .max_background = 16,
				     .congestion_threshold = 12 };

	answer(in, 0, &out, sizeof(out));
}

static void look_up(const struct fuse_in_header *in, const char *name)
{
	struct fuse_entry_out out = { .nodeid = WEB_INO, .attr = attr_of(WEB_INO) };

	if (strcmp(name, "web") != 0)
		answer(in, ENOENT, NULL, 0);
	else
		answer(in, 0, &out, sizeof(out));
}

static void get_attr(const struct fuse_in_header *in)
{
	struct fuse_attr_out out = { .attr = attr_of(in->nodeid) };

	answer(in, 0, &out, sizeof(out));
}

static void read_file(const struct fuse_in_header *in, const struct fuse_read_in *from)
{
	static char data[READ_MOST];
	size_t n = from->size < sizeof(data) ? from->size : sizeof(data);
	ssize_t got = pread(file, data, n, (off_t)from->offset);

	answer(in, got < 0 ? errno : 0, data, got < 0 ? 0 : (size_t)got);
}

static void serve(const struct fuse_in_header *in)
{
	static const struct fuse_open_out opened = { .fh = 1 };
	const void *rest = in + 1;

	switch (in->opcode) {
	case FUSE_INIT:
		init(in, rest);
		break;
	case FUSE_LOOKUP:
		look_up(in, rest);
		break;
	case FUSE_GETATTR:
		get_attr(in);
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		answer(in, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		read_file(in, rest);
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		answer(in, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break; /* want no answer */
	default:
		answer(in, ENOSYS, NULL, 0);
	}
}

int main(int argc, char **argv)
{
	static char request[FUSE_MIN_READ_BUFFER + 4096] __attribute__((aligned(8)));
	char options[128];
	ssize_t n;

	if (argc != 3)
		return 2;
	file = open(argv[2], O_RDONLY | O_CLOEXEC);
	dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (file < 0 || dev < 0 || fstat(file, &st) != 0) {
		perror("open");
		return 1;
	}
	(void)snprintf(options, sizeof(options),
		       "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev);
	if (mount("hang", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
		perror("mount");
		return 1;
	}
	(void)puts("{\"mounted\": true}");
	(void)fflush(stdout);
	while ((n = read(dev, request, sizeof(request))) > 0 || errno == EINTR || errno == ENOENT)
		if (n >= (ssize_t)sizeof(struct fuse_in_header))
			serve((const struct fuse_in_header *)request);
	return errno == ENODEV ? 0 : 1;
}
