/* Needs root: processes that come, end, change and are not meant, traced as in attach.c. */
#include "toy_rig.h"
#include "trace/ringbuf.h"
#include <poll.h>
#include <pthread.h>
#include <sched.h>

TestSuite(attach_process, .init = set_up, .fini = tear_down, .timeout = 60);

Test(attach_process, a_process_that_has_not_opted_in_is_not_touched_though_it_runs_the_same_file)
{
	struct child other = start_child();
	struct attached *list[1];
	uint16_t slot;
	uint8_t before = first_byte(getpid());

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slot);
	cr_assert_neq(first_byte(getpid()), before, "the probe is in");
	cr_assert_eq(first_byte(other.pid), before);
	for (int i = 0; i < 10; i++)
		child_calls(&other, 2);
	(void)toy_place(4);
	cr_assert_eq(receive(1, NULL), 1);
	cr_assert_eq(stat_get(events), 1);
	attach_detach(attach, list, 1);
	cr_assert_eq(first_byte(getpid()), before, "and out");
	end_child(&other);
}

Test(attach_process, a_process_that_is_traced_anew_before_it_is_detached_gives_one_span_a_call)
{
	struct attached *list[2];
	uint16_t slots[2];

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slots[0]);
	(void)toy_place(1);
	attach_silence(attach, list[0]);
	list[1] = follow(getpid(), &slots[1]);
	for (int i = 0; i < 10; i++)
		(void)toy_place(2);
	cr_assert_eq(receive(10, NULL), 10);
	attach_detach(attach, list, 1);
	cr_assert_eq(stat_get(ops_opt_out), 1, "what was open is counted as ever");
	(void)toy_place(2);
	cr_assert_eq(receive(1, NULL), 1, "the other one goes on");
	cr_assert_eq(stat_get(events), 11);
	attach_detach(attach, list + 1, 1);
}

Test(attach_process,
     processes_that_have_ended_leave_nothing_behind_and_their_open_operations_are_counted)
{
	struct attached *list[8];
	struct child children[8];
	uint16_t slot;

	for (int i = 0; i < 8; i++) {
		children[i] = start_child();
		list[i] = follow(children[i].pid, &slot);
		child_calls(&children[i], 1);
		child_calls(&children[i], 3);
	}
	for (int i = 0; i < 7; i++)
		end_child(&children[i]);
	attach_detach(attach, list, 8);
	cr_assert_eq(stat_get(ops_process_exit), 14);
	cr_assert_eq(stat_get(ops_opt_out), 2);
	end_child(&children[7]);
}

Test(attach_process, a_process_that_is_gone_is_refused_with_that_reason)
{
	struct child c = start_child();
	struct attached *attached = NULL;
	const char *why = NULL;
	size_t n = 0;

	end_child(&c);
	cr_assert_eq(attach_process(&attached, attach, plan, c.pid, "/proc/self/exe", 3, 1, 0, 0,
				    &n, &why),
		     -ESRCH);
	cr_assert_str_eq(why, "the process is gone");
	cr_assert_null(attached);
}

struct seen {
	uint32_t pid;
	bool found;
};

static bool take_exec(void *arg, const void *data, size_t size)
{
	const struct exec_event *ev = data;
	struct seen *seen = arg;

	cr_assert_eq(size, sizeof(*ev));
	seen->found |= ev->pid == seen->pid;
	return true;
}

Test(attach_process, every_execve_on_the_machine_is_told)
{
	struct pollfd pfd = { .fd = attach_exec_fd(attach), .events = POLLIN };
	struct ringbuf *rb = NULL;
	struct seen seen = { 0 };
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl("/bin/true", "true", NULL);
		_exit(1);
	}
	seen.pid = (uint32_t)pid;
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert_eq(poll(&pfd, 1, 2000), 1);
	cr_assert_eq(ringbuf_open(&rb, pfd.fd), 0);
	cr_assert(ringbuf_read(rb, take_exec, &seen));
	ringbuf_close(&rb);
	cr_assert(seen.found);
}

/* A thread of ours that never pauses, so that there is always something in the ring. */
static atomic_bool calling;

static void *call_all_the_time(void *arg)
{
	while (atomic_load(&calling))
		(void)toy_place(2);
	return arg;
}

Test(attach_process, slots_of_ended_processes_come_back_also_while_the_ring_is_never_empty)
{
	struct attached *list[1], *other[1];
	pthread_t thread;
	uint16_t slot;

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slot);
	atomic_store(&calling, true);
	cr_assert_eq(pthread_create(&thread, NULL, call_all_the_time, NULL), 0);
	for (int i = 0; i < 10; i++) {
		struct child c = start_child();
		uint64_t until = clock_monotonic() + 5000000000u;

		other[0] = follow(c.pid, &slot);
		attach_detach(attach, other, 1);
		targets_retire(targets, slot);
		while (targets_retiring(targets) && clock_monotonic() < until) {
			for (struct batch *b; (b = pool_receive(pool, 1));)
				pool_put(pool, b);
		}
		cr_assert_not(targets_retiring(targets));
		end_child(&c);
	}
	atomic_store(&calling, false);
	(void)pthread_join(thread, NULL);
	attach_detach(attach, list, 1);
}

/* In there a process has other pids for itself than for BPF, as on kind and minikube. Exit status
 * 0: all as it should be. */
static int in_pid_namespace(void)
{
	struct attached *list[1];
	uint16_t slot;
	size_t got;

	if (getpid() != 1)
		return 2;
	set_up();
	if (!attach_kernel(attach)->own_pid_namespace || !attach_kernel(attach)->pid_filter_exact)
		return 3;
	if (ring_start(ring))
		return 4;
	list[0] = follow(getpid(), &slot);
	(void)toy_place(2);
	got = receive(1, NULL);
	attach_detach(attach, list, 1);
	tear_down();
	return got == 1 ? 0 : 5;
}

TestSuite(attach_nested, .timeout = 60);

Test(attach_nested, in_a_pid_namespace_of_its_own_the_agent_knows_it_and_traces_all_the_same)
{
	int status = -1;
	pid_t pid;

	cr_assert_eq(unshare(CLONE_NEWPID), 0);
	pid = fork();
	if (pid == 0)
		_exit(in_pid_namespace());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "%d", WEXITSTATUS(status));
}

Test(attach_nested, without_rights_it_is_refused_and_nothing_stays_open)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		struct attach *none = NULL;
		int before = dup(0), after, err;

		load_config("1MiB", "4096");
		if (setresuid(65534, 65534, 65534))
			_exit(2);
		err = attach_open(&none, cfg);
		after = dup(0);
		_exit(err == -EPERM && !none && after == before + 1 ? 0 : 3);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "%d", WEXITSTATUS(status));
}
