/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * The cheapest programs that a uprobe can run: one does nothing, one counts. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

SEC("uprobe.multi")
int empty(void *ctx)
{
	return 0;
}

SEC("uprobe.multi")
int count(void *ctx)
{
	__u32 i = bpf_get_attach_cookie(ctx) & 15;
	__u64 *v = bpf_map_lookup_elem(&hits, &i);

	if (v)
		*v += 1;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
