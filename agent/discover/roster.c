#include "discover/roster.h"

#include "base/stats.h"
#include "discover/worker.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const names[ROSTER_STATES] = {
	[ROSTER_TRACED] = "traced",
	[ROSTER_PENDING] = "pending",
	[ROSTER_NOT_SELECTED] = "not_selected",
	[ROSTER_NOT_GO] = "not_go",
	[ROSTER_UNSUPPORTED] = "unsupported",
	[ROSTER_FAILED] = "failed",
	[ROSTER_ENDED] = "ended",
};

const char *roster_state_name(enum roster_state s)
{
	return names[s];
}

int roster_new(struct roster **out)
{
	struct roster *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	*out = r;
	return 0;
}

static void entry_free(struct entry *e)
{
	if (e->pidfd >= 0)
		(void)close(e->pidfd);
	free(e->result);
	free(e);
}

static bool free_one(struct entry *e, void *arg)
{
	(void)arg;
	entry_free(e);
	return true;
}

void roster_free(struct roster **p)
{
	struct roster *r = take(*p);

	if (!r)
		return;
	roster_foreach(r, free_one, NULL);
	while (r->ended) {
		struct entry *next = r->ended->next;

		entry_free(r->ended);
		r->ended = next;
	}
	free(r);
}

static struct entry **bucket(struct roster *r, int pid)
{
	return &r->buckets[(unsigned int)pid % ROSTER_BUCKETS];
}

struct entry *roster_add(struct roster *r, const struct process *proc)
{
	struct entry *e = calloc(1, sizeof(*e));
	struct entry **at = bucket(r, proc->pid);

	if (!e)
		return NULL;
	e->serial = ++r->serial;
	e->proc = *proc;
	e->pidfd = -1;
	e->state = ROSTER_PENDING;
	r->count[ROSTER_PENDING]++;
	e->next = *at;
	*at = e;
	return e;
}

struct entry *roster_find(struct roster *r, int pid)
{
	struct entry *e = *bucket(r, pid);

	while (e && e->proc.pid != pid)
		e = e->next;
	return e;
}

struct entry *roster_find_serial(struct roster *r, uint64_t serial)
{
	for (size_t i = 0; i < ROSTER_BUCKETS; i++)
		for (struct entry *e = r->buckets[i]; e; e = e->next)
			if (e->serial == serial)
				return e;
	return NULL;
}

static void remember(struct roster *r, struct entry *e)
{
	struct entry **last = &r->ended;

	if (e->pidfd >= 0)
		(void)close(e->pidfd);
	e->pidfd = -1;
	e->state = ROSTER_ENDED;
	e->next = r->ended;
	r->ended = e;
	if (++r->nended <= ROSTER_ENDED_MAX)
		return;
	while ((*last)->next)
		last = &(*last)->next;
	entry_free(*last);
	*last = NULL;
	r->nended--;
}

void roster_remove(struct roster *r, struct entry *e, bool was)
{
	struct entry **at = bucket(r, e->proc.pid);

	while (*at && *at != e)
		at = &(*at)->next;
	if (*at)
		*at = e->next;
	r->count[e->state]--;
	if (was)
		remember(r, e);
	else
		entry_free(e);
}

void roster_set(struct roster *r, struct entry *e, enum roster_state state, const char *fmt, ...)
{
	va_list ap;

	r->count[e->state]--;
	r->count[state]++;
	e->state = state;
	va_start(ap, fmt);
	(void)vsnprintf(e->reason, sizeof(e->reason), fmt, ap);
	va_end(ap);
}

void roster_foreach(struct roster *r, bool (*fn)(struct entry *e, void *arg), void *arg)
{
	for (size_t i = 0; i < ROSTER_BUCKETS; i++) {
		struct entry *next;

		for (struct entry *e = r->buckets[i]; e; e = next) {
			next = e->next;
			if (!fn(e, arg))
				return;
		}
	}
}

void roster_publish(const struct roster *r)
{
	stat_set(discovered_traced, r->count[ROSTER_TRACED]);
	stat_set(discovered_pending, r->count[ROSTER_PENDING]);
	stat_set(discovered_not_selected, r->count[ROSTER_NOT_SELECTED]);
	stat_set(discovered_not_go, r->count[ROSTER_NOT_GO]);
	stat_set(discovered_unsupported, r->count[ROSTER_UNSUPPORTED]);
	stat_set(discovered_failed, r->count[ROSTER_FAILED]);
	stat_set(instrumented_processes, r->count[ROSTER_TRACED]);
	stat_set(attached_probes, r->probes);
}
