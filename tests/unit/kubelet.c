#include "kubelet_rig.h"

TestSuite(kubelet, .init = set_up, .fini = tear_down, .timeout = 60);

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
