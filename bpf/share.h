/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * share.h - what a library remembers of a process, it remembers through these two: each process has
 * its share of the room, or one with thousands of idle connections would take what others need. */
#pragma once
#include "maps.h"

/* Entries that one process may have in all of a library's maps of operations together;
 * operations.max_per_process. */
const volatile __s32 share_max = 4096;

/* How many each has, by slot. The agent sets the size, and a slot's number to 0 before it attaches.
 * A line of the cache each: these are written with every connection, by every CPU. */
struct share {
	__s32 held; /* below 0: what was left of a slot's last owner went, too */
	__u32 pad[15];
};
_Static_assert(sizeof(struct share) == SHARE_SIZE, "the agent writes it");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct share);
} shares SEC(".maps");

/* A first entry of that key. 0, or not 0: there is one, or no room; not counted. */
static __always_inline int share_add(void *map, const struct op_key *k, const void *value)
{
	__u32 at = k->slot;
	struct share *s = bpf_map_lookup_elem(&shares, &at);

	if (!s)
		return -1;
	if (__sync_fetch_and_add(&s->held, 1) < share_max &&
	    !bpf_map_update_elem(map, k, value, BPF_NOEXIST))
		return 0;
	__sync_fetch_and_add(&s->held, -1);
	return -1;
}

/* An entry of that key, in the place of an older one if there is one. 0, or not 0: no room,
 * counted.
 */
static __always_inline int share_put(void *map, const struct op_key *k, const void *value)
{
	__u32 at = k->slot;
	struct share *s = bpf_map_lookup_elem(&shares, &at);
	__s32 held;

	if (!s)
		return -1;
	held = __sync_fetch_and_add(&s->held, 1);
	if (held < share_max && !bpf_map_update_elem(map, k, value, BPF_NOEXIST))
		return 0;
	__sync_fetch_and_add(&s->held, -1);
	if (!bpf_map_update_elem(map, k, value, BPF_EXIST))
		return 0;
	if (held < share_max)
		count(ops_no_room);
	else
		count(ops_no_share);
	return -1;
}

static __always_inline void share_drop(void *map, const struct op_key *k)
{
	__u32 at = k->slot;
	struct share *s;

	if (bpf_map_delete_elem(map, k))
		return;
	s = bpf_map_lookup_elem(&shares, &at);
	if (s)
		__sync_fetch_and_add(&s->held, -1);
}

/* So many entries a process may leave behind, not open, for its next operations of the same keys.
 * The agent sets it: a small part of its share, and so few that all processes together fill no map.
 */
const volatile __s32 share_idle = 0;

/* The operation of that key has ended. Its entry stays or goes; value begins with what says whether
 * it is open. */
static __always_inline void share_rest(void *map, const struct op_key *k, __u32 *active)
{
	__u32 at = k->slot;
	struct share *s = bpf_map_lookup_elem(&shares, &at);

	*(volatile __u32 *)active = 0;
	if (unlikely(!s || s->held > share_idle))
		share_drop(map, k);
}
