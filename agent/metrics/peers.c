#include "metrics/peers.h"

#include <arpa/inet.h>

struct entry {
	struct peer at;
	char *service; /* NULL: more than one claims it */
};

struct peers {
	struct entry *v;
	size_t n, room;
};

struct peer peer_of(struct str text, int64_t port)
{
	struct peer at = { .port = port > 0 && port <= UINT16_MAX ? (uint16_t)port : 0 };
	char ip[INET6_ADDRSTRLEN];

	if (text.n == 0 || text.n >= sizeof(ip))
		return at;
	memcpy(ip, text.p, text.n);
	ip[text.n] = '\0';
	at.known = inet_pton(AF_INET6, ip, at.ip) == 1;
	if (!at.known && inet_pton(AF_INET, ip, at.ip + 12) == 1) {
		memset(at.ip, 0, 10);
		memset(at.ip + 10, 0xff, 2);
		at.known = true;
	}
	return at;
}

int peers_new(struct peers **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void peers_free(struct peers **p)
{
	struct peers *all = take(*p);

	if (!all)
		return;
	for (size_t i = 0; i < all->n; i++)
		free(all->v[i].service);
	free(all->v);
	free(all);
}

int peers_add(struct peers *p, struct peer at, const char *service)
{
	char *copy = NULL;

	if (!at.known)
		return 0;
	if (p->n == p->room) {
		size_t room = p->room ? 2 * p->room : 64;
		struct entry *more = reallocarray(p->v, room, sizeof(*more));

		if (!more)
			return -ENOMEM;
		p->v = more;
		p->room = room;
	}
	if (service && !(copy = strdup(service)))
		return -ENOMEM;
	p->v[p->n++] = (struct entry){ .at = at, .service = copy };
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct peer *x = &((const struct entry *)a)->at, *y = &((const struct entry *)b)->at;
	int c = memcmp(x->ip, y->ip, sizeof(x->ip));

	return c ? c : (int)x->port - (int)y->port;
}

void peers_sort(struct peers *p)
{
	size_t n = 0;

	if (p->n)
		qsort(p->v, p->n, sizeof(*p->v), compare);
	for (size_t i = 0; i < p->n; i++) {
		struct entry *e = &p->v[i], *last = n ? &p->v[n - 1] : NULL;

		if (!last || compare(last, e) != 0) {
			p->v[n++] = *e;
			continue;
		}
		if (last->service && (!e->service || strcmp(last->service, e->service) != 0))
			free(take(last->service));
		free(e->service);
	}
	p->n = n;
}

const char *peers_find(const struct peers *p, const struct peer *at)
{
	struct entry key = { .at = *at };
	const struct entry *e;

	if (!p || !p->n || !at->known)
		return NULL;
	e = bsearch(&key, p->v, p->n, sizeof(*p->v), compare);
	if (!e && key.at.port) {
		key.at.port = 0;
		e = bsearch(&key, p->v, p->n, sizeof(*p->v), compare);
	}
	return e ? e->service : NULL;
}
