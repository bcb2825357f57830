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

static char dir[] = BUILD_DIR "/kubelet-XXXXXX";
static char endpoint[128], token_file[512], scenario_file[512], log_file[512];
static pid_t server;
static struct config cfg;
static struct kubelet *k;

static void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	cr_assert(f, "%s", path);
	(void)fputs(text, f);
	(void)fclose(f);
}

static void run(const char *program, const char *arg, const char *more)
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
static void start(const char *host, const char *cert)
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

static void set_up(void)
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

static void tear_down(void)
{
	kubelet_free(&k);
	if (server > 0) {
		(void)kill(server, SIGKILL);
		(void)waitpid(server, NULL, 0);
	}
	run("rm", "-rf", dir);
}

static double now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Drives until a list is had (1), or a failure is told that was not there before (0), or time is up
 * (-1). */
static int drive(double seconds)
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

static void ask(void)
{
	if (!k)
		cr_assert_eq(kubelet_new(&k, &cfg), 0);
	kubelet_refresh(k);
}

static void expect_pods(const char *tls_mode)
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

static void expect_failure(enum kubelet_why why, const char *text)
{
	struct kubelet_state state;

	ask();
	cr_assert_eq(drive(6), 0);
	kubelet_state(k, &state);
	cr_expect_eq(state.why, why, "%s: %s", kubelet_why_label(state.why), state.message);
	cr_expect(strstr(state.message, text), "'%s' is not in '%s'", text, state.message);
}

static size_t requests(char *last, size_t size)
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

TestSuite(kubelet, .init = set_up, .fini = tear_down, .timeout = 60);

Test(kubelet, a_certificate_signed_by_the_cluster_is_verified_by_the_node_s_name)
{
	char line[256];

	start("127.0.0.1", "by-ca");
	expect_pods("ca");
	cr_expect_eq(requests(line, sizeof(line)), 1);
	cr_expect(strncmp(line, "/pods node-1:", 13) == 0, "%s", line);
	cr_expect(strstr(line, " secret-1"), "%s", line);
}

Test(kubelet, a_certificate_that_the_kubelet_signed_itself_is_recognised_as_the_node_s_own)
{
	start("127.0.0.1", "own");
	expect_pods("node-cert");
	expect_pods("node-cert");
}

Test(kubelet, what_worked_is_remembered)
{
	char line[256];
	uint64_t before;

	start("127.0.0.1", "own");
	expect_pods("node-cert");
	before = stat_get(kubelet_requests);
	expect_pods("node-cert");
	cr_expect_eq(stat_get(kubelet_requests), before + 1);
	cr_expect_eq(requests(line, sizeof(line)), 2);
}

Test(kubelet, another_certificate_of_the_same_issuer_is_not_the_node_s_own)
{
	char line[256];

	start("127.0.0.1", "own-sibling");
	cfg.kubelet_tls_mode = "node-cert";
	expect_failure(KUBELET_TLS_CA, "is not the node's own, " CERTS "/own.crt");
	cr_expect_eq(requests(line, sizeof(line)), 0,
		     "no token leaves before the certificate is believed");
}

Test(kubelet, in_mode_auto_both_ways_to_fail_are_told)
{
	start("127.0.0.1", "own-sibling");
	expect_failure(KUBELET_TLS_CA, "is not signed by the CA in " CERTS "/cluster-ca.crt");
	expect_failure(KUBELET_TLS_CA, "is not the node's own, " CERTS "/own.crt");
}

Test(kubelet, mode_ca_takes_no_self_signed_certificate)
{
	start("127.0.0.1", "own");
	cfg.kubelet_tls_mode = "ca";
	expect_failure(KUBELET_TLS_CA, "is not signed by the CA in " CERTS "/cluster-ca.crt");
}

Test(kubelet, mode_node_cert_takes_no_other_certificate_of_the_cluster)
{
	start("127.0.0.1", "by-ca");
	cfg.kubelet_tls_mode = "node-cert";
	expect_failure(KUBELET_TLS_CA, "is not the node's own");
}

Test(kubelet, a_certificate_for_another_name_is_told_apart)
{
	start("127.0.0.1", "other-name");
	cfg.kubelet_tls_mode = "ca";
	expect_failure(KUBELET_TLS_NAME, "is for another name");
}

Test(kubelet, a_server_name_of_its_own_can_be_configured)
{
	start("127.0.0.1", "other-name");
	cfg.kubelet_tls_server_name = "node-2";
	expect_pods("ca");
}

Test(kubelet, without_a_node_name_the_address_is_verified)
{
	start("127.0.0.1", "by-ca");
	cfg.node_name = "";
	expect_pods("ca");
}

Test(kubelet, without_a_node_name_a_certificate_without_the_address_is_refused)
{
	start("127.0.0.1", "own");
	cfg.node_name = "";
	cfg.kubelet_tls_mode = "node-cert";
	expect_failure(KUBELET_TLS_NAME, "is for another name");
}

Test(kubelet, an_expired_certificate_is_told_apart)
{
	start("127.0.0.1", "expired");
	expect_failure(KUBELET_TLS_EXPIRED, "has expired");
}

Test(kubelet, a_certificate_of_the_future_is_told_apart)
{
	start("127.0.0.1", "future");
	expect_failure(KUBELET_TLS_EXPIRED, "is not valid yet");
}

Test(kubelet, the_node_s_own_certificate_may_expire_too)
{
	start("127.0.0.1", "own-expired");
	cfg.kubelet_tls_node_cert = CERTS "/own-expired.crt";
	expect_failure(KUBELET_TLS_EXPIRED, "has expired");
}

Test(kubelet, mode_insecure_takes_any_certificate)
{
	start("127.0.0.1", "expired");
	cfg.kubelet_tls_mode = "insecure";
	expect_pods("insecure");
}

Test(kubelet, a_missing_ca_file_is_named_and_the_pin_still_works)
{
	start("127.0.0.1", "own");
	cfg.kubelet_tls_ca_file = "/nowhere/ca.crt";
	expect_pods("node-cert");
	kubelet_free(&k);
	cfg.kubelet_tls_mode = "ca";
	expect_failure(KUBELET_TLS_CA, "/nowhere/ca.crt");
}

Test(kubelet, a_missing_certificate_of_the_node_is_named)
{
	start("127.0.0.1", "own");
	cfg.kubelet_tls_node_cert = "/nowhere/kubelet.crt";
	expect_failure(KUBELET_TLS_CA, "/nowhere/kubelet.crt cannot be read: No such file");
}

Test(kubelet, ipv6_addresses_are_put_in_brackets)
{
	start("::1", "by-ca");
	expect_pods("ca");
}

Test(kubelet, the_endpoint_follows_from_the_node_s_address)
{
	struct kubelet_state state;

	cfg.kubelet_endpoint = "";
	cr_expect_eq(kubelet_new(&k, &cfg), -EINVAL, "neither is set");
	cfg.node_ip = "::1"; /* nobody listens there */
	ask();
	cr_assert_eq(drive(5), 0);
	kubelet_state(k, &state);
	cr_expect_eq(state.why, KUBELET_CONNECT);
	cr_expect(strstr(state.message, "kubelet [::1]:10250: it cannot be reached"), "%s",
		  state.message);
}

Test(kubelet, nonsense_for_an_endpoint_is_refused)
{
	cfg.kubelet_endpoint = "ftp://127.0.0.1";
	cr_expect_eq(kubelet_new(&k, &cfg), -EINVAL);
	cfg.kubelet_endpoint = "https://";
	cr_expect_eq(kubelet_new(&k, &cfg), -EINVAL);
}

Test(kubelet, a_rotated_token_is_read_anew)
{
	char line[256], old[160], fresh[160];

	(void)snprintf(old, sizeof(old), "%s/token-1", dir);
	(void)snprintf(fresh, sizeof(fresh), "%s/token-2", dir);
	write_text(old, "secret-1");
	write_text(fresh, "secret-2");
	cr_assert_eq(unlink(token_file), 0);
	cr_assert_eq(symlink(old, token_file), 0);
	start("127.0.0.1", "by-ca");
	expect_pods("ca");
	cr_assert_eq(unlink(token_file), 0);
	cr_assert_eq(symlink(fresh, token_file), 0);
	expect_pods("ca");
	(void)requests(line, sizeof(line));
	cr_expect(strstr(line, " secret-2"), "%s", line);
}

Test(kubelet, after_401_the_token_is_read_once_more_and_the_request_repeated)
{
	char line[256];
	struct stat st;
	struct timespec times[2];
	int fd;

	start("127.0.0.1", "by-ca");
	expect_pods("ca");
	/* Another content behind the same size and modification time: the file does not look
	 * changed, but is. */
	write_text(scenario_file, "401");
	expect_failure(KUBELET_UNAUTHORIZED, "401");
	cr_expect_eq(requests(line, sizeof(line)), 3, "once more, and not again");
	(void)stat(token_file, &st);
	times[0] = st.st_atim;
	times[1] = st.st_mtim;
	fd = open(token_file, O_WRONLY);
	cr_assert_eq(pwrite(fd, "secret-2", 8, 0), 8);
	(void)futimens(fd, times);
	(void)close(fd);
	write_text(scenario_file, "token:secret-2");
	cr_expect_eq(drive(5), 1);
}

Test(kubelet, answer_401_names_the_token_s_file)
{
	start("127.0.0.1", "by-ca");
	write_text(scenario_file, "401");
	expect_failure(KUBELET_UNAUTHORIZED, token_file);
}

Test(kubelet, answer_403_names_the_missing_rule)
{
	start("127.0.0.1", "by-ca");
	write_text(scenario_file, "403");
	expect_failure(KUBELET_FORBIDDEN, "resources [nodes/pods] verbs [get]");
	expect_failure(KUBELET_FORBIDDEN, "user=system:serviceaccount:spoor:spoor");
}

Test(kubelet, other_answers_are_shown)
{
	start("127.0.0.1", "by-ca");
	write_text(scenario_file, "500");
	expect_failure(KUBELET_HTTP, "answers 500: boom");
}

Test(kubelet, nobody_there_is_told)
{
	(void)snprintf(endpoint, sizeof(endpoint), "https://127.0.0.1:1");
	expect_failure(KUBELET_CONNECT, "127.0.0.1:1: it cannot be reached");
}

Test(kubelet, a_closed_connection_is_told)
{
	start("127.0.0.1", "by-ca");
	write_text(scenario_file, "close");
	expect_failure(KUBELET_CONNECT, "closed the connection without an answer");
}

Test(kubelet, an_answer_that_does_not_come_is_given_up)
{
	double begin;

	start("127.0.0.1", "by-ca");
	write_text(scenario_file, "slow");
	cfg.kubelet_timeout = 300;
	begin = now();
	expect_failure(KUBELET_TIMEOUT, "kubelet.timeout (300 ms)");
	cr_expect_lt(now() - begin, 1.5);
}

Test(kubelet, a_truncated_answer_is_told_whether_http_or_json_is_cut)
{
	start("127.0.0.1", "by-ca");
	write_text(scenario_file, "truncated");
	expect_failure(KUBELET_TRUNCATED, "truncated after 100 bytes");
	write_text(scenario_file, "cut");
	expect_failure(KUBELET_TRUNCATED, "ends too early, after 100 bytes");
}

Test(kubelet, an_answer_that_is_no_pod_list_is_told)
{
	start("127.0.0.1", "by-ca");
	write_text(scenario_file, "garbage");
	expect_failure(KUBELET_PARSE, "JSON, byte 0");
}

Test(kubelet, an_answer_without_end_is_cut_off)
{
	start("127.0.0.1", "by-ca");
	write_text(scenario_file, "large");
	expect_failure(KUBELET_TOO_LARGE, "larger than kubelet.max_response (65536 bytes)");
}

Test(kubelet, a_token_file_that_is_missing_or_holds_no_token_is_told)
{
	start("127.0.0.1", "by-ca");
	write_text(token_file, "two\nlines\n");
	expect_failure(KUBELET_TOKEN, "holds no token");
	write_text(token_file, " \n");
	expect_failure(KUBELET_TOKEN, "holds no token");
	cr_assert_eq(unlink(token_file), 0);
	expect_failure(KUBELET_TOKEN, "cannot be read: No such file");
}

Test(kubelet, the_token_never_travels_in_the_clear)
{
	char line[256];

	start("127.0.0.1", "-");
	expect_pods("none");
	cr_expect_eq(requests(line, sizeof(line)), 1);
	cr_expect(strstr(line, " -"), "%s", line);
}

Test(kubelet, a_failure_passes_and_is_forgotten)
{
	start("127.0.0.1", "by-ca");
	write_text(scenario_file, "500");
	expect_failure(KUBELET_HTTP, "500");
	write_text(scenario_file, "ok");
	cr_expect_eq(drive(4), 1, "it comes back by itself");
	expect_pods("ca");
}

Test(kubelet, requests_keep_their_distance)
{
	char line[256];

	cfg.kubelet_min_refresh = 1000;
	start("127.0.0.1", "by-ca");
	expect_pods("ca");
	for (int i = 0; i < 5; i++) {
		kubelet_refresh(k);
		cr_expect_eq(drive(0.01), -1);
	}
	cr_expect_eq(requests(line, sizeof(line)), 1);
	cr_expect_eq(drive(2), 1, "the one that was asked for comes in its time");
}

Test(kubelet, a_list_is_asked_for_every_so_often)
{
	cfg.kubelet_refresh = 300;
	start("127.0.0.1", "by-ca");
	expect_pods("ca");
	cr_expect_eq(drive(2), 1);
	cr_expect_eq(drive(2), 1);
}

Test(kubelet, whether_it_is_asked_follows_from_the_surroundings)
{
	cfg.kubelet_source = "auto";
	cr_expect(kubelet_wanted(&cfg));
	cfg.node_name = "";
	cr_expect(kubelet_wanted(&cfg), "the token's file is there");
	cfg.kubelet_token_file = "/nowhere";
	cr_expect_not(kubelet_wanted(&cfg));
	cfg.node_ip = "10.0.0.1";
	cr_expect(kubelet_wanted(&cfg));
	cfg.kubelet_source = "none";
	cr_expect_not(kubelet_wanted(&cfg));
}
