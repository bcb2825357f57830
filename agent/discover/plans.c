#include "discover/plans.h"

#include "base/slow.h"
#include "base/stats.h"
#include "trace/plan.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

/* The change time cannot be set by the file's owner, unlike the others. */
struct key {
	uint64_t dev, ino, size;
	struct timespec mtime, ctime;
};

struct known {
	struct key key;
	uint64_t used; /* 0: empty */
	struct analysed analysed;
	struct plan *plan;
};

struct plans {
	uint64_t clock;
	uint32_t features; /* as plan_make() takes them */
	bool runtime;
	struct analysed passing; /* failures that may pass: not remembered */
	size_t n;
	struct known known[];
};

int plans_new(struct plans **out, size_t n, uint32_t features, bool runtime)
{
	struct plans *p = calloc(1, sizeof(*p) + n * sizeof(struct known));

	if (!p)
		return -ENOMEM;
	p->n = n;
	p->features = features;
	p->runtime = runtime;
	*out = p;
	return 0;
}

void plans_free(struct plans **pp)
{
	struct plans *p = take(*pp);

	for (size_t i = 0; p && i < p->n; i++)
		plan_free(&p->known[i].plan);
	free(p);
}

static bool same(const struct key *a, const struct key *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	       a->mtime.tv_sec == b->mtime.tv_sec && a->mtime.tv_nsec == b->mtime.tv_nsec &&
	       a->ctime.tv_sec == b->ctime.tv_sec && a->ctime.tv_nsec == b->ctime.tv_nsec;
}

/* One analysis; it may be left behind. */
struct work {
	int fd; /* its own, O_PATH */
	uint32_t features;
	bool runtime;
	struct analysed found;
	struct plan *plan;
};

static void free_work(void *arg)
{
	struct work *w = arg;

	plan_free(&w->plan);
	(void)close(w->fd);
	free(w);
}

static void analyse(void *arg)
{
	auto_gobin struct gobin *g = NULL;
	struct work *w = arg;
	struct analysed *found = &w->found;
	int own = slow_reopen(w->fd);
	const struct gobin_info *info;

	found->why = GOBIN_OPEN;
	if (own < 0 || gobin_open(&g, own, &found->why))
		return;
	info = gobin_info(g);
	(void)snprintf(found->go_version, sizeof(found->go_version), "%s", info->go_version);
	found->pie = info->pie;
	found->ro_offset = info->ro_offset;
	found->ro_size = info->ro_size;
	/* Without it the program is traced all the same. */
	if (w->runtime && runtime_plan(&found->runtime, g))
		found->runtime = (struct runtime_plan){ 0 };
	switch (plan_make(&w->plan, g, w->features)) {
	case 0:
		found->why = GOBIN_OK;
		break;
	case -ENOMEM:
		found->why = GOBIN_NO_MEMORY;
		break;
	case -EIO:
		found->why = GOBIN_OPEN;
		break;
	default:
		found->why = GOBIN_MALFORMED;
	}
}

/* With a bound on its time: NULL in *plan unless it is GOBIN_OK. */
static struct analysed analyse_in_time(const struct plans *p, int fd, uint64_t dev,
				       struct plan **plan)
{
	struct analysed found = { .why = GOBIN_NO_MEMORY };
	struct work *w = calloc(1, sizeof(*w));
	int err;

	if (!w)
		return found;
	w->features = p->features;
	w->runtime = p->runtime;
	w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	err = w->fd < 0 ? -errno : slow_call(analyse, free_work, w, dev, PLANS_TIMEOUT_MS);
	if (!err) {
		found = w->found;
		*plan = take(w->plan);
	} else if (err == -ETIMEDOUT || err == -EBUSY) {
		found.why = GOBIN_TIMEOUT;
	}
	if (err != -ETIMEDOUT)
		free_work(w);
	return found;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

const struct analysed *plans_get(struct plans *p, int fd)
{
	struct known *oldest = &p->known[0];
	struct analysed found;
	struct plan *plan = NULL;
	struct stat st;
	struct key key;
	uint64_t begin = now_ns();

	p->passing = (struct analysed){ .why = GOBIN_OPEN };
	if (slow_stat(fd, &st) != 0)
		return &p->passing;
	key = (struct key){ st.st_dev, st.st_ino, (uint64_t)st.st_size, st.st_mtim, st.st_ctim };
	for (size_t i = 0; i < p->n; i++) {
		struct known *k = &p->known[i];

		if (k->used && same(&k->key, &key)) {
			k->used = ++p->clock;
			return &k->analysed;
		}
		if (k->used < oldest->used)
			oldest = k;
	}
	found = analyse_in_time(p, fd, st.st_dev, &plan);
	stat_observe(binary_analysis, now_ns() - begin);
	if (found.why == GOBIN_OPEN || found.why == GOBIN_NO_MEMORY || found.why == GOBIN_TIMEOUT) {
		p->passing = found;
		return &p->passing;
	}
	plan_free(&oldest->plan);
	*oldest = (struct known){ .key = key, .used = ++p->clock, .analysed = found, .plan = plan };
	oldest->analysed.plan = plan;
	return &oldest->analysed;
}
