/* graph.h - requests between services: the client's span and the server's that it is the parent of,
 * whichever comes first. Each is counted where its client is, or, where it has none, its server; so
 * that of the agents of several nodes never two count the same. Under the lock of metrics.c.
 *
 * Names, labels and what becomes of a half alone are those of the service graphs processor of
 * Tempo's metrics generator (grafana/tempo, modules/generator/processor/servicegraphs/
 * servicegraphs.go and config.go); docs/metrics.md says in what it differs. */
#pragma once
#include "metrics/peers.h"

struct owner;
struct resource;
struct span;

/* Requests that wait at a time, and how long. */
#define GRAPH_EDGES   10000
#define GRAPH_WAIT_NS 10000000000ull

/* One request, with all that will ever be known of it. Valid during the call. */
struct edge {
	struct owner *owner; /* whose series count it */
	struct str client, server;
	const char *type;          /* label connection_type: "", "messaging_system", "database",
				      "virtual_node" */
	double client_s, server_s; /* below 0: not known */
	bool failed;
	const struct span *as; /* the ids of the span that stands for it, its times as Unix time */
	bool sampled;          /* that span is sent */
};

typedef void graph_done(void *arg, const struct edge *e);

struct graph;

/* Has room for so many that wait. 0 or -ENOMEM. */
int graph_new(struct graph **out, size_t most, graph_done *done, void *arg) must_check;
/* What waits is forgotten. */
void graph_free(struct graph **g);
/* What it may look an address up in; takes *peers over. */
void graph_peers(struct graph *g, struct peers **peers);
/* One span of that owner; it is looked at if it is one half of a request. */
void graph_add(struct graph *g, struct owner *o, struct resource *of, const struct span *span,
	       bool sampled);
/* CLOCK_MONOTONIC: what has waited for GRAPH_WAIT_NS waits no longer. */
void graph_tick(struct graph *g, uint64_t now_ns);
/* Nothing of that owner waits any longer; NULL: nothing at all. */
void graph_settle(struct graph *g, const struct owner *o);
/* Bytes that it takes at most. */
size_t graph_bytes(const struct graph *g);
