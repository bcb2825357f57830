#include "trace/links.h"

#include "base/log.h"
#include "trace/plan.h"
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <stdio.h>

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

/* The places of p that are on trial, or those that are not. */
static int collect(const struct plan *p, const struct links_process *process, bool trial,
		   struct core_places *out)
{
	auto_free unsigned long *offsets = calloc(p->nplaces + 1, sizeof(*offsets));
	auto_free uint64_t *cookies = calloc(p->nplaces + 1, sizeof(*cookies));
	size_t n = 0;

	if (!offsets || !cookies)
		return -ENOMEM;
	for (size_t i = 0; i < p->nplaces; i++) {
		const struct plan_place *place = &p->places[i];
		struct cookie c = { process->slot, place->lib, place->probe, process->generation };

		if (!(process->libs >> place->lib & 1) || place->trial != trial)
			continue;
		offsets[n] = (unsigned long)place->offset;
		memcpy(&cookies[n++], &c, sizeof(c));
	}
	if (!n)
		return -ENODATA;
	*out = (struct core_places){ .offsets = take(offsets), .cookies = take(cookies), .n = n };
	return 0;
}

static void hang_trials(struct links *l, const struct core *core, const struct plan *p,
			const struct links_process *process)
{
	int err;

	if (!process->trials || collect(p, process, true, &l->trials))
		return;
	/* Enough for the kernel to find the file by, and asks its file system nothing. */
	l->exe = open(process->exe_path, O_PATH | O_CLOEXEC);
	err = l->exe < 0 ? -errno : links_trial(l, core, true);
	if (err)
		log_debug("attach: process %d has no trial probes: %s", l->pid, strerror(-err));
}

int links_hang(struct links *l, const struct core *core, const struct plan *p,
	       const struct links_process *process, size_t *nprobes)
{
	__attribute__((cleanup(clear_places))) struct core_places places = { 0 };
	int err = collect(p, process, false, &places);

	if (err)
		return err;
	l->pid = process->pid;
	hang_trials(l, core, p, process);
	err = core_link(&l->link, core->dispatch, l->pid, process->exe_path, &places);
	if (!err)
		*nprobes = places.n + (l->trial ? l->trials.n : 0);
	else
		(void)bpf_link__destroy(take(l->trial));
	return err;
}

int links_trial(struct links *l, const struct core *core, bool on)
{
	char path[64];

	if (!links_has_trial(l))
		return -ENODATA;
	if (on == (l->trial != NULL))
		return 0;
	if (!on)
		return bpf_link__destroy(take(l->trial));
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", l->exe);
	return core_link(&l->trial, core->dispatch, l->pid, path, &l->trials);
}

bool links_has_trial(const struct links *l)
{
	return l->exe >= 0 && l->trials.n;
}

void links_close(struct links *l)
{
	(void)bpf_link__destroy(take(l->link));
	(void)bpf_link__destroy(take(l->trial));
}

void links_clear(struct links *l)
{
	if (l->exe >= 0)
		(void)close(l->exe);
	clear_places(&l->trials);
	links_init(l);
}
