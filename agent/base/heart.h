/* heart.h - one heartbeat a thread, read by /healthz. A thread beats at least every 10 s, also when
 * idle. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum heart { HEART_CONTROL, HEART_WORKER, HEART_EVENTS, HEART_EXPORT, HEART_METRICS, HEART_COUNT };

extern const char *const heart_names[HEART_COUNT];

void heart_beat(enum heart h);
/* True from the first beat to heart_stop(). */
bool heart_watched(enum heart h);
/* Seconds since the last beat; 0 before the thread has begun. */
double heart_age(enum heart h);
/* A thread that ends on purpose is no longer watched. */
void heart_stop(enum heart h);
