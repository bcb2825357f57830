#include "check.h"

#include "base/config.h"
#include "base/log.h"
#include "trace/attach.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>

static struct config *config_of(const char *a, const char *b, const char *c)
{
	char *argv[] = { (char *)"check", (char *)a, (char *)b, (char *)c, NULL };
	struct config *cfg = NULL;

	(void)clearenv();
	log_setup(LOG_ERROR, false);
	cr_assert_eq(config_load(&cfg, c ? 4 : b ? 3 : a ? 2 : 1, argv, NULL), 0);
	return cfg;
}

Test(check, a_row_has_cost_and_remedy_only_where_something_is_lost)
{
	struct checks c = { 0 };

	cr_assert_str_empty(check_add(&c, "a", CHECK_OK, "cost", "todo")->cost);
	cr_assert_str_empty(check_add(&c, "b", CHECK_SKIPPED, "cost", "todo")->todo);
	cr_assert_str_eq(check_add(&c, "c", CHECK_DEGRADED, "cost", "todo")->cost, "cost");
	cr_assert_str_eq(check_add(&c, "d", CHECK_MISSING, "cost", "todo")->todo, "todo");
	cr_assert_eq(check_find(&c, "c")->state, CHECK_DEGRADED);
	cr_assert_null(check_find(&c, "e"));
}

Test(check, more_rows_than_there_is_room_for_do_no_harm)
{
	struct checks c = { 0 };

	for (int i = 0; i < CHECKS_MAX + 10; i++)
		(void)check_add(&c, "x", CHECK_OK, "", "");
	cr_assert_eq(c.n, CHECKS_MAX);
}

Test(check, the_system_is_looked_at_row_by_row)
{
	static const char *const names[] = { "CAP_BPF",
					     "CAP_PERFMON",
					     "CAP_SYS_PTRACE",
					     "CAP_DAC_READ_SEARCH",
					     "user namespace",
					     "kernel",
					     "bpf(2) allowed",
					     "AppArmor, SELinux",
					     "host PID namespace",
					     "lockdown",
					     "kernel BTF",
					     "memlock",
					     "cgroups" };
	auto_config struct config *cfg = config_of(NULL, NULL, NULL);
	struct checks c = { 0 };

	check_system(&c, cfg);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct check *row = check_find(&c, names[i]);

		cr_expect(row && *row->found, "%s", names[i]);
	}
	cr_assert(strncmp(check_find(&c, "kernel")->found, "6.", 2) == 0 ||
		  *check_find(&c, "kernel")->found);
}

Test(check, what_loading_found_out_is_told)
{
	const struct attach_kernel all = { .uprobe_multi = true,
					   .pid_filter_exact = true,
					   .exec_events = true };
	const struct attach_kernel hints = { .uprobe_multi = true,
					     .exec_events = true,
					     .own_pid_namespace = true };
	const struct attach_kernel none = { .uprobe_multi = true };
	struct checks c = { 0 };

	check_attached(&c, 0, &all);
	cr_assert_eq(check_find(&c, "exec notification")->state, CHECK_OK);
	c.n = 0;
	check_attached(&c, 0, &hints);
	cr_assert(strstr(check_find(&c, "exec notification")->found, "hint"));
	c.n = 0;
	check_attached(&c, 0, &none);
	cr_assert_eq(check_find(&c, "exec notification")->state, CHECK_DEGRADED);
	c.n = 0;
	check_attached(&c, -ENOTSUP, NULL);
	cr_assert_eq(check_find(&c, "uprobe_multi")->state, CHECK_MISSING);
	cr_assert(strstr(check_find(&c, "uprobe_multi")->todo, "6.6"));
}

Test(check, without_kubernetes_the_kubelet_is_not_asked)
{
	auto_config struct config *cfg =
		config_of("--exporters=none", "--kubelet-token-file=/nonexistent", NULL);
	struct checks c = { 0 };

	check_network(&c, cfg);
	cr_assert_eq(check_find(&c, "kubelet")->state, CHECK_SKIPPED);
	cr_assert_eq(check_find(&c, "collector")->state, CHECK_SKIPPED);
}

Test(check, a_kubelet_and_a_collector_that_are_not_there_are_told_with_their_address)
{
	auto_config struct config *cfg =
		config_of("--otlp-endpoint=http://127.0.0.1:1",
			  "--kubelet-endpoint=https://127.0.0.1:2", "--kubelet-source=kubelet");
	struct checks c = { 0 };

	check_network(&c, cfg);
	cr_assert_eq(check_find(&c, "kubelet")->state, CHECK_MISSING);
	cr_assert_gt(strlen(check_find(&c, "kubelet")->found), 10);
	cr_assert_eq(check_find(&c, "collector")->state, CHECK_DEGRADED);
	cr_assert(strstr(check_find(&c, "collector")->found, "127.0.0.1:1"), "%s",
		  check_find(&c, "collector")->found);
	cr_assert_null(strstr(strstr(check_find(&c, "collector")->found, "127.0.0.1:1") + 1,
			      "127.0.0.1:1"),
		       "named once");
}

/* Answers one request with 200 and no body. */
static void *answer_once(void *arg)
{
	static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Type: "
				 "application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
	char request[4096];
	int fd = accept(*(int *)arg, NULL, NULL);

	if (recv(fd, request, sizeof(request), 0) > 0)
		(void)!send(fd, ok, sizeof(ok) - 1, MSG_NOSIGNAL);
	(void)close(fd);
	return NULL;
}

Test(check, a_collector_that_answers_is_ok)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char endpoint[64];
	pthread_t thread;
	struct checks c = { 0 };

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(fd, (struct sockaddr *)&at, size), 0);
	cr_assert_eq(listen(fd, 1), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	(void)snprintf(endpoint, sizeof(endpoint), "--otlp-endpoint=http://127.0.0.1:%u",
		       ntohs(at.sin_port));
	cr_assert_eq(pthread_create(&thread, NULL, answer_once, &fd), 0);
	{
		auto_config struct config *cfg = config_of(endpoint, "--kubelet-source=none", NULL);

		check_network(&c, cfg);
	}
	(void)pthread_join(thread, NULL);
	(void)close(fd);
	cr_assert_eq(check_find(&c, "collector")->state, CHECK_OK, "%s",
		     check_find(&c, "collector")->found);
	cr_assert(strstr(check_find(&c, "collector")->found, "/v1/traces: accepts spans"));
}

Test(check, the_rows_are_json_for_the_status_page)
{
	struct checks c = { 0 };
	json_t *root = json_object(), *row;

	(void)snprintf(check_add(&c, "a", CHECK_MISSING, "cost", "todo")->found, 16,
		       "not \"held\"");
	cr_assert_eq(check_json(&c, root, "checks"), 0);
	row = json_array_get(json_object_get(root, "checks"), 0);
	cr_assert_str_eq(json_string_value(json_object_get(row, "name")), "a");
	cr_assert_str_eq(json_string_value(json_object_get(row, "state")), "missing");
	cr_assert_str_eq(json_string_value(json_object_get(row, "found")), "not \"held\"");
	cr_assert_str_eq(json_string_value(json_object_get(row, "cost")), "cost");
	json_decref(root);
}
