#include "base/slow.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

#define OUT_MAX 16

struct call {
	void (*fn)(void *arg), (*drop)(void *arg);
	void *arg;
	uint64_t key;
	pthread_cond_t returned;
	bool done, late; /* guarded by lock */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards out, nout and the calls' flags */
static const struct call *out[OUT_MAX];                  /* that are late */
static size_t nout, waited; /* waited: for a call that may become late */

static void free_call(struct call *c)
{
	(void)pthread_cond_destroy(&c->returned);
	free(c);
}

static void come_back(const struct call *c)
{
	size_t i = 0;

	while (out[i] != c)
		i++;
	out[i] = out[--nout];
}

static void *run(void *arg)
{
	struct call *c = arg;
	bool late;

	(void)pthread_setname_np(pthread_self(), "slow");
	c->fn(c->arg);
	(void)pthread_mutex_lock(&lock);
	c->done = true;
	late = c->late;
	if (late)
		come_back(c);
	else
		(void)pthread_cond_signal(&c->returned);
	(void)pthread_mutex_unlock(&lock);
	if (late) {
		c->drop(c->arg);
		free_call(c);
	}
	return NULL;
}

static bool is_out(uint64_t key)
{
	bool found = nout + waited == OUT_MAX;

	for (size_t i = 0; i < nout; i++)
		found = found || out[i]->key == key;
	return found;
}

static int start(struct call *c)
{
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attr, run, c);
	(void)pthread_attr_destroy(&attr);
	return -err;
}

/* Under the lock. */
static int wait_for(struct call *c, unsigned timeout_ms)
{
	struct timespec until;
	int err = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	until.tv_sec += timeout_ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	while (!c->done && !err)
		err = pthread_cond_timedwait(&c->returned, &lock, &until);
	if (c->done)
		return 0;
	c->late = true;
	out[nout++] = c;
	return -ETIMEDOUT;
}

int slow_call(void (*fn)(void *arg), void (*drop)(void *arg), void *arg, uint64_t key,
	      unsigned timeout_ms)
{
	struct call *c = calloc(1, sizeof(*c));
	pthread_condattr_t attr;
	int err;

	if (!c)
		return -ENOMEM;
	*c = (struct call){ .fn = fn, .drop = drop, .arg = arg, .key = key };
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&c->returned, &attr);
	(void)pthread_condattr_destroy(&attr);
	(void)pthread_mutex_lock(&lock);
	err = is_out(key) ? -EBUSY : start(c);
	if (!err) {
		waited++;
		err = wait_for(c, timeout_ms);
		waited--;
	}
	(void)pthread_mutex_unlock(&lock);
	if (err != -ETIMEDOUT)
		free_call(c);
	return err;
}

int slow_reopen(int fd)
{
	char path[32];
	int own;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_RDONLY | O_CLOEXEC);
	return own < 0 ? -errno : own;
}

int slow_stat(int fd, struct stat *to)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &st) != 0)
		return -errno;
	*to = (struct stat){ .st_dev = makedev(st.stx_dev_major, st.stx_dev_minor),
			     .st_ino = st.stx_ino,
			     .st_mode = st.stx_mode,
			     .st_size = (off_t)st.stx_size,
			     .st_mtim = { st.stx_mtime.tv_sec, st.stx_mtime.tv_nsec },
			     .st_ctim = { st.stx_ctime.tv_sec, st.stx_ctime.tv_nsec } };
	return 0;
}

size_t slow_out(void)
{
	size_t n;

	(void)pthread_mutex_lock(&lock);
	n = nout;
	(void)pthread_mutex_unlock(&lock);
	return n;
}
