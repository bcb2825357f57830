/* metrics.h - what is measured of the operations of traced programs: series by owner, instrument
 * and attributes, and where readers get them. EVENTS records, WORKER and CONTROL say whose series
 * live, any thread may collect; a lock of its own guards it, held for one run of the ring or the
 * copy of one series, never while a sink works. */
#pragma once
#include "metrics/point.h"

struct config;
struct lib;
struct metrics;
struct owner;
struct peers;
struct resource;
struct stats_page;

/* Whether the configuration has operations measured, and sent by OTLP. */
bool metrics_wanted(const struct config *cfg);
bool metrics_pushed(const struct config *cfg);

/* 0 or -errno; has logged why. */
int metrics_new(struct metrics **out, const struct config *cfg) must_check;
/* Only after all threads have ended, and all owners were put. */
void metrics_free(struct metrics **m);

/* Whose series: one service instance, told by its resource. Several processes and restarts of one
 * container are one owner. `pod` is the uid of its pod, or "". One reference. NULL: no memory, or m
 * is NULL. Any thread. */
struct owner *metrics_owner(struct metrics *m, struct resource *resource, const char *pod);
/* Drops a reference of a process. An owner without any lives on as long as its pod, see
 * metrics_pods(); without pod it ends. Any thread, not within metrics_enter(). */
void owner_put(struct owner **o);
/* Asks of every owner that no process refers to whether its pod is still to be measured, and ends
 * it if not. After each new list of pods; CONTROL. */
void metrics_pods(struct metrics *m, bool (*lives)(const char *pod, void *arg), void *arg);

/* EVENTS: around many metrics_record(). m may be NULL. */
void metrics_enter(struct metrics *m);
void metrics_leave(struct metrics *m);
/* Measures one operation of that library; times of span are Unix times. No allocation but for a
 * series that is new. */
void metrics_record(struct metrics *m, struct owner *o, uint8_t lib, const struct span *span,
		    bool sampled);

/* What waits for a span that may come waits no longer. After the last metrics_record(), before the
 * last collection. m may be NULL. */
void metrics_settle(struct metrics *m);
/* Which service answers at which address of this node's pods, see peers.h; takes *peers over.
 * CONTROL. m may be NULL. */
void metrics_peers(struct metrics *m, struct peers **peers);

/* What a reader wants. */
struct collecting {
	uint64_t now_ns; /* Unix time of this collection */
	bool delta;      /* of what came since the last collection with this, which one reader alone
			    may ask for */
	bool ended;      /* also what has ended, once: it is freed. One reader alone */
};

/* Gives every point to the sink. Any thread. */
void metrics_collect(struct metrics *m, const struct collecting *how, const struct point_sink *sink,
		     void *arg);
/* Another source of points, called by each metrics_collect() on its thread. At most 8; before the
 * threads start. */
void metrics_source(struct metrics *m,
		    void (*collect)(void *state, const struct collecting *how,
				    const struct point_sink *sink, void *arg),
		    void *state);
/* Series that are remembered. */
size_t metrics_series(struct metrics *m);
/* A collector (stats.h): series by instrument, and memory. arg is the struct metrics. */
void metrics_stats(struct stats_page *page, void *arg);
