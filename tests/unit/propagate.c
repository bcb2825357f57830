/* Needs root: the programs on real sockets of this process, which is the traced one. What a library
 * would announce is announced by hand. */
#include "propagate/object.h"

#include "base/config.h"
#include "bpf/stats.h"
#include "trace/lib.h"
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#define LINE    "traceparent: 00-01010101010101010101010101010101-0202020202020202-01\r\n"
#define REQUEST "GET /a HTTP/1.1\r\nHost: b\r\nUser-Agent: c\r\n\r\n"
#define WITH    "GET /a HTTP/1.1\r\nHost: b\r\n" LINE "User-Agent: c\r\n\r\n"

static struct config *cfg;
static struct propagate *propagate;
static int counters, listener, self;
static uint32_t tgid;
static const struct propagate_socket owner = { .slot = 3, .generation = 7 };

static void set_up(void)
{
	char *argv[] = { "agent", "--propagation=headers" };
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	cr_assert_eq(config_load(&cfg, ARRAY_SIZE(argv), argv, NULL), 0);
	counters =
		bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "counters", 4, 8, KERNEL_COUNTERS, NULL);
	cr_assert_geq(counters, 0, "root and BPF are needed");
	cr_assert_eq(propagate_open(&propagate, cfg, counters), 0);
	cr_assert_null(propagate_off(propagate), "%s", propagate_off(propagate));
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(listen(listener, 8), 0);
	self = (int)syscall(SYS_pidfd_open, getpid(), 0);
}

static void tear_down(void)
{
	propagate_close(&propagate);
	config_free(&cfg);
}

TestSuite(propagate, .init = set_up, .fini = tear_down, .timeout = 60);

static uint64_t counted(enum kernel_counter id)
{
	uint64_t per_cpu[1024], sum = 0;
	uint32_t row = id;

	cr_assert_eq(bpf_map_lookup_elem(counters, &row, per_cpu), 0);
	for (int i = 0; i < libbpf_num_possible_cpus(); i++)
		sum += per_cpu[i];
	return sum;
}

static void trace_self(void)
{
	cr_assert_eq(propagate_add(propagate, getpid(), self, &owner, &tgid), 0);
}

struct pair {
	int client, server;
	struct propagate_key key;
};

static struct pair connected_to(uint32_t ip)
{
	struct sockaddr_in to, from;
	socklen_t n = sizeof(to), m = sizeof(from);
	struct pair p = { .client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };

	cr_assert_eq(getsockname(listener, (struct sockaddr *)&to, &n), 0);
	to.sin_addr.s_addr = htonl(ip);
	cr_assert_eq(connect(p.client, (struct sockaddr *)&to, sizeof(to)), 0);
	cr_assert_eq(getsockname(p.client, (struct sockaddr *)&from, &m), 0);
	p.server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	cr_assert_geq(p.server, 0);
	p.key = (struct propagate_key){
		.slot = owner.slot,
		.generation = owner.generation,
		.ports = (uint32_t)ntohs(from.sin_port) << 16 | ntohs(to.sin_port),
		.family = PROPAGATE_IPV4,
		.local = { from.sin_addr.s_addr },
		.remote = { to.sin_addr.s_addr },
	};
	return p;
}

static struct pair connected(void)
{
	return connected_to(INADDR_LOOPBACK);
}

static bool is_watched(int fd)
{
	uint64_t cookie = 0, value;
	socklen_t n = sizeof(cookie);

	cr_assert_eq(getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &n), 0);
	return bpf_map_lookup_elem(propagate->sockets, &cookie, &value) == 0;
}

static struct propagate_pending pending_of(const struct pair *p, const char *method)
{
	struct propagate_pending next = { .active = 1, .sampled = 1, .ports = p->key.ports };
	struct timespec t;

	memset(next.trace_id, 1, sizeof(next.trace_id));
	memset(next.span_id, 2, sizeof(next.span_id));
	next.method_len = (uint32_t)strnlen(method, sizeof(next.method));
	memcpy(next.method, method, next.method_len);
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	next.at_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	next.seal = propagate_seal(&next);
	return next;
}

static void put(const struct pair *p, const struct propagate_pending *next)
{
	cr_assert_eq(bpf_map_update_elem(propagate->pending, &p->key, next, BPF_ANY), 0);
}

static void announce(const struct pair *p, const char *method)
{
	struct propagate_pending next = pending_of(p, method);

	put(p, &next);
}

static bool is_pending(const struct pair *p)
{
	struct propagate_pending found;

	return bpf_map_lookup_elem(propagate->pending, &p->key, &found) == 0;
}

/* Writes, and says what arrives: `want`, and nothing after it. */
static void arrives(const struct pair *p, const char *bytes, size_t n, const char *want, size_t m)
{
	auto_free char *got = calloc(1, m + 1);
	struct pollfd fd = { .fd = p->server, .events = POLLIN };
	size_t at = 0;

	cr_assert_eq(write(p->client, bytes, n), (ssize_t)n);
	while (at < m) {
		ssize_t r = read(p->server, got + at, m - at);

		cr_assert_gt(r, 0);
		at += (size_t)r;
	}
	cr_assert_arr_eq(got, want, m, "%.*s", (int)m, got);
	cr_assert_eq(poll(&fd, 1, 10), 0, "more arrives than was meant");
}

#define ARRIVES(p, bytes, want) arrives((p), (bytes), strlen(bytes), (want), strlen(want))

Test(propagate, an_announced_request_gets_the_line_behind_its_host)
{
	struct pair p;

	trace_self();
	p = connected();
	cr_assert(is_watched(p.client) && !is_watched(p.server));
	announce(&p, "GET");
	ARRIVES(&p, REQUEST, WITH);
	cr_assert_not(is_pending(&p));
	ARRIVES(&p, REQUEST, REQUEST); /* once */
	cr_assert_eq(counted(COUNTER_propagation_inserted), 1);
}

Test(propagate, the_sampled_flag_is_that_of_the_announcement)
{
	struct propagate_pending next;
	struct pair p;

	trace_self();
	p = connected();
	next = pending_of(&p, "GET");
	next.sampled = 0;
	next.seal = propagate_seal(&next);
	put(&p, &next);
	ARRIVES(&p, REQUEST,
		"GET /a HTTP/1.1\r\nHost: b\r\n"
		"traceparent: 00-01010101010101010101010101010101-0202020202020202-00\r\n"
		"User-Agent: c\r\n\r\n");
}

Test(propagate, bytes_that_are_not_the_announced_request_are_left_alone)
{
	static const char *const others[] = {
		"POST /a HTTP/1.1\r\nHost: b\r\n\r\n",      /* another method */
		"GETX /a HTTP/1.1\r\nHost: b\r\n\r\n",      /* one that begins like it */
		"GET /a HTTP/1.1\r\nUser-Agent: b\r\n\r\n", /* no Host line in second place */
		"GET",
		"\x16\x03\x01 hello hello",
	};
	struct pair p;

	trace_self();
	p = connected();
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		announce(&p, "GET");
		ARRIVES(&p, others[i], others[i]);
		cr_assert_not(is_pending(&p), "each announcement is for one write: %zu", i);
	}
	cr_assert_eq(counted(COUNTER_propagation_inserted), 0);
	cr_assert_eq(counted(COUNTER_propagation_not_request), 4);
	cr_assert_eq(counted(COUNTER_propagation_long_line), 1);
}

Test(propagate, long_methods_are_known_by_their_first_bytes)
{
	struct pair p;

	trace_self();
	p = connected();
	announce(&p, "BASELINE-CONTROL");
	ARRIVES(&p, "BASELINE-CONTROL /a HTTP/1.1\r\nHost: b\r\n\r\n",
		"BASELINE-CONTROL /a HTTP/1.1\r\nHost: b\r\n" LINE "\r\n");
}

Test(propagate, a_request_line_beyond_the_first_4096_bytes_is_left_alone)
{
	char bytes[6000];
	size_t n;
	struct pair p;

	trace_self();
	p = connected();
	for (size_t path = 4060; path < 4090; path++) {
		char want[6100];
		size_t host;

		n = (size_t)snprintf(bytes, sizeof(bytes), "GET /%*s HTTP/1.1\r\nHost: b\r\n\r\n",
				     (int)path, "x");
		host = n - 2;
		announce(&p, "GET");
		if (host > 4096) {
			arrives(&p, bytes, n, bytes, n);
			continue;
		}
		memcpy(want, bytes, host);
		memcpy(want + host, LINE "\r\n", sizeof(LINE) + 1);
		arrives(&p, bytes, n, want, n + sizeof(LINE) - 1);
	}
	cr_assert_gt(counted(COUNTER_propagation_inserted), 0);
	cr_assert_gt(counted(COUNTER_propagation_long_line), 0);
}

Test(propagate, nothing_is_put_in_while_earlier_bytes_are_in_flight)
{
	struct pair p;
	int small = 2048;
	size_t sent = 0;

	(void)setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	trace_self();
	p = connected();
	/* Fill the receiver's buffer, so that bytes are not acknowledged. */
	while (send(p.client, &(char[512]){ 0 }, 512, MSG_DONTWAIT) > 0 && sent < 200000)
		sent += 512;
	announce(&p, "GET");
	if (send(p.client, REQUEST, strlen(REQUEST), MSG_DONTWAIT) < 0) {
		/* No room for a byte more: make some, a little. */
		char drain[4096];

		while (send(p.client, REQUEST, strlen(REQUEST), MSG_DONTWAIT) < 0)
			(void)!recv(p.server, drain, sizeof(drain), MSG_DONTWAIT);
	}
	cr_assert_not(is_pending(&p));
	cr_assert_eq(counted(COUNTER_propagation_inserted), 0);
	cr_assert_eq(counted(COUNTER_propagation_busy), 1);
}

Test(propagate, a_small_send_buffer_is_not_trusted)
{
	int small = 4096;
	struct pair p;

	trace_self();
	p = connected();
	cr_assert_eq(setsockopt(p.client, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	announce(&p, "GET");
	ARRIVES(&p, REQUEST, REQUEST);
	cr_assert_eq(counted(COUNTER_propagation_busy), 1);
}

Test(propagate, what_was_announced_before_the_socket_was_seen_or_too_long_ago_is_stale)
{
	struct propagate_pending next;
	struct pair p = connected(); /* before it is traced */

	cr_assert_not(is_watched(p.client));
	announce(&p, "GET");
	trace_self();
	cr_assert(is_watched(p.client), "it was there before");
	ARRIVES(&p, REQUEST, REQUEST);
	next = pending_of(&p, "GET");
	next.at_ns -= 61000000000;
	next.seal = propagate_seal(&next);
	put(&p, &next);
	ARRIVES(&p, REQUEST, REQUEST);
	next = pending_of(&p, "GET");
	next.trace_id[3] ^= 1; /* half of another announcement */
	put(&p, &next);
	ARRIVES(&p, REQUEST, REQUEST);
	cr_assert_eq(counted(COUNTER_propagation_stale), 3);
	announce(&p, "GET");
	ARRIVES(&p, REQUEST, WITH);
}

Test(propagate, sockets_of_processes_that_are_not_traced_are_never_in_the_map)
{
	struct pair p = connected();
	int status;
	pid_t child;

	cr_assert_not(is_watched(p.client));
	trace_self();
	child = fork();
	if (child == 0) { /* another process: traced is only its parent */
		struct pair other = connected();

		_exit(is_watched(other.client) ? 1 : 0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	cr_assert_eq(counted(COUNTER_propagation_socket), 0);
}

Test(propagate, who_is_traced_no_more_has_plain_sockets_again)
{
	struct pair before, after;

	trace_self();
	before = connected();
	cr_assert(is_watched(before.client));
	propagate_remove(propagate, getpid(), self, &owner, tgid);
	cr_assert_not(is_watched(before.client));
	announce(&before, "GET");
	ARRIVES(&before, REQUEST, REQUEST);
	after = connected();
	cr_assert_not(is_watched(after.client));
	cr_assert_eq(counted(COUNTER_propagation_inserted), 0);
}

Test(propagate, another_slot_of_the_same_process_is_not_taken_away)
{
	static const struct propagate_socket again = { .slot = 4, .generation = 1 };
	struct pair p;
	uint32_t same;

	trace_self();
	p = connected();
	cr_assert_eq(propagate_add(propagate, getpid(), self, &again, &same), 0);
	cr_assert_eq(same, tgid);
	propagate_remove(propagate, getpid(), self, &owner, tgid);
	cr_assert(is_watched(p.client), "it belongs to the newer one by now");
	p.key.slot = again.slot;
	p.key.generation = again.generation;
	announce(&p, "GET");
	ARRIVES(&p, REQUEST, WITH);
}

Test(propagate, what_was_announced_for_a_connection_goes_with_it)
{
	struct pair p;

	trace_self();
	p = connected();
	announce(&p, "GET");
	(void)close(p.server);
	(void)close(p.client);
	for (int i = 0; i < 100 && is_pending(&p); i++)
		(void)poll(NULL, 0, 20);
	cr_assert_not(is_pending(&p));
	cr_assert_eq(counted(COUNTER_propagation_not_sent), 1);
}

Test(propagate, an_end_of_the_agent_leaves_whole_connections)
{
	char got[sizeof(WITH)];
	struct pair p;

	trace_self();
	p = connected();
	announce(&p, "GET");
	propagate_close(&propagate);
	cr_assert_eq(write(p.client, REQUEST, strlen(REQUEST)), (ssize_t)strlen(REQUEST));
	/* The kernel takes the program away a moment later: the line may be there, or not. */
	cr_assert_eq(recv(p.server, got, strlen(REQUEST), MSG_WAITALL), (ssize_t)strlen(REQUEST));
	if (memcmp(got, REQUEST, strlen(REQUEST)) != 0) {
		cr_assert_eq(recv(p.server, got + strlen(REQUEST), strlen(LINE), MSG_WAITALL),
			     (ssize_t)strlen(LINE));
		cr_assert_arr_eq(got, WITH, strlen(WITH));
	}
	for (int i = 0; i < 20; i++)
		ARRIVES(&p, REQUEST, REQUEST);
}

LIB_OBJECT(translate)

#define SERVICE 0x7f424242 /* 127.66.66.66 */

/* What runs before ours, on the same control groups. */
static struct bpf_object *translate(struct bpf_link *links[2])
{
	size_t size;
	const void *bytes = translate_object(&size);
	struct bpf_object *object = bpf_object__open_mem(bytes, size, NULL);
	auto_close int root =
		open("/proc/self/root/sys/fs/cgroup/unified", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		root = open("/sys/fs/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_not_null(object);
	cr_assert_eq(bpf_object__load(object), 0);
	links[0] = bpf_program__attach_cgroup(
		bpf_object__find_program_by_name(object, "translate_connect4"), root);
	links[1] = bpf_program__attach_cgroup(
		bpf_object__find_program_by_name(object, "translate_peer4"), root);
	cr_assert(links[0] && links[1]);
	return object;
}

/* The program asks once, when it is connected, as Go does. */
static void ask(const struct pair *p, uint32_t expected)
{
	struct sockaddr_in peer;
	socklen_t n = sizeof(peer);

	cr_assert_eq(getpeername(p->client, (struct sockaddr *)&peer, &n), 0);
	cr_assert_eq(peer.sin_addr.s_addr, htonl(expected));
}

Test(propagate, a_service_address_that_is_translated_in_the_socket_names_the_connection)
{
	struct bpf_link *links[2];
	struct bpf_object *object;
	struct pair early, late;

	propagate_close(&propagate);
	object = translate(links);
	cr_assert_eq(propagate_open(&propagate, cfg, counters), 0);
	cr_assert_null(propagate_off(propagate), "%s", propagate_off(propagate));
	early = connected_to(SERVICE);
	ask(&early, SERVICE);
	trace_self();
	late = connected_to(SERVICE);
	ask(&late, SERVICE);
	announce(&early, "GET");
	ARRIVES(&early, REQUEST, WITH);
	announce(&late, "GET");
	ARRIVES(&late, REQUEST, WITH);
	for (size_t i = 0; i < ARRAY_SIZE(links); i++)
		(void)bpf_link__destroy(links[i]);
	bpf_object__close(object);
}

Test(propagate, off_is_no_object_and_a_reason)
{
	char *argv[] = { "agent" };
	struct propagate *none = propagate;

	config_free(&cfg);
	cr_assert_eq(config_load(&cfg, 1, argv, NULL), 0);
	cr_assert_eq(propagate_open(&none, cfg, counters), 0);
	cr_assert_null(none);
	cr_assert_str_eq(propagate_off(none), "propagation is off");
	cr_assert_null(propagate_pending(none));
}

/* Whatever this kernel says, the agent knows it before it loads a program that writes. */
Test(propagate, whether_memory_may_be_written_is_tried_and_told)
{
	char *argv[] = { "agent", "--propagation=write" };
	struct config *asking = NULL;
	char lockdown[128] = "";
	FILE *f = fopen("/sys/kernel/security/lockdown", "re");
	struct propagate *writes = NULL;
	const char *off;

	if (f) {
		(void)!fgets(lockdown, sizeof(lockdown), f);
		(void)fclose(f);
	}
	cr_assert_str_eq(propagate_write_off(propagate), "not asked for");
	propagate_close(&propagate);
	cr_assert_eq(config_load(&asking, ARRAY_SIZE(argv), argv, NULL), 0);
	cr_assert_eq(propagate_open(&writes, asking, counters), 0);
	off = propagate_write_off(writes);
	cr_assert_null(propagate_off(writes), "headers work all the same: %s",
		       propagate_off(writes));
	if (strstr(lockdown, "[integrity]"))
		cr_assert_str_eq(off, "the kernel refuses to write into programs' memory: "
				      "lockdown is integrity");
	else if (strstr(lockdown, "[none]"))
		cr_assert_null(off, "%s", off);
	propagate_close(&writes);
	config_free(&asking);
	cr_assert_str_eq(propagate_write_off(NULL), "propagation is off");
}
