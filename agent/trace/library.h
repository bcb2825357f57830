/* library.h - the BPF object of one traced library: its programs behind the dispatcher, its slots,
 * what it remembers. WORKER thread only, but for the start. */
#pragma once
#include "base/base.h"
#include "bpf/event.h"
#include "trace/keyed.h"
#include "trace/lib.h"

struct bpf_map;
struct bpf_object;
struct config;
struct core;
struct plan_lib;
struct plan_place;

struct library {
	const struct lib *lib;
	struct bpf_object *object; /* NULL: not loaded */
	int slots;
	struct bpf_map *shares; /* NULL: it remembers nothing */
	struct bpf_map *exits;  /* NULL: it knows of RETs only */
	struct keyed keyed;     /* what the probes remember */
};

/* Loads the library's object, as far as these FEATURE_* need it, and puts its programs behind the
 * dispatcher at place idx. 0 or -errno, *why a static sentence. Logs the verifier's last words at
 * level debug. */
int library_load(struct library *out, const struct lib *lib, size_t idx, const struct core *core,
		 const struct config *cfg, uint32_t features, const char **why) must_check;
/* Programs of features that are off stay out of the kernel, which might not take them. Before the
 * object is loaded. */
void library_leave_out(struct bpf_object *object, const struct lib *lib, uint32_t features);
void library_close(struct library *l);
/* What the probes of a process that was loaded with that bias know of its SDK's spans (as linked,
 * from the plan) where it is used like that (SDK_*). */
void library_share_sdk(struct go_sdk *sdk, uint8_t use, uint64_t bias);
/* Tells the probes about one process: shared is what all libraries have in common, plan what this
 * one found. 0 or -errno. */
int library_fill(const struct library *l, uint16_t slot, const struct go_slot *shared,
		 const struct plan_lib *plan) must_check;
/* Tells the probes what is where at a place where a function ends, see struct plan_place. 0 or
 * -errno. */
int library_add_exit(const struct library *l, uint16_t slot, uint64_t bias,
		     const struct plan_place *place) must_check;
/* The probes do nothing any more for that slot. */
void library_clear(const struct library *l, uint16_t slot);
