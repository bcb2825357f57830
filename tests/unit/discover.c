#include "discover_rig.h"

TestSuite(discover, .init = set_up, .fini = tear_down, .timeout = 60);

Test(discover, the_process_of_an_annotated_pod_is_traced_and_its_neighbour_not_touched)
{
	process(CART, "cart-server", 10, ID1);
	process(ADMIN, "admin-server", 11, ID2);
	start();
	expect_state(CART, "traced", "annotation spoor.dev/instrument is \"true\"");
	expect_state(ADMIN, "not_selected", "no annotation spoor.dev/instrument");
	cr_expect_eq(jobs(), 1, "only selected processes get to the worker");
	cr_expect_str_eq(first().container, "app");
	cr_expect_eq(stat_get(instrumented_processes), 1);
	cr_expect_eq(stat_get(attached_probes), 4);
}

Test(discover, an_annotation_is_followed_while_the_pod_runs)
{
	process(CART, "cart-server", 10, ID1);
	process(ADMIN, "admin-server", 11, ID2);
	start();
	expect_live(CART, 1);
	pods(OFF, ID1, ON);
	expect_live(CART, 0);
	expect_live(ADMIN, 1);
	expect_state(CART, "not_selected", "annotation spoor.dev/instrument is \"false\"");
	pods(ON, ID1, "");
	expect_live(CART, 1);
	expect_live(ADMIN, 0);
	cr_expect_eq(stat_get(attached_probes), 4);
}

Test(discover, a_signal_that_is_switched_off_is_no_longer_asked_for)
{
	process(CART, "cart-server", 10, ID1);
	start();
	expect_live(CART, 1);
	cr_expect_eq(first().signals, SIGNAL_TRACES | SIGNAL_METRICS);
	pods(ON ", \"spoor.dev/metrics\": \"false\"", ID1, "");
	for (int i = 0; i < 300 && (first().signals != SIGNAL_TRACES); i++)
		(void)usleep(10000);
	cr_expect_eq(first().signals, SIGNAL_TRACES);
}

Test(discover, labels_and_annotations_that_change_are_told_to_the_worker_and_no_probe_is_touched)
{
	process(CART, "cart-server", 10, ID1);
	start();
	expect_live(CART, 1);
	cr_expect_eq(renames(), 0);
	pods(ON ", \"resource.opentelemetry.io/service.name\": \"shop\"", ID1, "");
	for (int i = 0; i < 300 && renames() == 0; i++)
		(void)usleep(10000);
	(void)usleep(300000); /* some more lists that say the same */
	cr_expect_eq(renames(), 1);
	cr_expect_eq(jobs(), 1);
	cr_expect_eq(untraced(), 0);
	expect_state(CART, "traced", "");
}

Test(discover, a_container_that_the_kubelet_does_not_know_yet_is_waited_for)
{
	cfg.kubelet_refresh = 3600000; /* only what asks for a list gets one */
	process(CART, "cart-server", 10, ID3);
	start();
	expect_state(CART, "pending",
		     "the kubelet does not know container 333333333333 of this pod yet");
	cr_expect_eq(jobs(), 0, "nothing is opened before the decision");
	pods(ON, ID3, "");
	expect_state(CART, "traced", "annotation");
}

Test(discover, a_kubelet_that_fails_is_waited_for_and_said_not_to_be_ready)
{
	char reason[256] = "", text[160];

	write_text(scenario_file, "500");
	process(CART, "cart-server", 10, ID1);
	start();
	for (int i = 0; i < 300 && !strstr(reason, "answers 500"); i++) {
		cr_assert_not(discover_ready(d, reason, sizeof(reason)));
		(void)usleep(10000);
	}
	cr_expect(strstr(reason, "answers 500: boom"), "%s", reason);
	expect_state(CART, "pending", "the kubelet has not told its pods yet");
	(void)snprintf(text, sizeof(text), "file:%s", list_file);
	write_text(scenario_file, text);
	expect_state(CART, "traced", "annotation");
	cr_expect(discover_ready(d, reason, sizeof(reason)));
	write_text(scenario_file, "500");
	(void)usleep(600000);
	cr_expect(discover_ready(d, reason, sizeof(reason)), "later failures do not unready");
	expect_state(CART, "traced", "annotation");
}

Test(discover, a_new_process_is_seen_at_execve)
{
	start();
	expect_state(CART, "unknown", "");
	process(CART, "cart-server", 10, ID1);
	exec_event(CART);
	expect_state(CART, "traced", "annotation");
}

Test(discover, a_shell_that_becomes_the_program_is_looked_at_again)
{
	start();
	process(CART, "shell", 10, ID1);
	exec_event(CART);
	expect_state(CART, "not_go", "as the test wants it");
	process(CART, "cart-server", 10, ID1);
	exec_event(CART);
	expect_state(CART, "traced", "annotation");
}

Test(discover, a_program_that_executes_itself_gets_new_probes)
{
	process(CART, "cart-server", 10, ID1);
	start();
	expect_live(CART, 1);
	exec_event(CART);
	for (int i = 0; i < 300 && jobs() != 2; i++)
		(void)usleep(10000);
	expect_live(CART, 1);
	cr_expect_eq(jobs(), 2);
	cr_expect_eq(untraced(), 1);
}

#define STAT_WITH_STACK(at)                                                                        \
	"5000001 (cart) S 1 1 1 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 10 1000 20 1 1 1 " at " 0\n"

Test(discover, that_a_program_has_executed_itself_is_seen_by_a_scan_as_well)
{
	char path[160];

	(void)snprintf(path, sizeof(path), "%s/proc/%d/stat", dir, CART);
	process(CART, "cart-server", 10, ID1);
	write_text(path, STAT_WITH_STACK("140736"));
	start();
	expect_live(CART, 1);
	write_text(path, STAT_WITH_STACK("140735"));
	pods(ON, ID1, ON); /* something new: /proc is looked through */
	for (int i = 0; i < 300 && jobs() < 2; i++)
		(void)usleep(10000);
	cr_expect_eq(jobs(), 2);
	expect_live(CART, 1);
}

Test(discover, an_execve_that_was_seen_already_is_not_one_more)
{
	struct exec_event ev = { .pid = CART, .time_ns = 1 };

	process(CART, "cart-server", 10, ID1);
	start();
	expect_live(CART, 1);
	cr_assert_eq(write(exec_pipe[1], &ev, sizeof(ev)), sizeof(ev));
	(void)usleep(300000);
	cr_expect_eq(jobs(), 1);
}

Test(discover, what_is_no_go_program_is_analysed_once)
{
	process(CART, "shell", 10, ID1);
	start();
	expect_state(CART, "not_go", "as the test wants it");
	pods(ON ", \"x\": \"1\"", ID1, "");
	(void)usleep(700000);
	cr_expect_eq(jobs(), 1);
	pods(OFF, ID1, "");
	expect_state(CART, "not_selected", "false");
	pods(ON, ID1, "");
	expect_state(CART, "not_go", "as the test wants it");
	cr_expect_eq(jobs(), 1);
}

Test(discover, a_pid_that_is_reused_is_another_process)
{
	process(CART, "cart-server", 10, ID1);
	start();
	expect_live(CART, 1);
	process(CART, "cart-server", 99, ID2);
	exec_event(CART);
	expect_live(CART, 0);
	expect_state(CART, "not_selected", "no annotation");
}

Test(discover, a_process_that_moves_into_its_cgroup_late_is_traced)
{
	start();
	process(CART, "cart-server", 10, "");
	exec_event(CART);
	expect_state(CART, "not_selected", "in no pod");
	process(CART, "cart-server", 10, ID1);
	expect_state(CART, "traced", "annotation");
}

Test(discover, a_traced_process_that_moves_into_a_pod_is_traced_as_that_pods)
{
	char *globs[] = { "*/cart-server", NULL };
	char path[160];

	cfg.select_executables = (struct list){ globs, 1 };
	process(CART, "cart-server", 10, "");
	start();
	expect_live(CART, 1);
	cr_expect_str_eq(first().container, "");
	(void)snprintf(path, sizeof(path), "%s/proc/%d/cgroup", dir, CART);
	write_text(path, "0::/kubepods/podu1/" ID1 "\n");
	pods(ON, ID1, ON); /* something new: /proc is looked through */
	for (int i = 0; i < 300 && strcmp(first().container, "app") != 0; i++)
		(void)usleep(10000);
	cr_expect_str_eq(first().container, "app");
	expect_live(CART, 1);
}

Test(discover, an_annotation_that_goes_while_probes_are_being_attached_is_followed)
{
	fake.delay_ms = 1000;
	process(CART, "cart-server", 10, ID1);
	start();
	expect_state(CART, "pending", "probes are being attached");
	pods("", ID1, "");
	expect_state(CART, "not_selected", "no annotation");
	for (int i = 0; i < 300 && untraced() != 1; i++)
		(void)usleep(10000);
	cr_expect_eq(untraced(), 1);
	expect_live(CART, 0);
}

Test(discover, a_failure_is_tried_again)
{
	fake.outcome = WORKER_FAILED;
	process(CART, "cart-server", 10, ID1);
	start();
	expect_state(CART, "failed", "as the test wants it");
	(void)pthread_mutex_lock(&fake.lock);
	fake.outcome = WORKER_TRACED;
	(void)pthread_mutex_unlock(&fake.lock);
	expect_state(CART, "traced", "annotation");
	cr_expect_eq(jobs(), 2);
}

Test(discover, what_the_worker_is_busy_with_is_undone_at_the_stop)
{
	fake.delay_ms = 300;
	process(CART, "cart-server", 10, ID1);
	process(ADMIN, "admin-server", 11, ID2);
	pods(ON, ID1, ON);
	start();
	expect_state(CART, "pending", "probes are being attached");
	discover_stop(d);
	cr_expect_eq(fake.nlive, 0);
}

Test(discover, the_end_of_a_process_is_told_by_its_pidfd)
{
	char text[32], *pids[] = { text, NULL };
	pid_t child = fork();

	if (child == 0) {
		(void)execlp("sleep", "sleep", "60", NULL);
		_exit(127);
	}
	(void)snprintf(text, sizeof(text), "%d", child);
	cfg.proc_root = "/proc";
	cfg.kubelet_source = "none";
	cfg.select_pids = (struct list){ pids, 1 };
	start();
	expect_state(child, "traced", "discovery.pids has");
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	expect_live(child, 0);
	expect_state(child, "unknown", "");
}

Test(discover, in_another_pid_namespace_an_execve_is_a_hint_to_look_through_proc)
{
	const struct worker_backend backend = { NULL, fake_trace, fake_untrace, NULL };
	const struct discover_execs execs = { .fd = exec_pipe[0],
					      .drain = drain_pipe,
					      .hints = true };

	start_kubelet();
	cr_assert_eq(discover_new_with(&d, &cfg, &backend, &execs, NULL), 0);
	cr_assert_eq(discover_start(d), 0);
	(void)usleep(700000);
	process(CART, "cart-server", 10, ID1);
	exec_event(12345); /* not its pid here */
	expect_state(CART, "traced", "annotation");
	end_process(CART);
	exec_event(12346);
	expect_live(CART, 0);
}
