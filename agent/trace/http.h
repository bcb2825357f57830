/* http.h - what every HTTP library's decode() does in the same way (semantic conventions 1.44,
 * HTTP). Pure. */
#pragma once
#include "base/arena.h"

struct list;
struct privacy;
struct span;

/* Buckets of an HTTP library's metrics: those of durations as the conventions advise; they advise
 * none for sizes. */
extern const double http_seconds[14], http_bytes[12];
#define HTTP_SECONDS .bounds = http_seconds, .nbounds = ARRAY_SIZE(http_seconds)
#define HTTP_BYTES   .bounds = http_bytes, .nbounds = ARRAY_SIZE(http_bytes)

#define HTTP_PATH_MAX  512
#define HTTP_QUERY_MAX 512

/* Where a request target (RFC 9112, 3.2) has its path and its query; {NULL, 0} where it has none.
 */
void http_target(struct str target, struct str *path, struct str *query);
/* "host:port", "[::1]:port", "host", "::1" -> address without brackets, and the port, -1 where
 * there is none. */
struct str http_authority(struct str authority, int *port);
/* The query with REDACTED for the values of the keys to be redacted. 0; -ENOSPC: the arena is full.
 */
int http_redact(struct str *query, const struct list *keys, struct arena *arena) must_check;
/* Adds http.request.method (and _original); returns the method as span names have it: "HTTP" for an
 * unknown one. */
struct str http_method(struct span *span, struct str method, const struct list *known);
/* The route in a ServeMux pattern "[METHOD ][HOST]/[PATH]"; {NULL, 0} for none. */
struct str http_route(struct str pattern);
/* The status as error.type has it, for 400 to 599; else NULL. */
const char *http_status_error(unsigned status);

/* network.protocol.version of 10 * major + minor; what no HTTP has is 1.1. */
struct str http_version(unsigned version);

/* A request's URL as a client has it (Go's net/url.URL). */
struct http_url {
	struct str scheme, host;
	struct str path;     /* decoded */
	struct str raw_path; /* as it was written, or {NULL, 0}: encode path */
	struct str query;    /* redacted, valid UTF-8; {NULL, 0}: none */
	bool user;           /* it holds a user's name or password */
	bool opaque;         /* path is what follows "scheme:", as it stands */
};

/* url.full: as it goes over the wire, with REDACTED for name and password. 0; -ENOSPC: the arena is
 * full. */
int http_url_full(struct str *out, const struct http_url *url, struct arena *arena) must_check;
