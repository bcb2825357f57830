/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * writer.h - contract of writer.bpf.c with its test. */
#pragma once
#include <linux/types.h>

#define WRITER_RING (64u << 10)

struct writer_order {
	__u32 size; /* bytes of the record that are sent */
	__u32 discard;
};

struct writer_record {
	__u8 bytes[40 << 10];
};
