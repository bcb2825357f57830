/* kubelet_rig.h - for the tests of the kubelet's client: a scripted kubelet and what is asked of
 * it. */
#pragma once
#include "discover/kubelet.h"

#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"
#include "discover/pod.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define CERTS BUILD_DIR "/kubelet-certs"

#define unused __attribute__((unused))

static char dir[] = BUILD_DIR "/kubelet-XXXXXX";
static char endpoint[128], token_file[512], scenario_file[512], log_file[512];
static pid_t server;
static struct config cfg;
static struct kubelet *k;

static unused void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	cr_assert(f, "%s", path);
	(void)fputs(text, f);
	(void)fclose(f);
}

static unused void run(const char *program, const char *arg, const char *more)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		(void)dup2(null, 1);
		(void)dup2(null, 2);
		(void)execlp(program, program, arg, more, NULL);
		_exit(127);
	}
	(void)waitpid(pid, &status, 0);
	cr_assert_eq(status, 0, "%s %s", program, arg);
}

/* cert: its name among the certificates, or "-". */
static unused void start(const char *host, const char *cert)
{
	char crt[256], key[256], port[16] = "";
	int out[2];

	(void)snprintf(crt, sizeof(crt), "%s%s%s", *cert == '-' ? "" : CERTS "/", cert,
		       *cert == '-' ? "" : ".crt");
	(void)snprintf(key, sizeof(key), CERTS "/%s.key", cert);
	cr_assert_eq(pipe(out), 0);
	server = fork();
	if (server == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)dup2(out[1], 1);
		(void)close(out[0]);
		(void)execlp("python3", "python3", SOURCE_DIR "/tests/unit/kubelet_server.py", host,
			     crt, key, scenario_file, log_file, NULL);
		_exit(127);
	}
	(void)close(out[1]);
	cr_assert(read(out[0], port, sizeof(port) - 1) > 0, "the server does not start");
	port[strcspn(port, "\n")] = '\0';
	(void)snprintf(endpoint, sizeof(endpoint),
		       strchr(host, ':') ? "%s://[%s]:%s" : "%s://%s:%s",
		       *cert == '-' ? "http" : "https", host, port);
}

static unused void set_up(void)
{
	log_setup(LOG_ERROR, false);
	cr_assert(mkdtemp(dir));
	(void)snprintf(token_file, sizeof(token_file), "%s/token", dir);
	(void)snprintf(scenario_file, sizeof(scenario_file), "%s/scenario", dir);
	(void)snprintf(log_file, sizeof(log_file), "%s/log", dir);
	write_text(token_file, "secret-1\n");
	write_text(scenario_file, "ok");
	write_text(log_file, "");
	run(SOURCE_DIR "/tests/unit/kubelet_certs.sh", CERTS, NULL);
	cfg = (struct config){
		.kubelet_source = "kubelet",
		.kubelet_endpoint = endpoint,
		.kubelet_refresh = 60000,
		.kubelet_timeout = 2000,
		.kubelet_max_response = 65536,
		.kubelet_token_file = token_file,
		.kubelet_tls_mode = "auto",
		.kubelet_tls_ca_file = CERTS "/cluster-ca.crt",
		.kubelet_tls_node_cert = CERTS "/own.crt",
		.kubelet_tls_server_name = "",
		.node_name = "node-1",
		.node_ip = "",
	};
}

static unused void tear_down(void)
{
	kubelet_free(&k);
	if (server > 0) {
		(void)kill(server, SIGKILL);
		(void)waitpid(server, NULL, 0);
	}
	run("rm", "-rf", dir);
}

static unused double now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Drives until a list is had (1), or a failure is told that was not there before (0), or time is up
 * (-1). */
static unused int drive(double seconds)
{
	double end = now() + seconds;
	uint64_t failures = 0, before = 0;

	for (int i = STAT_kubelet_failed_connect; i <= STAT_kubelet_failed_token; i++)
		before += stats[i];
	do {
		struct pollfd p = { .fd = kubelet_fd(k), .events = POLLIN };
		struct pods *pods = NULL;

		(void)poll(&p, 1, 50);
		if (kubelet_run(k, &pods) == 1) {
			cr_expect_eq(pods_count(pods), 1);
			pods_free(&pods);
			return 1;
		}
		failures = 0;
		for (int i = STAT_kubelet_failed_connect; i <= STAT_kubelet_failed_token; i++)
			failures += stats[i];
		if (failures != before)
			return 0;
	} while (now() < end);
	return -1;
}

static unused void ask(void)
{
	if (!k)
		cr_assert_eq(kubelet_new(&k, &cfg), 0);
	kubelet_refresh(k);
}

static unused void expect_pods(const char *tls_mode)
{
	struct kubelet_state state;

	ask();
	cr_assert_eq(drive(5), 1);
	kubelet_state(k, &state);
	cr_expect_eq(state.why, KUBELET_OK);
	cr_expect_str_eq(state.message, "");
	cr_expect(state.last_success > 1e9);
	cr_expect_str_eq(state.tls_mode, tls_mode);
}

static unused void expect_failure(enum kubelet_why why, const char *text)
{
	struct kubelet_state state;

	ask();
	cr_assert_eq(drive(6), 0);
	kubelet_state(k, &state);
	cr_expect_eq(state.why, why, "%s: %s", kubelet_why_label(state.why), state.message);
	cr_expect(strstr(state.message, text), "'%s' is not in '%s'", text, state.message);
}

static unused size_t requests(char *last, size_t size)
{
	FILE *f = fopen(log_file, "r");
	size_t n = 0;

	last[0] = '\0';
	while (f && fgets(last, (int)size, f))
		n++;
	if (f)
		(void)fclose(f);
	last[strcspn(last, "\n")] = '\0';
	return n;
}
