/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * maps.h - the maps that all BPF objects share. core.bpf.c's are the real ones; the agent puts them
 * in the place of each library's by name, before it loads the library. */
#pragma once
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "event.h"
#include "stats.h"
#include "traceparent.h"

/* Events, from the probes to the agent. The agent sets the size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, KERNEL_COUNTERS);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct control);
} control SEC(".maps");

/* Adds one to a row of stats.h. Atomic: a program may be preempted by another one on the same CPU.
 */
static __always_inline void count_here(__u32 at)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &at);

	if (n)
		__sync_fetch_and_add(n, 1);
}

/* The same apart, and cold: it happens seldom, so it and what leads to it lies out of the way of
 * the code that always runs. Where requests are rare that has left the CPU's caches each time. */
#ifdef COUNT_HERE
#define count(id) count_here(COUNTER_##id)
#else
#define count(id) (void)count_at(COUNTER_##id)
__attribute__((cold, section(".text"))) GO_APART int count_at(__u32 at)
{
	count_here(at);
	return 0;
}
#endif

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
