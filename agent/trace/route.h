/* route.h - the route of a request that went through http.ServeMuxes one inside the other (Go >=
 * 1.22: net/http/pattern.go, routing_tree.go). Pure. */
#pragma once
#include "base/arena.h"

/* What one mux found. */
struct route_step {
	struct str pattern; /* "[METHOD ][HOST]/[PATH]" */
	size_t path_len;    /* bytes of Request.URL.Path as it saw it, ROUTE_SAME: as it came */
};
#define ROUTE_SAME SIZE_MAX

/* True: the pattern's path part matches the path (percent-encoded, as on the request line, clean).
 */
bool route_matches(struct str pattern, struct str path);
/* The route of the whole path through n muxes, the outermost first: the innermost pattern, behind
 * what was stripped off the path on the way (http.StripPrefix), as the outer patterns have it. As
 * far as path and patterns agree: a path that was rewritten ends it. {NULL, 0}: not even the first
 * mux saw the path that came, or a part of it. 0; -ENOSPC: the arena is full. */
int route_join(const struct route_step *steps, size_t n, struct str path, struct arena *arena,
	       struct str *out) must_check;
