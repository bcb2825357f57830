/* Requests from ourselves to ourselves, through the same programs as those of traced processes:
 * does this kernel insert what it should, and nothing else. A kernel that damages a stream here is
 * not used. */
#include "propagate/object.h"

#include "bpf/stats.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#define MESSAGES    160
#define MESSAGE_MAX 9400
#define WAIT_MS     1000
#define SILENT_MAX  5 /* such waits in a row, with nothing to read and no room to write */

/* No process has this slot. */
static const struct propagate_socket nobody = { .slot = UINT32_MAX, .generation = 1 };

static const char line[] =
	"traceparent: 00-0102030405060708090a0b0c0d0e0f10-1112131415161718-01\r\n";

struct pair {
	int client, server; /* non-blocking */
	struct propagate_key key;
};

static void close_pair(struct pair *pair)
{
	if (pair->client >= 0)
		(void)close(pair->client);
	if (pair->server >= 0)
		(void)close(pair->server);
}

/* A connection over loopback whose receiver takes little at a time. 0 or -errno. */
static int make_pair(struct pair *pair)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) },
			   from = { 0 };
	socklen_t n = sizeof(to), m = sizeof(from);
	int small = 4096, one = 1;
	auto_close int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	pair->client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l < 0 || pair->client < 0)
		return -errno;
	(void)setsockopt(l, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	(void)setsockopt(pair->client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (bind(l, (struct sockaddr *)&to, sizeof(to)) || listen(l, 1) ||
	    getsockname(l, (struct sockaddr *)&to, &n) ||
	    connect(pair->client, (struct sockaddr *)&to, sizeof(to)) ||
	    getsockname(pair->client, (struct sockaddr *)&from, &m))
		return -errno;
	pair->server = accept4(l, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (pair->server < 0 || fcntl(pair->client, F_SETFL, O_NONBLOCK))
		return -errno;
	pair->key = (struct propagate_key){
		.slot = nobody.slot,
		.generation = nobody.generation,
		.ports = (uint32_t)ntohs(from.sin_port) << 16 | ntohs(to.sin_port),
		.family = PROPAGATE_IPV4,
		.local = { from.sin_addr.s_addr },
		.remote = { to.sin_addr.s_addr },
	};
	return 0;
}

static int announce(const struct propagate *p, const struct pair *pair)
{
	struct propagate_pending next = {
		.active = 1,
		.sampled = 1,
		.method = "GET",
		.method_len = 3,
		.ports = pair->key.ports,
	};
	struct timespec t;

	for (uint8_t i = 0; i < 16; i++)
		next.trace_id[i] = (uint8_t)(i + 1);
	for (uint8_t i = 0; i < 8; i++)
		next.span_id[i] = (uint8_t)(i + 17);
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	next.at_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	next.seal = propagate_seal(&next);
	return bpf_map_update_elem(p->pending, &pair->key, &next, BPF_ANY) ? -errno : 0;
}

static size_t make_message(char *out, unsigned i)
{
	size_t pad = i * 2654435761u % 9000;
	size_t n = (size_t)snprintf(out, 128, "GET /%08u HTTP/1.1\r\nHost: spoor\r\nX: ", i);

	for (size_t k = 0; k < pad; k++)
		out[n++] = (char)('a' + (i + k) % 26);
	memcpy(out + n, "\r\n\r\n", 5);
	return n + 4;
}

/* What has arrived, compared with what was sent as far as it goes. */
struct arrival {
	char bytes[MESSAGE_MAX];
	size_t n;
	unsigned next, with, without;
};

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Takes whole messages off the front. False: what is there is none that was sent. */
static bool compare(struct arrival *a)
{
	const size_t extra = sizeof(line) - 1;
	char want[MESSAGE_MAX];

	while (a->n) {
		size_t n = make_message(want, a->next);
		size_t host = (size_t)(strstr(want, "Host: spoor\r\n") - want) + 13, more;
		bool with;

		if (memcmp(a->bytes, want, smaller(a->n, host)) != 0)
			return false;
		if (a->n <= host)
			return true;
		more = smaller(a->n - host, extra);
		with = memcmp(a->bytes + host, line, more) == 0;
		if (a->n < (with ? n + extra : n))
			return true;
		if (memcmp(a->bytes + host + (with ? extra : 0), want + host, n - host) != 0)
			return false;
		n += with ? extra : 0;
		a->with += with;
		a->without += !with;
		a->next++;
		memmove(a->bytes, a->bytes + n, a->n - n);
		a->n -= n;
	}
	return true;
}

/* Reads what is there, at most one piece. 1: something, 0: nothing in time, -1: damaged. */
static int take_some(const struct pair *pair, struct arrival *a)
{
	struct pollfd fd = { .fd = pair->server, .events = POLLIN };
	size_t room = sizeof(a->bytes) - a->n, piece = a->next % 3 ? 700 : 5000;
	ssize_t n;

	if (poll(&fd, 1, WAIT_MS) != 1)
		return 0;
	n = read(pair->server, a->bytes + a->n, room < piece ? room : piece);
	if (n <= 0)
		return 0;
	a->n += (size_t)n;
	return compare(a) ? 1 : -1;
}

/* Writes as Go does: what was not taken is written again. 0, or -1: damaged, or it goes nowhere. */
static int write_all(const struct pair *pair, const char *bytes, size_t n, struct arrival *a)
{
	int silent = 0;

	for (size_t at = 0; at < n;) {
		ssize_t w = write(pair->client, bytes + at, n - at);

		if (w > (ssize_t)(n - at) || (w < 0 && errno != EAGAIN))
			return -1;
		if (w > 0) {
			at += (size_t)w;
			continue;
		}
		switch (take_some(pair, a)) {
		case 1:
			silent = 0;
			break;
		case 0:
			if (++silent == SILENT_MAX)
				return -1;
			break;
		default:
			return -1;
		}
	}
	return 0;
}

/* Many messages to a slow reader, each announced: whole streams, the first one with the line.
 * Damage: -EBADMSG. */
static int try_stream(const struct propagate *p, const struct pair *pair)
{
	auto_free struct arrival *a = calloc(1, sizeof(*a));
	char message[MESSAGE_MAX];
	int got = 1;

	if (!a)
		return -ENOMEM;
	for (unsigned i = 0; i < MESSAGES; i++) {
		size_t n = make_message(message, i);

		if (announce(p, pair))
			return -errno;
		if (write_all(pair, message, n, a))
			return -EBADMSG;
		if (i == 0)
			while (a->next == 0 && got > 0)
				got = take_some(pair, a);
		if (i == 0 && (got < 0 || a->with != 1))
			return got < 0 ? -EBADMSG : -ENODATA;
	}
	while (a->next < MESSAGES && got > 0)
		got = take_some(pair, a);
	return a->next == MESSAGES && !a->n ? 0 : -EBADMSG;
}

/* Some kernels (6.12.75 and 6.18.14 and newer ones) count only what a socket map holds back, which
 * is nothing. Go never asks. */
static bool fionread_is_zero(const struct pair *pair)
{
	struct pollfd fd = { .fd = pair->client, .events = POLLIN };
	char byte[4] = "";
	int n = 0;

	if (write(pair->server, byte, sizeof(byte)) != sizeof(byte) || poll(&fd, 1, WAIT_MS) != 1)
		return false;
	(void)ioctl(pair->client, FIONREAD, &n);
	return n == 0;
}

static int run(struct propagate *p)
{
	__attribute__((cleanup(close_pair))) struct pair pair = { .client = -1, .server = -1 };
	uint64_t cookie = 0, seen;
	socklen_t n = sizeof(cookie);
	int err = make_pair(&pair);

	if (err)
		return propagate_fail(p, "it cannot be tried on a connection of our own: %s",
				      strerror(-err));
	if (getsockopt(pair.client, SOL_SOCKET, SO_COOKIE, &cookie, &n) ||
	    bpf_map_lookup_elem(p->sockets, &cookie, &seen))
		return propagate_fail(p, "a connection of our own was not seen: another agent's "
					 "socket map has it, or our control group is not below "
					 "the one that is mounted");
	p->kernel.fionread_zero = fionread_is_zero(&pair);
	err = try_stream(p, &pair);
	(void)bpf_map_delete_elem(p->pending, &pair.key);
	if (err == -EBADMSG)
		return propagate_fail(p, "this kernel damages what is written on a connection "
					 "that a line is put into");
	if (err == -ENODATA)
		return propagate_fail(p, "this kernel does not put the line in");
	if (err)
		return propagate_fail(p, "it cannot be tried on a connection of our own: %s",
				      strerror(-err));
	p->kernel.tried = true;
	return 0;
}

/* What the trial has counted is nobody's. */
static void forget_counts(const struct propagate *p)
{
	int cpus = libbpf_num_possible_cpus();
	auto_free uint64_t *zero = cpus > 0 ? calloc((size_t)cpus, sizeof(*zero)) : NULL;

	for (uint32_t row = COUNTER_propagation_inserted; zero && row <= COUNTER_propagation_socket;
	     row++)
		(void)bpf_map_update_elem(p->counters, &row, zero, BPF_ANY);
}

int propagate_try(struct propagate *p)
{
	auto_close int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	uint32_t tgid = 0;
	int err = pidfd < 0 ? -errno : propagate_tgid(p, pidfd, &tgid);

	if (!err && bpf_map_update_elem(p->processes, &tgid, &nobody, BPF_ANY))
		err = -errno;
	if (err)
		return propagate_fail(p, "the kernel does not tell who a process is: %s",
				      strerror(-err));
	err = run(p);
	if (err)
		return -1;
	(void)bpf_map_delete_elem(p->processes, &tgid);
	forget_counts(p);
	return 0;
}
