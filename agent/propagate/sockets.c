/* The connections that a process has already: each descriptor is borrowed, its socket goes into the
 * map, and the descriptor back. */
#include "propagate/object.h"

#include "base/config.h"
#include "base/stats.h"

#include <bpf/bpf.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#define LISTENERS_MAX 64
#define TRIES         4
#define TRY_AGAIN_NS  50000000

/* Local ports on which the process listens: connections to them are not its own. */
struct listeners {
	uint16_t ports[LISTENERS_MAX];
	size_t n;
};

/* /proc/PID/status may be read by everybody, /proc/PID/fd only with one capability more. */
static int fd_limit(const struct propagate *p, int pid)
{
	char path[PATH_MAX], line[256];
	int n = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%d/status", p->cfg->proc_root, pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f) && strncmp(line, "FDSize:", 7) != 0)
		;
	if (f) {
		if (strncmp(line, "FDSize:", 7) == 0)
			n = (int)strtol(line + 7, NULL, 10);
		(void)fclose(f);
	}
	return n;
}

static int int_option(int fd, int option)
{
	int value = 0;
	socklen_t n = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &n) ? -1 : value;
}

static int port_of(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)a)->sin_port);
	return a->ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)a)->sin6_port) : -1;
}

static int local_port(int fd)
{
	struct sockaddr_storage a = { 0 };
	socklen_t n = sizeof(a);

	return getsockname(fd, (struct sockaddr *)&a, &n) ? -1 : port_of(&a);
}

/* Whom the socket is connected to, in the words of getpeername(2): the program had the same. */
static bool is_connected(int fd, struct propagate_socket *mark)
{
	struct sockaddr_storage a = { 0 };
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a;
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)&a)->sin6_addr;
	socklen_t n = sizeof(a);

	if (getpeername(fd, (struct sockaddr *)&a, &n) || port_of(&a) <= 0)
		return false;
	memset(mark->peer, 0, sizeof(mark->peer));
	mark->peer_port = (uint32_t)port_of(&a);
	mark->peer_family = PROPAGATE_IPV4;
	if (a.ss_family == AF_INET) {
		memcpy(mark->peer, &v4->sin_addr, sizeof(v4->sin_addr));
	} else if (IN6_IS_ADDR_V4MAPPED(v6)) {
		memcpy(mark->peer, &v6->s6_addr[12], sizeof(v4->sin_addr));
	} else {
		mark->peer_family = PROPAGATE_IPV6;
		memcpy(mark->peer, v6, sizeof(*v6));
	}
	return true;
}

static bool is_listened_on(const struct listeners *l, int port)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->ports[i] == port)
			return true;
	return false;
}

/* The process whose descriptors are looked at. */
struct lender {
	const char *proc_root;
	int pid, pidfd;
};

static bool is_socket(const struct lender *l, int i)
{
	static const char socket[] = "socket:[";
	char path[PATH_MAX], text[sizeof(socket)];

	(void)snprintf(path, sizeof(path), "%s/%d/fd/%d", l->proc_root, l->pid, i);
	return readlink(path, text, sizeof(text)) >= (ssize_t)sizeof(socket) - 1 &&
	       memcmp(text, socket, sizeof(socket) - 1) == 0;
}

/* A copy of the process's descriptor if it is a TCP socket, else -1. Nothing but sockets is ever
 * borrowed: to give back a file may mean to write it, which never ends on a file system that
 * hangs. */
static int borrow(const struct lender *l, int i)
{
	int fd = is_socket(l, i) ? (int)syscall(SYS_pidfd_getfd, l->pidfd, i, 0) : -1;

	if (fd >= 0 && int_option(fd, SO_PROTOCOL) != IPPROTO_TCP) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* First the map, then the mark: what is written before is not looked at. -EBUSY: it is in another
 * map. */
static int add_one(const struct propagate *p, int fd, uint64_t cookie,
		   const struct propagate_socket *owner)
{
	struct propagate_socket mark = *owner;
	uint64_t value = (uint64_t)fd, there;

	if (bpf_map_lookup_elem(p->sockets, &cookie, &there) &&
	    bpf_map_update_elem(p->sockets, &cookie, &value, BPF_NOEXIST) && errno != EEXIST)
		return -errno;
	mark.since_ns = now_ns();
	return bpf_map_update_elem(p->owners, &fd, &mark, BPF_ANY) ? -errno : 0;
}

static bool is_owners(const struct propagate *p, int fd, const struct propagate_socket *owner)
{
	struct propagate_socket mark;

	return bpf_map_lookup_elem(p->owners, &fd, &mark) == 0 && mark.slot == owner->slot &&
	       mark.generation == owner->generation;
}

static int add_or_remove(const struct propagate *p, int fd, const struct propagate_socket *owner,
			 bool add)
{
	uint64_t cookie = 0;
	socklen_t n = sizeof(cookie);

	if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &n))
		return -errno;
	if (add)
		return add_one(p, fd, cookie, owner);
	if (!is_owners(p, fd, owner))
		return -ENOENT;
	(void)bpf_map_delete_elem(p->owners, &fd);
	return bpf_map_delete_elem(p->sockets, &cookie) ? -errno : 0;
}

/* What came of one look at all descriptors. */
struct scanned {
	size_t done, busy;
};

static struct scanned scan(const struct propagate *p, int limit, const struct lender *l,
			   const struct propagate_socket *owner, bool add)
{
	struct listeners listeners = { .n = 0 };
	struct scanned found = { 0, 0 };

	for (int i = 0; i < limit && listeners.n < LISTENERS_MAX; i++) {
		auto_close int fd = borrow(l, i);

		if (fd >= 0 && int_option(fd, SO_ACCEPTCONN) == 1)
			listeners.ports[listeners.n++] = (uint16_t)local_port(fd);
	}
	for (int i = 0; i < limit; i++) {
		auto_close int fd = borrow(l, i);
		struct propagate_socket mark = *owner;
		int err;

		if (fd < 0 || !is_connected(fd, &mark) ||
		    is_listened_on(&listeners, local_port(fd)))
			continue;
		err = add_or_remove(p, fd, &mark, add);
		found.done += !err;
		found.busy += err == -EBUSY;
	}
	return found;
}

/* An agent that has just died leaves its map for the kernel to clear: until then its sockets are
 * busy. */
size_t propagate_sockets(const struct propagate *p, int pid, int pidfd,
			 const struct propagate_socket *owner, bool add)
{
	const struct lender lender = { p->cfg->proc_root, pid, pidfd };
	const struct timespec wait = { 0, TRY_AGAIN_NS };
	int limit = fd_limit(p, pid);
	struct scanned found = scan(p, limit, &lender, owner, add);

	for (int i = 1; i < TRIES && found.busy; i++) {
		(void)nanosleep(&wait, NULL);
		found = scan(p, limit, &lender, owner, add);
	}
	if (add && found.busy)
		stat_add(propagation_socket, found.busy);
	return found.done;
}
