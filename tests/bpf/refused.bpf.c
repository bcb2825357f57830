// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* refused.bpf.c - an object that no verifier takes: it dereferences a number. */
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_helpers.h>

#include "maps.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct go_slot);
} slots SEC(".maps");

SEC("uprobe.multi")
int refused_enter(struct pt_regs *ctx)
{
	return *(int *)bpf_get_current_pid_tgid();
}
