// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* core.bpf.c - what every library stands on: the shared maps, the one program that is attached to
 * processes, and the notification of execve. Needs CAP_BPF and CAP_PERFMON and no kernel type. */
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_helpers.h>

#define COUNT_HERE    /* there are no functions that are called, and none is wanted beside a tail  \
			 call */
#include "live.h"
#include "maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Programs of the libraries, see progs_index(). */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, PROGS_MAX);
	__type(key, __u32);
	__type(value, __u32);
} progs SEC(".maps");

/* struct exec_event, from the kernel to the control thread. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} execs SEC(".maps");

struct selftest_seen seen;

/* Every probe of every process comes in here: a process has one link, whatever libraries it uses.
 */
SEC("uprobe.multi")
int dispatch(struct pt_regs *ctx)
{
	__u64 bits = bpf_get_attach_cookie(ctx);
	struct cookie cookie;

	__builtin_memcpy(&cookie, &bits, sizeof(cookie));
	bpf_tail_call(ctx, &progs, progs_index(cookie.lib, cookie.probe));
	count(hits_no_program);
	return 0;
}

/* Hung into the agent itself when it starts. */
SEC("uprobe.multi")
int self_test(struct pt_regs *ctx)
{
	seen.pid = bpf_get_current_pid_tgid() >> 32;
	__sync_fetch_and_add(&seen.hits, 1);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int on_exec(void *ctx)
{
	struct exec_event *ev = bpf_ringbuf_reserve(&execs, sizeof(*ev), 0);

	if (!ev) {
		count(exec_missed);
		return 0;
	}
	ev->pid = bpf_get_current_pid_tgid() >> 32;
	ev->pad = 0;
	ev->time_ns = bpf_ktime_get_boot_ns();
	bpf_ringbuf_submit(ev, 0);
	return 0;
}
