/* attach.h - loads the BPF objects and hangs them into processes. WORKER thread only, but for
 * attach_open() (main, before the threads start) and attach_close() (after they have ended). */
#pragma once
#include "base/base.h"
#include "bpf/event.h"
#include "trace/plan.h"

struct attach;
struct config;
struct propagate;

/* What the kernel gives us, found out by trying. */
struct attach_kernel {
	bool uprobe_multi;      /* the only way built so far; without it attach_open() fails with
				   -ENOTSUP */
	bool pid_filter_exact;  /* the self-test saw no hit of another process on the same file */
	bool exec_events;       /* the exec tracepoint is attached */
	bool own_pid_namespace; /* BPF sees other pids than /proc here: exec events are only hints
				 */
};

/* Loads core, self-tests, attaches the exec notification. 0 or -errno; has logged why. */
int attach_open(struct attach **out, const struct config *cfg) must_check;
void attach_close(struct attach **a);
const struct attach_kernel *attach_kernel(const struct attach *a);
/* fds of the two rings' maps, for ring_new() and exec_ring. */
int attach_events_fd(const struct attach *a);
int attach_exec_fd(const struct attach *a);
/* Address of the mmapped `sleeping` word that makes a probe force a wake-up. */
volatile uint32_t *attach_sleeping(const struct attach *a);
/* Bytes of locked kernel memory of all maps, from fdinfo. */
size_t attach_memory(const struct attach *a);

/* Why the library with that index (of lib_at()) is not traced anywhere, a static text, or NULL. Any
 * thread. */
const char *attach_lib_disabled(const struct attach *a, size_t lib);

/* FEATURE_* that are on: asked for, and this kernel and these rights give them. */
uint32_t attach_features(const struct attach *a);
/* Outbound trace context; NULL: not asked for. */
const struct propagate *attach_propagate(const struct attach *a);

struct attached; /* the link of one process */

#define USE_METRICS 0x80 /* its operations are measured */

/* Fills the slots of every library with a whole part, then attaches all probes in one link. pid as
 * /proc here says. exe_path names the file that the plan was made of: /proc/self/fd/N of the open
 * file and not /proc/PID/exe, for the process may have executed another one since, and probes at
 * another file's offsets would destroy it. bias is the load bias of a PIE. use: what
 * an SDK of the program's own is good for, SDK_PARENT, SDK_LEFT; USE_METRICS. nprobes: places
 * hooked. 0; -ENODATA: nothing to trace (libraries disabled, no part whole); -ESRCH: the process is
 * gone; -errno; *why a static text. */
int attach_process(struct attached **out, struct attach *a, const struct plan *p, int pid,
		   const char *exe_path, uint16_t slot, uint32_t generation, uint64_t bias,
		   uint8_t use, size_t *nprobes, const char **why) must_check;
/* Hangs its trial probes (struct go_probe) again, or takes them away: that waits for the kernel.
 * They hang from the start, if the configuration has them. 0; -ENODATA: it has none; -errno. */
int attach_trial(const struct attach *a, struct attached *attached, bool on) must_check;
bool attach_has_trial(const struct attached *attached);
/* Its probes do nothing from here on; attach_detach() is still due, and takes longer. */
void attach_silence(const struct attach *a, const struct attached *attached);
/* Closes the links (several at once share grace periods), clears the slots and purges what the
 * probes remember of them: counted. Clears the n pointers; empty ones are skipped. */
void attach_detach(struct attach *a, struct attached **list, size_t n);
/* Adds the kernel's counters (per reason) to the stats table. Any thread. */
void attach_collect_stats(struct attach *a);
