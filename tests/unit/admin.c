#include "base/admin.h"

#include "base/config.h"
#include "base/heart.h"
#include "base/log.h"
#include "base/stats.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <jansson.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

static bool pods_known = true;

static size_t ready(void *arg, struct admin_check *checks, size_t max)
{
	(void)arg;
	cr_assert_geq(max, 2);
	checks[0] = (struct admin_check){ .name = "events", .ok = true };
	checks[1] = (struct admin_check){ .name = "pods", .ok = pods_known };
	if (!pods_known)
		(void)snprintf(checks[1].reason, sizeof(checks[1].reason),
			       "the kubelet has not answered yet");
	return 2;
}

static int status(void *arg, struct json_t *root)
{
	(void)arg;
	return json_object_set_new(root, "pods", json_array());
}

static const struct admin_source source = { .ready = ready, .status = status };

static struct admin *start(const char *address)
{
	char *argv[] = { (char *)"agent", (char *)"--admin-port=0", (char *)"--admin-listen",
			 (char *)address, NULL };
	static struct config *cfg;
	struct admin *a = NULL;

	(void)clearenv();
	log_setup(LOG_ERROR, false);
	cr_assert_eq(config_load(&cfg, 4, argv, NULL), 0);
	cr_assert_eq(admin_start(&a, cfg, &source), 0);
	config_free(&cfg); /* it keeps nothing of it */
	return a;
}

/* Connects to address:port, sends the bytes, reads until the server closes. */
static char *talk_at(const char *address, uint16_t port, const char *request)
{
	static char answer[262144];
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	const struct timeval patience = { .tv_sec = 5 };
	size_t n = 0;
	ssize_t got;
	auto_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(inet_pton(AF_INET, address, &to.sin_addr), 1);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	cr_assert_eq(send(fd, request, strlen(request), MSG_NOSIGNAL), (ssize_t)strlen(request));
	while (n < sizeof(answer) - 1 &&
	       (got = recv(fd, answer + n, sizeof(answer) - 1 - n, 0)) > 0)
		n += (size_t)got;
	answer[n] = '\0';
	return answer;
}

static char *talk(const struct admin *a, const char *request)
{
	return talk_at("127.0.0.1", admin_port(a), request);
}

static char *get(const struct admin *a, const char *path, const char *headers)
{
	char request[512];

	(void)snprintf(request, sizeof(request),
		       "GET %s HTTP/1.1\r\nHost: localhost:%u\r\nConnection: close\r\n%s\r\n", path,
		       admin_port(a), headers);
	return talk(a, request);
}

static int code(const char *answer)
{
	return strncmp(answer, "HTTP/1.1 ", 9) == 0 ? (int)strtol(answer + 9, NULL, 10) : 0;
}

static const char *body(const char *answer)
{
	const char *p = strstr(answer, "\r\n\r\n");

	return p ? p + 4 : "";
}

Test(admin, metrics_have_the_content_type_that_prometheus_3_demands)
{
	struct admin *a = start("127.0.0.1");
	const char *answer = get(a, "/metrics", "");

	cr_assert_eq(code(answer), 200);
	cr_assert(strstr(answer, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"),
		  "%s", answer);
	cr_assert(strstr(body(answer), "\nspoor_spans_produced_total 0\n"));
	admin_stop(&a);
}

Test(admin, openmetrics_is_served_where_it_is_asked_for)
{
	struct admin *a = start("127.0.0.1");
	const char *answer = get(a, "/metrics",
				 "Accept: "
				 "application/openmetrics-text;version=1.0.0;q=0.6,text/"
				 "plain;version=0.0.4;q=0.3,*/*;q=0.2\r\n");

	cr_assert(strstr(answer, "\r\nContent-Type: application/openmetrics-text; version=1.0.0; "
				 "charset=utf-8\r\n"));
	cr_assert_str_eq(answer + strlen(answer) - 6, "# EOF\n");
	admin_stop(&a);
}

Test(admin, healthz_answers_while_all_threads_beat)
{
	struct admin *a = start("127.0.0.1");
	const char *answer;

	heart_beat(HEART_EVENTS);
	answer = get(a, "/healthz", "");
	cr_assert_eq(code(answer), 200);
	cr_assert(strstr(body(answer), "[+] thread events: last heartbeat 0."), "%s", answer);
	cr_assert(strstr(body(answer), "[+] thread control: does not run"));
	admin_stop(&a);
}

/* Replaces the clock that heart.c reads: 31 s are long for a test. */
static _Atomic int64_t later_s;

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = (int)syscall(SYS_clock_gettime, clock, t);

	if (clock == CLOCK_MONOTONIC)
		t->tv_sec += later_s;
	return r;
}

Test(admin, healthz_names_the_thread_that_hangs)
{
	struct admin *a = start("127.0.0.1");
	const char *answer;

	heart_beat(HEART_EXPORT);
	later_s = 31;
	heart_beat(HEART_EVENTS);
	answer = get(a, "/healthz", "");
	cr_assert_eq(code(answer), 503, "%s", answer);
	cr_assert(strstr(body(answer), "[-] thread export: last heartbeat 31."), "%s", answer);
	cr_assert(strstr(body(answer), "[+] thread events: last heartbeat 0."));
	admin_stop(&a);
}

Test(admin, readyz_lists_each_check_with_its_reason)
{
	struct admin *a = start("127.0.0.1");
	const char *answer = get(a, "/readyz", "");

	cr_assert_eq(code(answer), 200);
	cr_assert_str_eq(body(answer), "[+] events\n[+] pods\n");
	pods_known = false;
	answer = get(a, "/readyz", "");
	cr_assert_eq(code(answer), 503);
	cr_assert_str_eq(body(answer), "[+] events\n[-] pods: the kubelet has not answered yet\n");
	admin_stop(&a);
}

Test(admin, status_is_json_for_a_peer_on_the_loopback_address)
{
	struct admin *a = start("0.0.0.0");
	const char *answer = get(a, "/status", "");
	json_t *root = json_loads(body(answer), 0, NULL);

	cr_assert_eq(code(answer), 200);
	cr_assert(strstr(answer, "\r\nContent-Type: application/json\r\n"));
	cr_assert(root && json_is_array(json_object_get(root, "pods")), "%s", answer);
	json_decref(root);
	admin_stop(&a);
}

/* The first address of this machine that is not loopback, "" when there is none. */
static void own_address(char out[INET_ADDRSTRLEN])
{
	struct ifaddrs *all = NULL;

	out[0] = '\0';
	cr_assert_eq(getifaddrs(&all), 0);
	for (const struct ifaddrs *i = all; i && !*out; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    !(i->ifa_flags & IFF_LOOPBACK))
			(void)inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr,
					out, INET_ADDRSTRLEN);
	freeifaddrs(all);
}

Test(admin, status_is_refused_to_others_and_metrics_are_not)
{
	struct admin *a = start("0.0.0.0");
	char address[INET_ADDRSTRLEN];
	const char *answer;

	own_address(address);
	if (!*address)
		cr_skip_test("this machine has no address but loopback");
	answer = talk_at(address, admin_port(a),
			 "GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
	cr_assert_eq(code(answer), 403);
	cr_assert(strstr(body(answer), "kubectl port-forward"));
	answer = talk_at(address, admin_port(a),
			 "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
	cr_assert_eq(code(answer), 200);
	admin_stop(&a);
}

Test(admin, status_is_refused_to_a_web_page_whose_name_resolves_to_loopback)
{
	struct admin *a = start("127.0.0.1");

	cr_assert_eq(code(talk(a, "GET /status HTTP/1.1\r\nHost: evil.example:9464\r\nConnection: "
				  "close\r\n\r\n")),
		     403);
	cr_assert_eq(code(talk(a, "GET /status HTTP/1.1\r\nHost: 127.0.0.1:9464\r\nConnection: "
				  "close\r\n\r\n")),
		     200);
	cr_assert_eq(
		code(talk(a,
			  "GET /status HTTP/1.1\r\nHost: [::1]:9464\r\nConnection: close\r\n\r\n")),
		200);
	cr_assert_eq(code(talk(a, "GET /status HTTP/1.0\r\n\r\n")), 200);
	admin_stop(&a);
}

Test(admin, head_has_no_body_other_methods_are_405_other_paths_404)
{
	struct admin *a = start("127.0.0.1");
	const char *answer =
		talk(a, "HEAD /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");

	cr_assert_eq(code(answer), 200);
	cr_assert_str_empty(body(answer));
	answer = talk(a, "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nConnection: "
			 "close\r\n\r\nabc");
	cr_assert_eq(code(answer), 405);
	cr_assert(strstr(answer, "\r\nAllow: GET, HEAD\r\n"));
	cr_assert_eq(
		code(talk(a, "DELETE /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")),
		405);
	cr_assert_eq(code(get(a, "/metricsx", "")), 404);
	cr_assert_eq(code(get(a, "/../etc/passwd", "")), 404);
	cr_assert(strstr(body(get(a, "/", "")), "/readyz"));
	admin_stop(&a);
}

Test(admin, a_head_that_is_too_long_is_refused_and_the_next_request_is_served)
{
	struct admin *a = start("127.0.0.1");
	auto_free char *request = calloc(1, 100000);
	int status_code;

	(void)snprintf(request, 100000, "GET / HTTP/1.1\r\nHost: x\r\nX: %090000d\r\n\r\n", 0);
	status_code = code(talk(a, request));
	cr_assert(status_code == 431 || status_code == 413 || status_code == 0, "%d", status_code);
	cr_assert_eq(code(get(a, "/healthz", "")), 200);
	admin_stop(&a);
}

Test(admin, idle_connections_of_one_peer_are_bounded)
{
	struct admin *a = start("127.0.0.1");
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(admin_port(a)) };
	const struct timeval patience = { .tv_usec = 300000 };
	int fds[40], closed = 0;
	char c;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		(void)setsockopt(fds[i], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
		cr_assert_eq(connect(fds[i], (struct sockaddr *)&to, sizeof(to)), 0);
	}
	for (size_t i = ARRAY_SIZE(fds) - 1; i >= 30; i--)
		closed += recv(fds[i], &c, 1, 0) == 0 || errno == ECONNRESET;
	cr_assert_eq(closed, 10, "%d of the last 10 were closed", closed);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		(void)close(fds[i]);
	admin_stop(&a);
}

/* A connection from 127.0.0.last that has begun a request. */
static int begin_from(unsigned int last, uint16_t port)
{
	struct sockaddr_in from = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(0x7f000000 + last) };
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	cr_assert_eq(send(fd, "GET /", 5, MSG_NOSIGNAL), 5);
	return fd;
}

Test(admin, connections_that_never_end_their_request_keep_nobody_out, .timeout = 30)
{
	struct admin *a = start("127.0.0.1");
	int fds[160];

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = begin_from(2 + (unsigned int)i / 16, admin_port(a));
	for (int n = 0; n < 3; n++)
		cr_expect(strstr(talk_at("127.0.0.1", admin_port(a),
					 "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: "
					 "close\r\n\r\n"),
				 "200 OK"));
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		(void)close(fds[i]);
	admin_stop(&a);
}

Test(admin, an_ipv6_wildcard_serves_ipv4_too)
{
	struct admin *a;
	int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (probe < 0)
		cr_skip_test("this kernel has no IPv6");
	(void)close(probe);
	a = start("::");
	cr_assert_eq(code(get(a, "/status", "")), 200, "a mapped loopback address is loopback");
	admin_stop(&a);
}

Test(admin, a_port_in_use_is_an_error_and_an_empty_address_is_no_endpoint)
{
	struct admin *a = start("127.0.0.1"), *second = NULL;
	char port[16];
	char *argv[] = { (char *)"agent",
			 (char *)"--admin-listen",
			 (char *)"127.0.0.1",
			 (char *)"--admin-port",
			 port,
			 NULL };
	char *off[] = { (char *)"agent", (char *)"--admin-listen=", NULL };
	auto_config struct config *cfg = NULL, *none = NULL;

	(void)snprintf(port, sizeof(port), "%u", admin_port(a));
	cr_assert_eq(config_load(&cfg, 5, argv, NULL), 0);
	cr_assert_eq(admin_start(&second, cfg, &source), -EADDRINUSE);
	cr_assert_null(second);
	cr_assert_eq(config_load(&none, 2, off, NULL), 0);
	cr_assert_eq(admin_start(&second, none, &source), 0);
	cr_assert_null(second);
	admin_stop(&second);
	admin_stop(&a);
}
