/* ringbuf.h - the agent's end of a BPF ring buffer (BPF_MAP_TYPE_RINGBUF), for one thread. Maps the
 * ring's memory once; libbpf's maps it twice, and all of it counts as memory of the process. */
#pragma once
#include "base/base.h"

struct ringbuf;

/* False: enough for now. The record is used up in either case. */
typedef bool (*ringbuf_take)(void *arg, const void *data, size_t size);

/* fd: the map, which stays the caller's and becomes readable when the kernel wakes us. 0 or -errno.
 */
int ringbuf_open(struct ringbuf **out, int fd) must_check;
void ringbuf_close(struct ringbuf **r);
/* Hands out records until there is none, one is not finished yet, or enough were taken; true: none
 * is left. A record that lies across the end of the ring and is longer than RINGBUF_LONGEST is
 * handed out with size 0. */
bool ringbuf_read(struct ringbuf *r, ringbuf_take fn, void *arg);
/* Bytes that were ever written, and read. */
unsigned long ringbuf_written(const struct ringbuf *r);
unsigned long ringbuf_done(const struct ringbuf *r);

#define RINGBUF_LONGEST (32u << 10)
