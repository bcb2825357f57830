/* selftest.h - finds out by trying what the kernel's uprobe_multi links do: are there any, and is
 * the per-process filter exact. At start only, before the threads. */
#pragma once
#include "base/base.h"
#include "bpf/event.h"

struct attach_kernel;
struct bpf_program;

/* Hangs prog into a child of ours on a function that we run as well, and sets uprobe_multi,
 * pid_filter_exact and own_pid_namespace of *out. seen: fd of the array whose one entry, a struct
 * selftest_seen, prog writes. 0 or -errno. */
int selftest_run(struct attach_kernel *out, const struct bpf_program *prog, int seen) must_check;
/* The function that is hooked. Returns its argument. */
int selftest_place(int n);
/* Offset of a function of this program in its file. 0 or -ENOENT. */
int selftest_offset(const void *function, unsigned long *out) must_check;
