// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* translate.bpf.c - a service address that is translated in the socket, as some networks of
 * Kubernetes do it: who connects to 127.66.66.66 gets 127.0.0.1, and believes that he did not. */
#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define SERVICE bpf_htonl(0x7f424242)
#define BACKEND bpf_htonl(0x7f000001)

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} translated SEC(".maps");

SEC("cgroup/connect4")
int translate_connect4(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	__u32 *mark;

	if (ctx->user_ip4 != SERVICE || !sk)
		return 1;
	mark = bpf_sk_storage_get(&translated, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (mark)
		*mark = 1;
	ctx->user_ip4 = BACKEND;
	return 1;
}

SEC("cgroup/getpeername4")
int translate_peer4(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	if (sk && bpf_sk_storage_get(&translated, sk, 0, 0))
		ctx->user_ip4 = SERVICE;
	return 1;
}
