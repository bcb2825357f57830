/* keyed.h - what the probes remember: hash maps of a BPF object whose keys begin with the slot, so
 * that what belongs to a process can be deleted when it ends. WORKER thread only. */
#pragma once
#include "base/base.h"

struct bpf_map;
struct bpf_object;

/* So many hash maps may an object have. */
#define KEYED_MAX 16

struct keyed {
	struct keyed_map {
		int fd;
		uint32_t key_size, value_size;
		bool operations; /* *_ops: the value begins with a __u32 that is not 0 while it is
				    open */
	} maps[KEYED_MAX];
	size_t n;
};

/* Whether a hash map holds operations, by its name. */
bool keyed_is_ops(const struct bpf_map *map);
/* Adds a map, if it is a hash map. 0; -EINVAL: its keys or values are too small, or it is one too
 * many. */
int keyed_add(struct keyed *k, const struct bpf_map *map) must_check;
/* Deletes the keys of the slots for which gone[slot] is not 0, and calls open(slot, arg) for each
 * operation among them that was open. Only after their links are closed. */
void keyed_purge(const struct keyed *k, const uint8_t *gone, void (*open)(uint16_t slot, void *arg),
		 void *arg);
