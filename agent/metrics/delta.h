/* delta.h - makes deltas of the points that are always cumulative (struct point): remembers what a
 * counter or histogram was at the collection before, and passes on what has come since. Stands
 * between a collection and the sink that wants deltas; METRICS thread only. */
#pragma once
#include "metrics/point.h"

struct delta;

/* now_ns (Unix time): what begins later is told from its beginning, what is older from when it is
 * seen first, as somebody else may have told the rest. 0 or -ENOMEM. */
int delta_new(struct delta **out, uint64_t now_ns) must_check;
void delta_free(struct delta **d);
/* Between the two, points are given to delta_sink, whose arg is the struct delta, and go on to that
 * sink. Points of a kind that knows no delta (UPDOWN, GAUGE), and those that are deltas, as they
 * are. */
void delta_begin(struct delta *d, const struct point_sink *to, void *arg);
/* Forgets what was not seen. Returns the points that were lost as there was no memory. */
size_t delta_end(struct delta *d, uint64_t now_ns);
extern const struct point_sink delta_sink;
