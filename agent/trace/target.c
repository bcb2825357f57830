#include "trace/target.h"

#include "metrics/metrics.h"
#include "pipeline/resource.h"
#include "runtime/runtime.h"
#include "trace/clock.h"
#include "trace/literals.h"
#include <pthread.h>

enum place_state { PLACE_FREE, PLACE_RESERVED, PLACE_LIVE, PLACE_RETIRED };

/* One slot. EVENTS reads `target` without the lock; everything else is under it. */
struct place {
	_Atomic(struct target *) target;
	struct target *renamed; /* takes the place of target with the next targets_reap() */
	uint32_t generation;    /* last one given out */
	enum place_state state;
	uint16_t next; /* of the same list */
};

/* A list of slots through place.next, first in first out: a slot is not used again before all
 * others were. */
struct chain {
	uint16_t first, last;
	size_t n;
};

struct targets {
	pthread_mutex_t lock; /* guards states, generations and lists; held for short */
	struct chain empty;
	struct chain retired;  /* since the last targets_reap() */
	struct chain drained;  /* before it: the next one frees them */
	atomic_size_t waiting; /* in the two lists above, and renamed ones */
	size_t nrenamed;
	struct metrics *metrics;
	size_t n;
	struct place places[];
};

static void push(struct targets *t, struct chain *c, uint16_t slot)
{
	if (c->n++)
		t->places[c->last].next = slot;
	else
		c->first = slot;
	c->last = slot;
}

static uint16_t pop(struct targets *t, struct chain *c)
{
	uint16_t slot = c->first;

	c->first = t->places[slot].next;
	c->n--;
	return slot;
}

int target_new(struct target **out, uint16_t slot, uint32_t generation, int pid,
	       struct resource **resource, struct literals **literals,
	       const struct str *probe_paths, size_t nprobe_paths, uint32_t signals)
{
	size_t size = sizeof(struct target) + nprobe_paths * sizeof(struct str);
	struct target *t;
	struct str *paths;
	char *text;

	for (size_t i = 0; i < nprobe_paths; i++)
		size += probe_paths[i].n;
	t = calloc(1, size);
	if (!t)
		return -ENOMEM;
	paths = (struct str *)(t + 1);
	text = (char *)(paths + nprobe_paths);
	for (size_t i = 0; i < nprobe_paths; i++) {
		if (probe_paths[i].n)
			memcpy(text, probe_paths[i].p, probe_paths[i].n);
		paths[i] = (struct str){ text, probe_paths[i].n };
		text += probe_paths[i].n;
	}
	t->slot = slot;
	t->generation = generation;
	t->pid = pid;
	t->probe_paths = paths;
	t->nprobe_paths = nprobe_paths;
	t->signals = signals;
	t->resource = take(*resource);
	t->literals = literals ? take(*literals) : NULL;
	*out = t;
	return 0;
}

void target_born(struct target *t, uint64_t start_time)
{
	long hz = sysconf(_SC_CLK_TCK);
	struct clock clock = { 0 };

	clock_refresh(&clock);
	t->start_time = start_time;
	t->born_ns = start_time && hz > 0
			     ? clock_unix(&clock, start_time * (1000000000u / (uint64_t)hz))
			     : 0;
}

void target_free(struct target **p)
{
	struct target *t = take(*p);

	if (!t)
		return;
	owner_put(&t->owner);
	resource_put(&t->resource);
	go_runtime_put(&t->runtime);
	literals_free(&t->literals);
	free(t);
}

int targets_new(struct targets **out, size_t n)
{
	struct targets *t;

	if (n == 0 || n > UINT16_MAX + 1u)
		return -EINVAL;
	t = calloc(1, sizeof(*t) + n * sizeof(t->places[0]));
	if (!t)
		return -ENOMEM;
	(void)pthread_mutex_init(&t->lock, NULL);
	t->n = n;
	for (size_t i = 0; i < n; i++)
		push(t, &t->empty, (uint16_t)i);
	*out = t;
	return 0;
}

void targets_measure(struct targets *t, struct metrics *m)
{
	t->metrics = m;
}

struct metrics *targets_metrics(const struct targets *t)
{
	return t->metrics;
}

void targets_free(struct targets **p)
{
	struct targets *t = take(*p);

	if (!t)
		return;
	for (size_t i = 0; i < t->n; i++) {
		struct target *target = atomic_load(&t->places[i].target);

		target_free(&target);
		target_free(&t->places[i].renamed);
	}
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

int targets_reserve(struct targets *t, uint16_t *slot, uint32_t *generation)
{
	struct place *place;
	int err = -ENOSPC;

	(void)pthread_mutex_lock(&t->lock);
	if (t->empty.n) {
		*slot = pop(t, &t->empty);
		place = &t->places[*slot];
		place->state = PLACE_RESERVED;
		if (++place->generation == 0)
			place->generation = 1; /* 0: not in use */
		*generation = place->generation;
		err = 0;
	}
	(void)pthread_mutex_unlock(&t->lock);
	return err;
}

void targets_publish(struct targets *t, struct target *target)
{
	struct place *place = &t->places[target->slot];

	(void)pthread_mutex_lock(&t->lock);
	place->state = PLACE_LIVE;
	atomic_store_explicit(&place->target, target, memory_order_release);
	(void)pthread_mutex_unlock(&t->lock);
}

static bool same_resource(const struct target *a, const struct target *b)
{
	return a->resource->size == b->resource->size &&
	       memcmp(a->resource->bytes, b->resource->bytes, a->resource->size) == 0;
}

int targets_rename(struct targets *t, struct target **p)
{
	struct place *place = &t->places[(*p)->slot];
	struct target *before;
	int err = 0;

	(void)pthread_mutex_lock(&t->lock);
	before = place->renamed ? place->renamed : atomic_load(&place->target);
	if (place->state != PLACE_LIVE || before->generation != (*p)->generation) {
		err = -ENOENT;
	} else if (same_resource(before, *p)) {
		err = -EALREADY;
	} else {
		if (!place->renamed) {
			t->nrenamed++;
			atomic_fetch_add(&t->waiting, 1);
		}
		target_free(&place->renamed);
		place->renamed = take(*p);
	}
	(void)pthread_mutex_unlock(&t->lock);
	return err;
}

/* Under the lock: nobody but EVENTS, which calls this, and who holds the lock looks at a target. */
static void rename_all(struct targets *t)
{
	for (size_t i = 0; i < t->n && t->nrenamed; i++) {
		struct place *place = &t->places[i];
		struct target *now = take(place->renamed), *before;

		if (!now)
			continue;
		t->nrenamed--;
		atomic_fetch_sub(&t->waiting, 1);
		before = atomic_load(&place->target);
		now->literals = take(before->literals);
		now->runtime = take(before->runtime);
		for (size_t k = 0; k < LIBS_MAX; k++)
			atomic_store(&now->spans[k], atomic_load(&before->spans[k]));
		for (size_t k = 0; k < TARGET_TRIALS; k++)
			atomic_store(&now->trials[k], atomic_load(&before->trials[k]));
		atomic_store(&now->left, atomic_load(&before->left));
		atomic_store(&now->below, atomic_load(&before->below));
		atomic_store(&now->last_event_ns, atomic_load(&before->last_event_ns));
		atomic_store_explicit(&place->target, now, memory_order_release);
		target_free(&before);
	}
}

bool targets_trials(struct targets *t, uint16_t slot, uint64_t counts[TARGET_TRIALS])
{
	const struct target *target;
	bool live;

	(void)pthread_mutex_lock(&t->lock);
	live = slot < t->n && t->places[slot].state == PLACE_LIVE;
	target = live ? atomic_load(&t->places[slot].target) : NULL;
	for (size_t i = 0; live && i < TARGET_TRIALS; i++)
		counts[i] = atomic_load_explicit(&target->trials[i], memory_order_relaxed);
	(void)pthread_mutex_unlock(&t->lock);
	return live;
}

void targets_retire(struct targets *t, uint16_t slot)
{
	(void)pthread_mutex_lock(&t->lock);
	if (slot < t->n && t->places[slot].state == PLACE_LIVE) {
		t->places[slot].state = PLACE_RETIRED;
		push(t, &t->retired, slot);
		atomic_fetch_add(&t->waiting, 1);
	}
	(void)pthread_mutex_unlock(&t->lock);
}

void targets_cancel(struct targets *t, uint16_t slot)
{
	(void)pthread_mutex_lock(&t->lock);
	if (slot < t->n && t->places[slot].state == PLACE_RESERVED) {
		t->places[slot].state = PLACE_FREE;
		push(t, &t->empty, slot);
	}
	(void)pthread_mutex_unlock(&t->lock);
}

struct target *targets_find(struct targets *t, struct cookie c)
{
	struct target *target;

	if (c.slot >= t->n)
		return NULL;
	target = atomic_load_explicit(&t->places[c.slot].target, memory_order_acquire);
	return target && target->generation == c.generation ? target : NULL;
}

bool targets_retiring(struct targets *t)
{
	return atomic_load_explicit(&t->waiting, memory_order_relaxed) != 0;
}

void targets_reap(struct targets *t)
{
	if (!targets_retiring(t))
		return;
	(void)pthread_mutex_lock(&t->lock);
	rename_all(t);
	while (t->drained.n) {
		uint16_t slot = pop(t, &t->drained);
		struct target *target = atomic_exchange(&t->places[slot].target, NULL);

		target_free(&target);
		t->places[slot].state = PLACE_FREE;
		push(t, &t->empty, slot);
		atomic_fetch_sub(&t->waiting, 1);
	}
	t->drained = t->retired;
	t->retired = (struct chain){ 0 };
	(void)pthread_mutex_unlock(&t->lock);
}

void targets_foreach(struct targets *t, void (*fn)(const struct target *, void *), void *arg)
{
	(void)pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++)
		if (t->places[i].state == PLACE_LIVE)
			fn(atomic_load(&t->places[i].target), arg);
	(void)pthread_mutex_unlock(&t->lock);
}

struct targets_list *targets_list(struct targets *t)
{
	struct targets_list *l = calloc(1, sizeof(*l) + t->n * sizeof(l->v[0]));

	if (!l)
		return NULL;
	(void)pthread_mutex_lock(&t->lock);
	for (size_t i = 0; i < t->n; i++) {
		const struct target *target = atomic_load(&t->places[i].target);

		if (t->places[i].state == PLACE_LIVE)
			l->v[l->n++] =
				(struct target_ref){ .pid = target->pid,
						     .measured = target->owner,
						     .start_time = target->start_time,
						     .born_ns = target->born_ns,
						     .resource = resource_ref(target->resource),
						     .runtime = go_runtime_ref(target->runtime) };
	}
	(void)pthread_mutex_unlock(&t->lock);
	return l;
}

void targets_list_free(struct targets_list **p)
{
	struct targets_list *l = take(*p);

	for (size_t i = 0; l && i < l->n; i++) {
		resource_put(&l->v[i].resource);
		go_runtime_put(&l->v[i].runtime);
	}
	free(l);
}
