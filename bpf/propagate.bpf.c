// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* propagate.bpf.c - puts a traceparent line into requests of HTTP/1 that traced processes write. It
 * knows sockets and bytes, not libraries: a probe has said what is about to be written on which
 * connection (go_propagate.bpf.h), and write(2) on that connection finds it here.
 *
 * Rules, each of them a test: only sockets of traced processes; only where the bytes are those that
 * the probe has announced; only while nothing is in flight; whatever does not fit goes out as the
 * program wrote it.
 *
 * The one object that reads kernel structs: four fields, by CO-RE. */
#include <linux/bpf.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "maps.h"
#include "propagate.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define AF_INET   2
#define AF_INET6  10
#define TCP       6
#define STATE_END 7 /* TCP_CLOSE */

/* A request that has not been written for so long: whoever announced it has forgotten it. Bodies
 * that come slowly hold back their headers, so this is long. */
#define MAX_AGE_NS 60000000000ULL

/* bufio.Writer's size: what net/http's first write of a request holds, unless the program chose
 * another one. */
#define SCAN_MAX  4096
#define SCAN_STEP 16
#define JOIN_MAX  (2 * SCAN_MAX)

/* A send buffer that surely takes the first SCAN_MAX bytes of an idle connection, whatever the size
 * of segments. */
#define SNDBUF_MIN 16384

/* Socket cookie -> socket: the outgoing connections of traced processes. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u64);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct propagate_socket);
} owners SEC(".maps");

/* The traced processes by their number in the first PID namespace. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct propagate_socket);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct propagate_key);
	__type(value, struct propagate_pending);
} pending SEC(".maps");

/* ---- which process is it ---- */

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct task_struct {
	int tgid;
} __attribute__((preserve_access_index));

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

/* Asked for one process by its pidfd: its number in the first PID namespace, which is what
 * connect(2) is seen with, and which an agent in another namespace cannot know. */
SEC("iter/task")
int propagate_who(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	int tgid;

	if (!task)
		return 0;
	tgid = task->tgid;
	bpf_seq_write(ctx->meta->seq, &tgid, sizeof(tgid));
	return 0;
}

/* ---- sockets: the outgoing connections of traced processes, and no others ----
 *
 * A pod's control group holds other programs as well, and a socket in a map is not quite a plain
 * socket (FIONREAD), so connect(2), which runs on the caller's thread, marks the socket, and the
 * callback takes marked ones only. */

static __always_inline int mark(struct bpf_sock_addr *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct propagate_socket *process, *owner;
	struct bpf_sock *sk = ctx->sk;

	if (!sk || sk->protocol != TCP)
		return 1;
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (!process)
		return 1;
	owner = bpf_sk_storage_get(&owners, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!owner)
		return 1;
	owner->slot = process->slot;
	owner->generation = process->generation;
	owner->since_ns = ~0ULL; /* not in the map yet */
	return 1;
}

SEC("cgroup/connect4")
int propagate_connect4(struct bpf_sock_addr *ctx)
{
	return mark(ctx);
}

SEC("cgroup/connect6")
int propagate_connect6(struct bpf_sock_addr *ctx)
{
	return mark(ctx);
}

static __always_inline int is_mapped(const __u32 ip[4])
{
	return ip[0] == 0 && ip[1] == 0 && ip[2] == bpf_htonl(0xffff);
}

/* IPv4 addresses are IPv4 addresses, also on a socket of IPv6. */
static __always_inline void set_addresses(struct propagate_key *k, __u32 family)
{
	k->family = PROPAGATE_IPV6;
	if (family == AF_INET) {
		k->family = PROPAGATE_IPV4;
	} else if (is_mapped(k->local) && is_mapped(k->remote)) {
		k->family = PROPAGATE_IPV4;
		k->local[0] = k->local[3];
		k->remote[0] = k->remote[3];
		k->local[2] = k->local[3] = k->remote[2] = k->remote[3] = 0;
	}
}

static __always_inline void set_peer(struct propagate_key *k, const struct propagate_socket *owner)
{
	if (owner->peer_family != k->family)
		return;
	__builtin_memcpy(k->remote, owner->peer, sizeof(k->remote));
	k->ports = (k->ports & 0xffff0000) | (owner->peer_port & 0xffff);
}

/* Both contexts have these fields, under the same names; each must be read at its place. */
#define READ_KEY(k, owner, ctx)                                                                    \
	do {                                                                                       \
		(k)->slot = (owner)->slot;                                                         \
		(k)->generation = (owner)->generation;                                             \
		(k)->ports = (ctx)->local_port << 16 | (bpf_ntohl((ctx)->remote_port) & 0xffff);   \
		if ((ctx)->family == AF_INET) {                                                    \
			(k)->local[0] = (ctx)->local_ip4;                                          \
			(k)->remote[0] = (ctx)->remote_ip4;                                        \
		} else {                                                                           \
			(k)->local[0] = (ctx)->local_ip6[0];                                       \
			(k)->local[1] = (ctx)->local_ip6[1];                                       \
			(k)->local[2] = (ctx)->local_ip6[2];                                       \
			(k)->local[3] = (ctx)->local_ip6[3];                                       \
			(k)->remote[0] = (ctx)->remote_ip6[0];                                     \
			(k)->remote[1] = (ctx)->remote_ip6[1];                                     \
			(k)->remote[2] = (ctx)->remote_ip6[2];                                     \
			(k)->remote[3] = (ctx)->remote_ip6[3];                                     \
		}                                                                                  \
		set_addresses((k), (ctx)->family);                                                 \
		set_peer((k), (owner));                                                            \
	} while (0)

/* What getpeername(2) is about to tell the program: it asks once, when it is connected, and names
 * its connections by the answer. */
static __always_inline struct propagate_socket *asked(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;

	return sk && sk->protocol == TCP ? bpf_sk_storage_get(&owners, sk, 0, 0) : NULL;
}

SEC("cgroup/getpeername4")
int propagate_peer4(struct bpf_sock_addr *ctx)
{
	struct propagate_socket *owner = asked(ctx);

	if (!owner)
		return 1;
	owner->peer[0] = ctx->user_ip4;
	owner->peer_port = bpf_ntohs(ctx->user_port);
	owner->peer_family = PROPAGATE_IPV4;
	return 1;
}

SEC("cgroup/getpeername6")
int propagate_peer6(struct bpf_sock_addr *ctx)
{
	struct propagate_socket *owner = asked(ctx);
	__u32 ip[4] = { ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3] };

	if (!owner)
		return 1;
	owner->peer_family = PROPAGATE_IPV6;
	if (is_mapped(ip)) {
		owner->peer_family = PROPAGATE_IPV4;
		ip[0] = ip[3];
		ip[2] = ip[3] = 0;
	}
	__builtin_memcpy(owner->peer, ip, sizeof(ip));
	owner->peer_port = bpf_ntohs(ctx->user_port);
	return 1;
}

/* A connection is gone: what was announced for it was never written. */
static __always_inline void closed(struct bpf_sock_ops *ctx, const struct propagate_socket *owner)
{
	struct propagate_key k = {};

	READ_KEY(&k, owner, ctx);
	if (!bpf_map_delete_elem(&pending, &k))
		count(propagation_not_sent);
}

SEC("sockops")
int propagate_established(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct propagate_socket *owner;
	__u64 cookie;

	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && ctx->op != BPF_SOCK_OPS_STATE_CB)
		return 1;
	if (!sk)
		return 1;
	owner = bpf_sk_storage_get(&owners, sk, 0, 0);
	if (!owner)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_STATE_CB) {
		if (ctx->args[1] == STATE_END)
			closed(ctx, owner);
		return 1;
	}
	cookie = bpf_get_socket_cookie(ctx);
	if (bpf_sock_hash_update(ctx, &sockets, &cookie, BPF_NOEXIST)) {
		count(propagation_socket); /* -EBUSY: somebody else's map has it already */
		return 1;
	}
	owner->since_ns = bpf_ktime_get_ns();
	(void)bpf_sock_ops_cb_flags_set(ctx,
					ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
	return 1;
}

/* ---- write(2) ---- */

struct sock {
	int sk_sndbuf;
} __attribute__((preserve_access_index));

struct tcp_sock {
	__u32 write_seq, snd_una;
} __attribute__((preserve_access_index));

/* The kernel counts a write wrongly that it takes only a part of, when that part ends before or
 * inside the inserted line; the program would send bytes twice. With nothing in flight, the first
 * bytes of a write are always taken. */
static __always_inline int is_idle(struct sk_msg_md *msg)
{
	struct bpf_sock *sk = msg->sk;
	struct tcp_sock *tp;

	if (!sk)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	return tp && tp->write_seq == tp->snd_una && ((struct sock *)tp)->sk_sndbuf >= SNDBUF_MIN;
}

struct scan {
	struct sk_msg_md *msg;
	__u32 first, second; /* behind the first and the second line */
};

static long scan_step(__u32 n, struct scan *s)
{
	__u8 *d = s->msg->data, *end = s->msg->data_end;
	__u32 i = (n * SCAN_STEP) & (SCAN_MAX - 1);

	d += i;
	for (int k = 0; k < SCAN_STEP; k++) {
		if (d + k + 1 > end)
			return 1;
		if (d[k] != '\n')
			continue;
		if (s->first) {
			s->second = i + k + 1;
			return 1;
		}
		s->first = i + k + 1;
	}
	return 0;
}

/* Whether the line that begins there is "Host: ...". */
static __always_inline int is_host(struct sk_msg_md *msg, __u32 at)
{
	__u8 *d = msg->data, *end = msg->data_end;

	d += at & (SCAN_MAX - 1);
	if (d + 6 > end)
		return 0;
	return d[0] == 'H' && d[1] == 'o' && d[2] == 's' && d[3] == 't' && d[4] == ':' &&
	       d[5] == ' ';
}

/* Whether the message begins with the method that was announced, and a space. */
static __always_inline int is_announced(struct sk_msg_md *msg, const struct propagate_pending *p)
{
	__u8 *d = msg->data, *end = msg->data_end;

	if (d + 9 > end || p->method_len < 1 || p->method_len > 8)
		return 0;
	for (__u32 i = 0; i < 8; i++) {
		if (i == p->method_len)
			break;
		if (d[i] != p->method[i])
			return 0;
	}
	for (__u32 i = 1; i <= 8; i++)
		if (i == p->method_len && i < 8 && d[i] != ' ')
			return 0;
	return 1;
}

/* Apart, for its own frame. */
static __noinline int make_line(struct traceparent_text *t, const struct propagate_pending *p)
{
	if (!t || !p)
		return 0;
	traceparent_line(t, p->trace_id, p->span_id, p->sampled);
	return 0;
}

/* Everything between the announcement and the bytes. Returns the verdict. */
static __always_inline int insert(struct sk_msg_md *msg, const struct propagate_pending *p)
{
	struct scan scan = { .msg = msg };
	struct traceparent_text line = {};
	__u32 want = msg->size < SCAN_MAX ? msg->size : SCAN_MAX, at;
	__u8 *d = msg->data, *end = msg->data_end;

	if (d + want > end && bpf_msg_pull_data(msg, 0, want, 0)) { /* it lies on two pages */
		count(propagation_kernel);
		return SK_PASS;
	}
	if (!is_announced(msg, p)) {
		count(propagation_not_request);
		return SK_PASS;
	}
	if (!is_idle(msg)) {
		count(propagation_busy);
		return SK_PASS;
	}
	bpf_loop(SCAN_MAX / SCAN_STEP, scan_step, &scan, 0);
	at = scan.second;
	if (!at || at > SCAN_MAX || !is_host(msg, scan.first)) {
		count(propagation_long_line);
		return SK_PASS;
	}
	make_line(&line, p);
	if (bpf_msg_push_data(msg, at, PROPAGATE_LINE, 0)) {
		count(propagation_kernel);
		return SK_PASS;
	}
	/* Three pieces now, and each would leave as a segment of its own: make it one again. */
	want = msg->size < JOIN_MAX ? msg->size : JOIN_MAX;
	if (bpf_msg_pull_data(msg, 0, want, 0)) {
		count(propagation_kernel);
		/* write(2) fails rather than that a hole goes out. */
		return bpf_msg_pop_data(msg, at, PROPAGATE_LINE, 0) ? SK_DROP : SK_PASS;
	}
	d = msg->data;
	end = msg->data_end;
	d += at & (JOIN_MAX - 1);
	if (d + PROPAGATE_LINE > end) /* cannot be: all of it was pulled */
		return SK_DROP;
	__builtin_memcpy(d, line.bytes, PROPAGATE_LINE);
	count(propagation_inserted);
	return SK_PASS;
}

SEC("sk_msg")
int propagate_send(struct sk_msg_md *msg)
{
	struct propagate_socket *owner;
	struct propagate_pending *found, p;
	struct bpf_sock *sk = msg->sk;
	struct propagate_key k = {};

	if (!sk)
		return SK_PASS;
	owner = bpf_sk_storage_get(&owners, sk, 0, 0);
	if (!owner)
		return SK_PASS;
	READ_KEY(&k, owner, msg);
	found = bpf_map_lookup_elem(&pending, &k);
	if (!found)
		return SK_PASS;
	p = *found;
	/* Once: what follows is another message, or the rest of this one. */
	if (bpf_map_delete_elem(&pending, &k))
		return SK_PASS;
	if (p.seal != propagate_seal(&p) || p.ports != k.ports || p.at_ns < owner->since_ns ||
	    bpf_ktime_get_ns() - p.at_ns > MAX_AGE_NS) {
		count(propagation_stale);
		return SK_PASS;
	}
	return insert(msg, &p);
}
