/* waiting.h - containers that the kubelet does not know yet, and when to ask it again: one rhythm
 * for all, so that many of them do not ask more often than one. CONTROL thread; times are
 * CLOCK_BOOTTIME. */
#pragma once
#include "base/base.h"
#include "discover/proc.h"

#define WAITING_MAX 1024

struct waiting {
	struct {
		char id[CONTAINER_ID_LEN + 1];
		uint64_t first_ns;
	} rows[WAITING_MAX];
	size_t n;
	unsigned int asks; /* since the last new one */
	uint64_t ask_ns;   /* when to ask again, 0: nothing to ask for */
};

/* Since when this container is waited for: now, when it was not before; then the rhythm begins
 * anew. With too many the oldest is forgotten. */
uint64_t waiting_add(struct waiting *w, const char *id, uint64_t now);
/* The kubelet knows it. */
void waiting_done(struct waiting *w, const char *id);
/* True when it is time to ask; `any` says whether somebody still waits. */
bool waiting_due(struct waiting *w, uint64_t now, bool any);
