/* pages.h - a small HTTP server of pages, on a thread of its own (libmicrohttpd's), which strangers
 * cannot use up. */
#pragma once
#include "base/base.h"

#include <stdio.h>

struct MHD_Connection;
struct pages;

/* A request for a page, which writes the body to f and sets what differs from 200 and plain text.
 */
struct page_request {
	void *arg;
	uint16_t port; /* of the server */
	struct MHD_Connection *connection;
	unsigned status;
	const char *type; /* Content-Type, a text that stays */
	FILE *f;
};

struct page {
	const char *path;
	void (*get)(struct page_request *r); /* NULL: the list of pages */
	const char *what;                    /* for that list, one line */
};

/* All pages of a server. */
struct pages_of {
	const char *name; /* of its options: NAME.listen, NAME.port */
	const struct page *v;
	size_t n;
};

/* Listens and begins to answer. port 0: any free one. 0 or -errno; has logged why. */
int pages_start(struct pages **out, const struct pages_of *of, const char *address, uint32_t port,
		void *arg) must_check;
/* The port that was chosen. */
uint16_t pages_port(const struct pages *p);
/* Ends the thread, after what is being answered. */
void pages_stop(struct pages **p);

/* A header of the request, "" without. */
const char *page_header(const struct page_request *r, const char *name);
/* Whether the peer is on this machine's loopback address and asks for it by that name. */
bool page_is_local(const struct page_request *r);
