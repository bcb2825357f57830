/* push.h - the METRICS thread: collects at every interval and sends what it has got to an OTLP
 * receiver. A request waits until it is taken, refused for good, or pushed out by newer ones. */
#pragma once
#include "base/base.h"

struct config;
struct metrics;
struct push;

/* 0 or -errno; has logged why. */
int push_new(struct push **out, const struct config *cfg, struct metrics *m) must_check;
int push_start(struct push *p) must_check;
/* Collects a last time, sends until nothing is left or deadline_ns (CLOCK_MONOTONIC) has passed,
 * counts the rest, joins. */
void push_stop(struct push *p, uint64_t deadline_ns);
void push_free(struct push **p);
