#include "trace/links.h"

#include "base/log.h"
#include "trace/library.h"
#include "trace/plan.h"
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* So many threads close links at a time: each waits for the kernel's grace period. */
#define CLOSERS_MAX 32

void links_init(struct links *l)
{
	*l = (struct links){ .exe = -1 };
}

static void clear_places(struct core_places *places)
{
	free(places->offsets);
	free(places->cookies);
	*places = (struct core_places){ 0 };
}

/* The group of that program, which may be a new one; it has room for max places. NULL: no memory.
 */
static struct link_group *group_of(struct links *l, const struct bpf_program *prog, bool trial,
				   size_t max)
{
	struct link_group *g = l->groups;

	for (; g < l->groups + l->n; g++)
		if (g->prog == prog && g->trial == trial)
			return g;
	*g = (struct link_group){ .prog = prog, .trial = trial };
	g->places.offsets = calloc(max, sizeof(*g->places.offsets));
	g->places.cookies = calloc(max, sizeof(*g->places.cookies));
	l->n++;
	return g->places.offsets && g->places.cookies ? g : NULL;
}

static int collect(struct links *l, const struct plan *p, const struct links_process *process)
{
	l->groups = calloc(p->nplaces + 1, sizeof(*l->groups));
	if (!l->groups)
		return -ENOMEM;
	for (size_t i = 0; i < p->nplaces; i++) {
		const struct plan_place *place = &p->places[i];
		struct cookie c = { process->slot, place->lib, place->probe, process->generation };
		const struct bpf_program *prog;
		struct link_group *g;

		if (!(process->libs >> place->lib & 1) || (place->trial && !process->trials))
			continue;
		prog = library_program(&process->programs[place->lib], place->probe);
		if (!prog)
			return -ENOENT;
		g = group_of(l, prog, place->trial, p->nplaces);
		if (!g)
			return -ENOMEM;
		g->places.offsets[g->places.n] = (unsigned long)place->offset;
		memcpy(&g->places.cookies[g->places.n++], &c, sizeof(c));
	}
	return l->n ? 0 : -ENODATA;
}

/* Hangs those that are on trial, or those that are not. The first error ends it. */
static int hang(struct links *l, const char *path, bool trial)
{
	int err = 0;

	for (size_t i = 0; i < l->n && !err; i++) {
		struct link_group *g = &l->groups[i];

		if (g->trial == trial && !g->link)
			err = core_link(&g->link, g->prog, l->pid, path, &g->places);
	}
	return err;
}

static void take_trials_away(struct links *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->groups[i].trial)
			(void)bpf_link__destroy(take(l->groups[i].link));
}

static bool has(const struct links *l, bool trial)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->groups[i].trial == trial)
			return true;
	return false;
}

static void hang_trials(struct links *l, const char *path)
{
	int err;

	/* Enough for the kernel to find the file by, and asks its file system nothing. */
	l->exe = open(path, O_PATH | O_CLOEXEC);
	err = l->exe < 0 ? -errno : links_trial(l, true);
	if (err)
		log_debug("attach: process %d has no trial probes: %s", l->pid, strerror(-err));
}

int links_hang(struct links *l, const struct plan *p, const struct links_process *process,
	       size_t *nprobes)
{
	int err = collect(l, p, process);

	l->pid = process->pid;
	if (!err && !has(l, false))
		err = -ENODATA;
	if (!err && has(l, true))
		hang_trials(l, process->exe_path);
	if (!err)
		err = hang(l, process->exe_path, false);
	if (err) {
		links_close(&l, 1);
		links_clear(l);
		return err;
	}
	*nprobes = 0;
	for (size_t i = 0; i < l->n; i++) {
		struct link_group *g = &l->groups[i];

		*nprobes += g->link ? g->places.n : 0;
		if (!g->trial)
			clear_places(&g->places);
	}
	return 0;
}

int links_trial(struct links *l, bool on)
{
	char path[64];
	int err;

	if (!links_has_trial(l))
		return -ENODATA;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", l->exe);
	err = on ? hang(l, path, true) : 0;
	if (!on || err)
		take_trials_away(l);
	return err;
}

bool links_has_trial(const struct links *l)
{
	return l->exe >= 0 && has(l, true);
}

/* Links that are to be closed; whoever comes takes the next one. */
struct closing {
	struct bpf_link **links;
	size_t n;
	_Atomic(size_t) next;
};

static void *close_some(void *arg)
{
	struct closing *c = arg;
	size_t i;

	while ((i = atomic_fetch_add(&c->next, 1)) < c->n)
		(void)bpf_link__destroy(c->links[i]);
	return NULL;
}

static size_t count_links(struct links *const *list, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; list[i] && k < list[i]->n; k++)
			sum += list[i]->groups[k].link != NULL;
	return sum;
}

void links_close(struct links *const *list, size_t n)
{
	size_t max = count_links(list, n), started = 0;
	auto_free struct bpf_link **all = calloc(max + 1, sizeof(struct bpf_link *));
	struct closing c = { .links = all };
	pthread_t threads[CLOSERS_MAX];

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; list[i] && k < list[i]->n; k++) {
			struct bpf_link *link = take(list[i]->groups[k].link);

			if (link && all)
				all[c.n++] = link;
			else
				(void)bpf_link__destroy(link);
		}
	while (started + 1 < c.n && started < CLOSERS_MAX &&
	       pthread_create(&threads[started], NULL, close_some, &c) == 0)
		started++;
	(void)close_some(&c);
	while (started)
		(void)pthread_join(threads[--started], NULL);
}

void links_clear(struct links *l)
{
	if (l->exe >= 0)
		(void)close(l->exe);
	for (size_t i = 0; i < l->n; i++)
		clear_places(&l->groups[i].places);
	free(l->groups);
	links_init(l);
}
