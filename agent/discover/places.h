/* places.h - the last look at an executable before it is hooked. WORKER thread only. */
#pragma once
#include "base/base.h"

struct plan;

/* Reads from the file behind fd (O_PATH will do; it stays the caller's) what lies at each place of
 * the plan: the kernel reads it as well, holding a lock that each fork(2) on the machine waits for,
 * so it shall find it in memory. With pie, *bias is where the process has it loaded, see
 * proc_load_bias(). 0; -ETIMEDOUT: its file system does not answer; or -errno. */
int places_look(const char *proc_root, int pid, int fd, const struct plan *plan, bool pie,
		uint64_t *bias) must_check;
