#include "discover/waiting.h"

/* The kubelet learns of a container about a second after it runs. */
#define FIRST_NS 200000000ULL
#define MOST_NS  10000000000ULL

static size_t find(const struct waiting *w, const char *id)
{
	size_t i = 0;

	while (i < w->n && strcmp(w->rows[i].id, id) != 0)
		i++;
	return i;
}

static void forget(struct waiting *w, size_t i)
{
	memmove(&w->rows[i], &w->rows[i + 1], (w->n - i - 1) * sizeof(w->rows[0]));
	w->n--;
}

uint64_t waiting_add(struct waiting *w, const char *id, uint64_t now)
{
	size_t i = find(w, id);

	if (i < w->n)
		return w->rows[i].first_ns;
	if (w->n == WAITING_MAX)
		forget(w, 0);
	memcpy(w->rows[w->n].id, id, sizeof(w->rows[0].id));
	w->rows[w->n++].first_ns = now;
	w->asks = 0;
	w->ask_ns = now;
	return now;
}

void waiting_done(struct waiting *w, const char *id)
{
	size_t i = find(w, id);

	if (i < w->n)
		forget(w, i);
}

bool waiting_due(struct waiting *w, uint64_t now, bool any)
{
	uint64_t wait;

	if (!w->ask_ns || w->ask_ns > now)
		return false;
	if (!any) {
		w->ask_ns = 0;
		return false;
	}
	wait = w->asks < 6 ? FIRST_NS << w->asks : MOST_NS;
	w->asks++;
	w->ask_ns = now + (wait < MOST_NS ? wait : MOST_NS);
	return true;
}
