/* library.h - the BPF object of one traced library: its programs behind the dispatcher, its slots,
 * what it remembers. WORKER thread only, but for the start. */
#pragma once
#include "base/base.h"
#include "bpf/event.h"
#include "trace/lib.h"

struct bpf_map;
struct bpf_object;
struct config;
struct core;
struct plan_lib;

/* So many hash maps may a library have. */
#define LIBRARY_MAPS_MAX 16

struct library {
	const struct lib *lib;
	struct bpf_object *object; /* NULL: not loaded */
	int slots;
	struct bpf_map *shares; /* NULL: it remembers nothing */
	/* What the probes remember, keyed by slot first. */
	struct library_map {
		int fd;
		uint32_t key_size, value_size;
		bool operations; /* *_ops: the value begins with a __u32 that is not 0 while it is
				    open */
	} maps[LIBRARY_MAPS_MAX];
	size_t nmaps;
};

/* Loads the library's object and puts its programs behind the dispatcher at place idx. 0 or -errno,
 * *why a static sentence. Logs the verifier's last words at level debug. */
int library_load(struct library *out, const struct lib *lib, size_t idx, const struct core *core,
		 const struct config *cfg, const char **why) must_check;
void library_close(struct library *l);
/* Tells the probes about one process: shared is what all libraries have in common, plan what this
 * one found. 0 or -errno. */
int library_fill(const struct library *l, uint16_t slot, const struct go_slot *shared,
		 const struct plan_lib *plan) must_check;
/* The probes do nothing any more for that slot. */
void library_clear(const struct library *l, uint16_t slot);
/* Deletes what the probes remember of the slots for which gone[slot] is not 0, and calls open(slot,
 * arg) for each operation among it that was open. Only after their links are closed. */
void library_purge(const struct library *l, const uint8_t *gone,
		   void (*open)(uint16_t slot, void *arg), void *arg);
