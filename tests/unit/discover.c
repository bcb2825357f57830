#include "discover/discover.h"

#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"
#include "bpf/event.h"
#include "discover/worker.h"
#include "trace/target.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* Both threads on a /proc of our own and a scripted kubelet, with a backend that only notes what it
 * is asked for: no root needed. pids are above what a kernel gives, so that nobody else's process
 * is meant. */
#define CART  5000001
#define ADMIN 5000002
#define ID1   "1111111111111111111111111111111111111111111111111111111111111111"
#define ID2   "2222222222222222222222222222222222222222222222222222222222222222"
#define ID3   "3333333333333333333333333333333333333333333333333333333333333333"

struct traced {
	int pid;
	char container[32];
	uint32_t signals;
};

static struct {
	pthread_mutex_t lock;
	struct traced *live[32];
	size_t nlive, jobs, untraced, batches;
	int delay_ms; /* each job takes so long */
	enum worker_outcome outcome;
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

static char dir[] = "/tmp/spoor-discover-XXXXXX";
static char endpoint[64], scenario_file[128], list_file[128], log_file[128];
static pid_t server;
static int exec_pipe[2];
static struct config cfg;
static struct discover *d;

static void fake_trace(void *arg, const struct worker_job *job, struct worker_result *out)
{
	int delay;

	(void)arg;
	(void)pthread_mutex_lock(&fake.lock);
	delay = fake.delay_ms;
	fake.jobs++;
	out->outcome = strstr(job->proc.exe, "shell") ? WORKER_NOT_GO : fake.outcome;
	(void)pthread_mutex_unlock(&fake.lock);
	(void)usleep((useconds_t)delay * 1000);
	(void)snprintf(out->reason, sizeof(out->reason), "as the test wants it");
	(void)snprintf(out->go_version, sizeof(out->go_version), "go1.99");
	if (out->outcome != WORKER_TRACED)
		return;
	out->traced = calloc(1, sizeof(*out->traced));
	out->traced->pid = job->proc.pid;
	out->traced->signals = job->signals;
	(void)snprintf(out->traced->container, sizeof(out->traced->container), "%s",
		       job->container ? job->container->name : "");
	out->nprobes = 4;
	(void)pthread_mutex_lock(&fake.lock);
	fake.live[fake.nlive++] = out->traced;
	(void)pthread_mutex_unlock(&fake.lock);
}

static void fake_untrace(void *arg, struct traced **list, size_t n)
{
	(void)arg;
	(void)pthread_mutex_lock(&fake.lock);
	fake.batches++;
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < fake.nlive && fake.live[k] != list[i])
			k++;
		cr_assert_lt(k, fake.nlive, "what is untraced was traced");
		fake.live[k] = fake.live[--fake.nlive];
		fake.untraced++;
		free(list[i]);
	}
	(void)pthread_mutex_unlock(&fake.lock);
}

static void drain_pipe(void *arg, void (*seen)(const struct exec_event *ev, void *arg),
		       void *seen_arg)
{
	struct exec_event ev;

	(void)arg;
	while (read(exec_pipe[0], &ev, sizeof(ev)) == sizeof(ev))
		seen(&ev, seen_arg);
}

static void write_text(const char *path, const char *text)
{
	char fresh[160];
	FILE *f;

	/* At once, as /proc does it and as the server wants it. */
	(void)snprintf(fresh, sizeof(fresh), "%s.new", path);
	f = fopen(fresh, "w");
	cr_assert(f, "%s", path);
	(void)fputs(text, f);
	(void)fclose(f);
	cr_assert_eq(rename(fresh, path), 0);
}

/* A process of our /proc, as new or as changed. container "": in none. */
static void process(int pid, const char *exe, int start_time, const char *container)
{
	char path[160], fresh[200], text[512];

	(void)snprintf(path, sizeof(path), "%s/proc/%d", dir, pid);
	(void)mkdir(path, 0755);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, exe);
	write_text(path, exe);
	(void)snprintf(fresh, sizeof(fresh), "%s/proc/%d/exe.new", dir, pid);
	cr_assert_eq(symlink(path, fresh), 0);
	(void)snprintf(path, sizeof(path), "%s/proc/%d/exe", dir, pid);
	cr_assert_eq(rename(fresh, path), 0);
	(void)snprintf(path, sizeof(path), "%s/proc/%d/cgroup", dir, pid);
	(void)snprintf(text, sizeof(text),
		       *container ? "0::/kubepods/burstable/pod%s/%s\n" : "0::/user.slice\n",
		       strcmp(container, ID2) == 0 ? "u2" : "u1", container);
	write_text(path, text);
	(void)snprintf(path, sizeof(path), "%s/proc/%d/stat", dir, pid);
	(void)snprintf(
		text, sizeof(text),
		"%d (%s) S 1 1 1 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 %d 1000 20 1 1 1 0 0\n", pid,
		exe, start_time);
	write_text(path, text);
}

static void end_process(int pid)
{
	static const char *const files[] = { "exe", "cgroup", "stat", "" };
	char path[160];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/proc/%d/%s", dir, pid, files[i]);
		(void)remove(path);
	}
}

static void exec_event(int pid)
{
	struct exec_event ev = { .pid = (uint32_t)pid };
	struct timespec t;

	(void)clock_gettime(CLOCK_BOOTTIME, &t);
	ev.time_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	cr_assert_eq(write(exec_pipe[1], &ev, sizeof(ev)), sizeof(ev));
}

static void pods(const char *cart_annotations, const char *cart_id, const char *admin_annotations)
{
	char text[2048];

	(void)snprintf(text, sizeof(text),
		       "{\"kind\": \"PodList\", \"items\": [{\"metadata\": {\"uid\": \"u1\", "
		       "\"name\": \"cart\", \"namespace\":"
		       " \"shop\", \"annotations\": {%s}}, \"spec\": {\"containers\": [{\"name\": "
		       "\"app\"}]}, \"status\":"
		       " {\"containerStatuses\": [{\"name\": \"app\", \"containerID\": "
		       "\"containerd://%s\"}]}}, {\"metadata\":"
		       " {\"uid\": \"u2\", \"name\": \"admin\", \"namespace\": \"shop\", "
		       "\"annotations\": {%s}}, \"spec\":"
		       " {\"containers\": [{\"name\": \"web\"}]}, \"status\": "
		       "{\"containerStatuses\": [{\"name\": \"web\","
		       " \"containerID\": \"containerd://" ID2 "\"}]}}]}",
		       cart_annotations, cart_id, admin_annotations);
	write_text(list_file, text);
}

#define ON  "\"spoor.dev/instrument\": \"true\""
#define OFF "\"spoor.dev/instrument\": \"false\""

static void start_kubelet(void)
{
	char port[16] = "";
	int out[2];

	cr_assert_eq(pipe(out), 0);
	server = fork();
	if (server == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)dup2(out[1], 1);
		(void)close(out[0]);
		(void)execlp("python3", "python3", SOURCE_DIR "/tests/unit/kubelet_server.py",
			     "127.0.0.1", "-", "-", scenario_file, log_file, NULL);
		_exit(127);
	}
	(void)close(out[1]);
	cr_assert(read(out[0], port, sizeof(port) - 1) > 0);
	(void)snprintf(endpoint, sizeof(endpoint), "http://127.0.0.1:%d", atoi(port));
}

static void set_up(void)
{
	static char proc_root[128];
	char text[160];

	log_setup(LOG_ERROR, false);
	cr_assert(mkdtemp(dir));
	(void)snprintf(proc_root, sizeof(proc_root), "%s/proc", dir);
	cr_assert_eq(mkdir(proc_root, 0755), 0);
	(void)snprintf(scenario_file, sizeof(scenario_file), "%s/scenario", dir);
	(void)snprintf(list_file, sizeof(list_file), "%s/list", dir);
	(void)snprintf(log_file, sizeof(log_file), "%s/log", dir);
	(void)snprintf(text, sizeof(text), "file:%s", list_file);
	write_text(scenario_file, text);
	pods(ON, ID1, "");
	fake.outcome = WORKER_TRACED;
	cr_assert_eq(pipe2(exec_pipe, O_NONBLOCK | O_CLOEXEC), 0);
	cfg = (struct config){
		.proc_root = proc_root,
		.kubelet_source = "kubelet",
		.kubelet_endpoint = endpoint,
		.kubelet_refresh = 300,
		.kubelet_min_refresh = 50,
		.kubelet_timeout = 2000,
		.kubelet_max_response = 1 << 20,
		.kubelet_token_file = "",
		.kubelet_tls_mode = "auto",
		.kubelet_tls_server_name = "",
		.node_name = "node-1",
		.node_ip = "",
		.discovery_mode = "annotation",
		.annotation_prefix = "spoor.dev",
	};
}

static void tear_down(void)
{
	pid_t pid;

	discover_free(&d);
	cr_expect_eq(fake.nlive, 0, "all is untraced at the end");
	if (server > 0) {
		(void)kill(server, SIGKILL);
		(void)waitpid(server, NULL, 0);
	}
	pid = fork();
	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", dir, NULL);
		_exit(127);
	}
	(void)waitpid(pid, NULL, 0);
}

static void start(void)
{
	const struct worker_backend backend = { NULL, fake_trace, fake_untrace, NULL };
	const struct discover_execs execs = { .fd = exec_pipe[0], .drain = drain_pipe };

	if (strcmp(cfg.kubelet_source, "none") != 0)
		start_kubelet();
	cr_assert_eq(discover_new_with(&d, &cfg, &backend, &execs, NULL), 0);
	cr_assert_eq(discover_start(d), 0);
}

/* What the status page says of a process; the caller frees. NULL: nothing. */
static json_t *status_of(int pid)
{
	json_t *root = json_object(), *found = NULL, *one;
	size_t i;

	cr_assert_eq(discover_status(d, root), 0);
	json_array_foreach(json_object_get(root, "processes"), i, one)
	{
		if (json_integer_value(json_object_get(one, "pid")) == pid &&
		    strcmp(json_string_value(json_object_get(one, "state")), "ended") != 0)
			found = json_incref(one);
	}
	json_decref(root);
	return found;
}

static bool in_state(int pid, const char *state, const char *reason)
{
	json_t *one = status_of(pid);
	bool is = one ? strcmp(json_string_value(json_object_get(one, "state")), state) == 0 &&
				  strstr(json_string_value(json_object_get(one, "reason")), reason)
		      : strcmp(state, "unknown") == 0;

	json_decref(one);
	return is;
}

static void expect_state(int pid, const char *state, const char *reason)
{
	json_t *one;
	char *text;

	for (int i = 0; i < 500; i++) {
		if (in_state(pid, state, reason))
			return;
		(void)usleep(10000);
	}
	one = status_of(pid);
	text = one ? json_dumps(one, 0) : NULL;
	cr_assert(false, "process %d is not '%s' ('%s') but %s", pid, state, reason,
		  text ? text : "unknown");
}

/* Live tracings of a pid. */
static size_t live(int pid)
{
	size_t n = 0;

	(void)pthread_mutex_lock(&fake.lock);
	for (size_t i = 0; i < fake.nlive; i++)
		n += fake.live[i]->pid == pid;
	(void)pthread_mutex_unlock(&fake.lock);
	return n;
}

static void expect_live(int pid, size_t n)
{
	for (int i = 0; i < 500 && live(pid) != n; i++)
		(void)usleep(10000);
	cr_assert_eq(live(pid), n, "process %d: %zu", pid, live(pid));
}

static size_t jobs(void)
{
	size_t n;

	(void)pthread_mutex_lock(&fake.lock);
	n = fake.jobs;
	(void)pthread_mutex_unlock(&fake.lock);
	return n;
}

static size_t untraced(void)
{
	size_t n;

	(void)pthread_mutex_lock(&fake.lock);
	n = fake.untraced;
	(void)pthread_mutex_unlock(&fake.lock);
	return n;
}

/* What the one live tracing was made with. */
static struct traced first(void)
{
	struct traced t = { 0 };

	(void)pthread_mutex_lock(&fake.lock);
	if (fake.nlive)
		t = *fake.live[0];
	(void)pthread_mutex_unlock(&fake.lock);
	return t;
}

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
