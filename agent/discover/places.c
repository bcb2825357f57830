#include "discover/places.h"

#include "base/slow.h"
#include "discover/proc.h"
#include "trace/plan.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define TIMEOUT_MS 5000
#define CODE_BYTES 16 /* an instruction has no more */

/* All of it the call's own, as it may be left behind. */
struct look {
	char proc_root[PATH_MAX];
	int pid, fd, err;
	bool pie;
	uint64_t bias;
	size_t n;
	uint64_t offsets[];
};

static void free_look(void *arg)
{
	struct look *l = arg;

	(void)close(l->fd);
	free(l);
}

static void look(void *arg)
{
	struct look *l = arg;
	auto_close int fd = slow_reopen(l->fd);
	char code[CODE_BYTES];

	l->err = fd < 0 ? fd : 0;
	for (size_t i = 0; i < l->n && !l->err; i++)
		if (pread(fd, code, sizeof(code), (off_t)l->offsets[i]) <= 0)
			l->err = -EIO;
	if (!l->err && l->pie)
		l->err = proc_load_bias(l->proc_root, l->pid, &l->bias);
}

int places_look(const char *proc_root, int pid, int fd, const struct plan *plan, bool pie,
		uint64_t *bias)
{
	struct look *l = calloc(1, sizeof(*l) + plan->nplaces * sizeof(l->offsets[0]));
	struct stat st = { 0 };
	int err;

	if (!l)
		return -ENOMEM;
	(void)snprintf(l->proc_root, sizeof(l->proc_root), "%s", proc_root);
	l->pid = pid;
	l->pie = pie;
	l->n = plan->nplaces;
	for (size_t i = 0; i < plan->nplaces; i++)
		l->offsets[i] = plan->places[i].offset;
	l->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	err = l->fd < 0 ? -errno : slow_stat(l->fd, &st);
	if (!err)
		err = slow_call(look, free_look, l, st.st_dev, TIMEOUT_MS);
	if (err == -ETIMEDOUT)
		return err;
	if (err == -EBUSY)
		err = -ETIMEDOUT;
	else if (!err)
		err = l->err;
	if (!err)
		*bias = l->bias;
	free_look(l);
	return err;
}
