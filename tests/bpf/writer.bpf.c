// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* writer.bpf.c - puts what a test says into a ring. */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "writer.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, WRITER_RING);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct writer_record);
} record SEC(".maps");

SEC("syscall")
int write_record(const struct writer_order *order)
{
	__u32 zero = 0, size = order->size;
	struct writer_record *r = bpf_map_lookup_elem(&record, &zero);
	void *p;

	if (!r || size > sizeof(*r))
		return -1;
	if (!order->discard)
		return (int)bpf_ringbuf_output(&ring, r, size, 0);
	p = bpf_ringbuf_reserve(&ring, 24, 0);
	if (!p)
		return -1;
	bpf_ringbuf_discard(p, 0);
	return 0;
}
