/* peers.h - which service answers at an address of this node's pods: right, or absent. CONTROL
 * makes it of each new list of pods; immutable from then on, read under the lock of metrics.c. */
#pragma once
#include "base/base.h"

/* An address and port; v4 in its mapped form. Port 0: any, or not known. */
struct peer {
	uint8_t ip[16];
	uint16_t port;
	bool known;
};

/* Of the text of an address; not known where it is none. */
struct peer peer_of(struct str ip, int64_t port);

struct peers;

/* 0 or -ENOMEM. */
int peers_new(struct peers **out) must_check;
void peers_free(struct peers **p);
/* The service at that address; with port 0 at all of its ports that have no entry of their own.
 * Where two services claim the same, neither has it. service is copied; NULL: somebody whose name
 * is not known. 0 or -ENOMEM. */
int peers_add(struct peers *p, struct peer at, const char *service) must_check;
/* After the last peers_add(). */
void peers_sort(struct peers *p);
/* NULL: not known. p may be NULL. */
const char *peers_find(const struct peers *p, const struct peer *at);
