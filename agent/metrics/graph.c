#include "metrics/graph.h"

#include "base/stats.h"
#include "pipeline/resource.h"
#include "trace/span.h"

#include <sys/random.h>

#define NONE     UINT32_MAX
#define NAME_MAX 256 /* of a host: at most 253 */

/* The span that asked, or is asked for: trace id, and the id of the client's span. */
struct key {
	uint8_t trace_id[16], span_id[8];
};

/* Half a request. */
struct half {
	struct key key;
	uint32_t same;           /* the next one in its bucket, or that is free */
	uint32_t older, younger; /* in the order of their coming */
	uint64_t since_ns;
	uint64_t start_ns, end_ns;
	uint8_t span_id[8];   /* its own */
	struct owner *client; /* NULL: it is the server's half */
	struct resource *of;  /* whose span it is. A reference */
	struct peer peer;     /* the client's: whom it asked */
	bool failed, sampled, messaging;
	uint16_t nname;
	char name[NAME_MAX]; /* the client's: what it calls whom it asked */
};

struct graph {
	graph_done *done;
	void *arg;
	struct peers *peers;
	uint64_t now_ns, seed;
	uint32_t oldest, youngest, free;
	uint32_t most, used; /* of halves: those beyond were never touched */
	uint32_t nbuckets;   /* a power of two */
	uint32_t *buckets;
	struct half *halves;
};

int graph_new(struct graph **out, size_t most, graph_done *done, void *arg)
{
	__attribute__((cleanup(graph_free))) struct graph *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	*g = (struct graph){ .done = done,
			     .arg = arg,
			     .oldest = NONE,
			     .youngest = NONE,
			     .free = NONE,
			     .most = (uint32_t)most,
			     .nbuckets = 1 };
	if (getrandom(&g->seed, sizeof(g->seed), GRND_NONBLOCK) < 0)
		g->seed = (uintptr_t)g;
	while (g->nbuckets < most)
		g->nbuckets *= 2;
	g->buckets = malloc(g->nbuckets * sizeof(*g->buckets));
	g->halves = calloc(most, sizeof(*g->halves));
	if (!g->buckets || !g->halves)
		return -ENOMEM;
	memset(g->buckets, 0xff, g->nbuckets * sizeof(*g->buckets));
	*out = take(g);
	return 0;
}

void graph_free(struct graph **p)
{
	struct graph *g = take(*p);

	if (!g)
		return;
	for (uint32_t i = g->oldest; i != NONE; i = g->halves[i].younger)
		resource_put(&g->halves[i].of);
	peers_free(&g->peers);
	free(g->buckets);
	free(g->halves);
	free(g);
}

size_t graph_bytes(const struct graph *g)
{
	return sizeof(*g) + g->nbuckets * sizeof(*g->buckets) + g->most * sizeof(*g->halves);
}

void graph_peers(struct graph *g, struct peers **peers)
{
	peers_free(&g->peers);
	g->peers = take(*peers);
}

/* ---- those that wait ---- */

/* Ids come from whoever calls a program: that all of them fall into one bucket must not be up to
 * him. */
static uint32_t *bucket_of(const struct graph *g, const struct key *key)
{
	uint64_t words[3], h = g->seed;

	memcpy(words, key, sizeof(words));
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		h = (h ^ words[i]) * 0x9fb21c651e98df25ull;
		h ^= h >> 32;
	}
	return &g->buckets[h & (g->nbuckets - 1)];
}

static struct half *find(const struct graph *g, const struct key *key)
{
	for (uint32_t i = *bucket_of(g, key); i != NONE; i = g->halves[i].same)
		if (memcmp(&g->halves[i].key, key, sizeof(*key)) == 0)
			return &g->halves[i];
	return NULL;
}

static void unlink_half(struct graph *g, struct half *h)
{
	uint32_t idx = (uint32_t)(h - g->halves), *at = bucket_of(g, &h->key);

	while (*at != idx)
		at = &g->halves[*at].same;
	*at = h->same;
	*(h->older == NONE ? &g->oldest : &g->halves[h->older].younger) = h->younger;
	*(h->younger == NONE ? &g->youngest : &g->halves[h->younger].older) = h->older;
	resource_put(&h->of);
	h->same = g->free;
	g->free = idx;
	stat_add(graph_waiting, (uint64_t)-1);
}

static void link_half(struct graph *g, struct half *h)
{
	uint32_t idx = (uint32_t)(h - g->halves), *at = bucket_of(g, &h->key);

	h->same = *at;
	*at = idx;
	h->older = g->youngest;
	h->younger = NONE;
	*(g->youngest == NONE ? &g->oldest : &g->halves[g->youngest].younger) = idx;
	g->youngest = idx;
	h->since_ns = g->now_ns;
	stat_add(graph_waiting, 1);
}

static struct half *get_half(struct graph *g)
{
	uint32_t idx = g->free;

	if (idx == NONE)
		return &g->halves[g->used++];
	g->free = g->halves[idx].same;
	return &g->halves[idx];
}

/* ---- what becomes of them ---- */

static double seconds(const struct half *h)
{
	return (double)(h->end_ns - h->start_ns) / 1e9;
}

static struct str service_of(const struct half *h)
{
	return str_of(h->of->service ? h->of->service : "");
}

static void tell(const struct graph *g, const struct half *h, struct edge *e)
{
	struct span as = { .start_ns = h->start_ns, .end_ns = h->end_ns };

	memcpy(as.trace_id, h->key.trace_id, sizeof(as.trace_id));
	memcpy(as.span_id, h->span_id, sizeof(as.span_id));
	e->as = &as;
	e->sampled = h->sampled;
	g->done(g->arg, e);
}

static void tell_joined(const struct graph *g, const struct half *client, const struct half *server)
{
	struct edge e = { .owner = client->client,
			  .client = service_of(client),
			  .server = service_of(server),
			  .type = client->messaging || server->messaging ? "messaging_system" : "",
			  .client_s = seconds(client),
			  .server_s = seconds(server),
			  .failed = client->failed || server->failed };

	stat_add(graph_joined, 1);
	tell(g, client, &e);
}

/* Whom the client asked, by address or name. False: that is not known. */
static bool name_server(const struct graph *g, const struct half *h, struct str *out)
{
	const char *service = peers_find(g->peers, &h->peer);

	*out = service ? str_of(service) : (struct str){ h->name, h->nname };
	if (service)
		stat_add(graph_address, 1);
	else if (h->nname)
		stat_add(graph_name, 1);
	else
		stat_add(graph_unnamed, 1);
	return out->n > 0;
}

/* The client's half alone. */
static void tell_asked(const struct graph *g, const struct half *h, const char *type)
{
	struct edge e = { .owner = h->client,
			  .client = service_of(h),
			  .type = type,
			  .client_s = seconds(h),
			  .server_s = -1,
			  .failed = h->failed };

	if (name_server(g, h, &e.server))
		tell(g, h, &e);
}

/* Nobody waits for it any longer. A server whose client is not known counts nothing: the agent that
 * traces the client does. */
static void give_up(struct graph *g, struct half *h)
{
	if (!h->client)
		stat_add(graph_remote, 1);
	else
		tell_asked(g, h, h->messaging ? "messaging_system" : "virtual_node");
	unlink_half(g, h);
}

void graph_tick(struct graph *g, uint64_t now_ns)
{
	g->now_ns = now_ns;
	while (g->oldest != NONE && now_ns - g->halves[g->oldest].since_ns >= GRAPH_WAIT_NS)
		give_up(g, &g->halves[g->oldest]);
}

void graph_settle(struct graph *g, const struct owner *o)
{
	uint32_t next;

	for (uint32_t i = g->oldest; i != NONE; i = next) {
		next = g->halves[i].younger;
		if (!o || g->halves[i].client == o)
			give_up(g, &g->halves[i]);
	}
}

/* ---- spans ---- */

static bool is_root(const struct span *span)
{
	static const uint8_t nobody[sizeof(span->parent_id)];

	return memcmp(span->parent_id, nobody, sizeof(nobody)) == 0;
}

static struct str text_at(const struct span *span, const char *key)
{
	const struct attr *a = span_attr(span, key);

	return a && a->type == ATTR_STR ? a->s : (struct str){ NULL, 0 };
}

static bool is_database(const struct span *span)
{
	return span_attr(span, "db.system.name") || span_attr(span, "db.namespace") ||
	       span_attr(span, "db.system") || span_attr(span, "db.name");
}

static int64_t number_at(const struct span *span, const char *key)
{
	const struct attr *a = span_attr(span, key);

	return a && a->type == ATTR_INT ? a->i : 0;
}

/* Whom a client's span asked. A name that does not fit is none; one that is an address is as good
 * as the peer's, which is not always known. */
static void read_peer(struct half *h, const struct span *span)
{
	static const char *const names[] = {
		"peer.service", "server.address", "network.peer.address",
		"db.namespace", "db.name",        "messaging.destination.name"
	};

	h->peer = peer_of(text_at(span, "network.peer.address"),
			  number_at(span, "network.peer.port"));
	if (!h->peer.known)
		h->peer = peer_of(text_at(span, "server.address"), number_at(span, "server.port"));
	h->nname = 0;
	for (size_t i = 0; i < ARRAY_SIZE(names) && !h->nname; i++) {
		struct str name = text_at(span, names[i]);

		if (name.n && name.n <= sizeof(h->name)) {
			memcpy(h->name, name.p, name.n);
			h->nname = (uint16_t)name.n;
		}
	}
}

static void fill(struct half *h, struct owner *o, struct resource *of, const struct span *span,
		 bool sampled)
{
	bool server = span->kind == SPAN_SERVER || span->kind == SPAN_CONSUMER;

	memcpy(h->key.trace_id, span->trace_id, sizeof(h->key.trace_id));
	memcpy(h->key.span_id, server ? span->parent_id : span->span_id, sizeof(h->key.span_id));
	memcpy(h->span_id, span->span_id, sizeof(h->span_id));
	h->start_ns = span->start_ns;
	h->end_ns = span->end_ns;
	h->client = server ? NULL : o;
	h->of = of;
	h->failed = span->status == SPAN_ERROR;
	h->sampled = sampled;
	h->messaging = span->kind == SPAN_PRODUCER || span->kind == SPAN_CONSUMER;
	h->nname = 0;
	if (!server)
		read_peer(h, span);
}

static void tell_user(const struct graph *g, struct owner *o, const struct half *h)
{
	struct edge e = { .owner = o,
			  .client = str_of("user"),
			  .server = service_of(h),
			  .type = "virtual_node",
			  .client_s = -1,
			  .server_s = seconds(h),
			  .failed = h->failed };

	stat_add(graph_user, 1);
	tell(g, h, &e);
}

/* A database tells nothing itself: what it took is what its client waited. */
static void tell_database(const struct graph *g, const struct half *h)
{
	struct edge e = { .owner = h->client,
			  .client = service_of(h),
			  .type = "database",
			  .client_s = seconds(h),
			  .server_s = seconds(h),
			  .failed = h->failed };

	if (name_server(g, h, &e.server))
		tell(g, h, &e);
}

/* Takes the oldest one's place where there is no other. */
static void wait_for_other(struct graph *g, const struct half *now)
{
	struct half *h;

	if (g->free == NONE && g->used == g->most) {
		stat_add(graph_early, 1);
		give_up(g, &g->halves[g->oldest]);
	}
	h = get_half(g);
	*h = *now;
	(void)resource_ref(h->of);
	link_half(g, h);
}

void graph_add(struct graph *g, struct owner *o, struct resource *of, const struct span *span,
	       bool sampled)
{
	struct half now, *other;

	if (span->kind < SPAN_SERVER || span->kind > SPAN_CONSUMER)
		return;
	fill(&now, o, of, span, sampled);
	if (!now.client && is_root(span)) {
		tell_user(g, o, &now);
		return;
	}
	if (span->kind == SPAN_CLIENT && is_database(span)) {
		tell_database(g, &now);
		return;
	}
	other = find(g, &now.key);
	if (other && !other->client != !now.client) {
		tell_joined(g, now.client ? &now : other, now.client ? other : &now);
		unlink_half(g, other);
		return;
	}
	if (other) /* a second one of the same request, or ids that are not random */
		give_up(g, other);
	wait_for_other(g, &now);
}
