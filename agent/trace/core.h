/* core.h - the BPF object that all libraries share, and the one way a probe is hung into a process.
 * WORKER thread only, but for core_open() and core_close(). */
#pragma once
#include "base/base.h"
#include "bpf/event.h"
#include "trace/attach.h"
#include "trace/keyed.h"

struct bpf_link;
struct bpf_map;
struct bpf_object;
struct bpf_program;
struct config;

struct core {
	struct bpf_object *object;
	struct bpf_program *dispatch;
	struct bpf_link *exec_link;                  /* NULL: not attached */
	int events, counters, control, progs, execs; /* fds of its maps */
	struct keyed keyed;                          /* what its maps hold of live operations */
	const struct bpf_map *pending;               /* propagation's, not ours; NULL: it is off */
	struct control *control_word;                /* mmapped */
	struct attach_kernel kernel;
};

/* Places in one file that are hooked together. */
struct core_places {
	unsigned long *offsets; /* in the file */
	uint64_t *cookies;
	size_t n;
};

/* Loads, self-tests, attaches the exec notification. 0 or -errno; has logged why. */
int core_open(struct core *c, const struct config *cfg) must_check;
void core_close(struct core *c);
/* The map of core's that is to be in the place of a library's `map`, or NULL: it is the library's
 * own. */
const struct bpf_map *core_map(const struct core *c, const struct bpf_map *map);
/* A process begins in that slot: it has no live operations. 0 or -errno. */
int core_begin(const struct core *c, uint16_t slot) must_check;
/* Bytes of locked kernel memory of an object's own maps, from fdinfo. */
size_t core_memory(const struct core *c, const struct bpf_object *object);
/* All places of one file, for one process, in one link. 0 or -errno. */
int core_link(struct bpf_link **out, const struct bpf_program *prog, int pid, const char *path,
	      const struct core_places *places) must_check;
/* Why core_link() failed, as a sentence; static. */
const char *core_link_text(int err);
