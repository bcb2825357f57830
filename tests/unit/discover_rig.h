/* discover_rig.h - for the tests of discovery: a /proc, a kubelet, a worker and notifications of
 * execve made by hand. */
#pragma once
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

#define unused __attribute__((unused))

struct traced {
	int pid;
	char container[32];
	uint32_t signals;
};

static struct {
	pthread_mutex_t lock;
	struct traced *live[32];
	size_t nlive, jobs, renames, untraced, batches;
	int delay_ms; /* each job takes so long */
	enum worker_outcome outcome;
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

static char dir[] = BUILD_DIR "/discover-XXXXXX";
static char endpoint[64], scenario_file[128], list_file[128], log_file[128];
static pid_t server;
static int exec_pipe[2];
static struct config cfg;
static struct discover *d;

static unused void fake_trace(void *arg, const struct worker_job *job, struct worker_result *out)
{
	int delay;

	(void)arg;
	(void)pthread_mutex_lock(&fake.lock);
	out->renamed = job->rename;
	fake.renames += job->rename;
	if (job->rename) {
		(void)pthread_mutex_unlock(&fake.lock);
		return;
	}
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

static unused void fake_untrace(void *arg, struct traced **list, size_t n)
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

static unused void drain_pipe(void *arg, void (*seen)(const struct exec_event *ev, void *arg),
			      void *seen_arg)
{
	struct exec_event ev;

	(void)arg;
	while (read(exec_pipe[0], &ev, sizeof(ev)) == sizeof(ev))
		seen(&ev, seen_arg);
}

static unused void write_text(const char *path, const char *text)
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
static unused void process(int pid, const char *exe, int start_time, const char *container)
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

static unused void end_process(int pid)
{
	static const char *const files[] = { "exe", "cgroup", "stat", "" };
	char path[160];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)snprintf(path, sizeof(path), "%s/proc/%d/%s", dir, pid, files[i]);
		(void)remove(path);
	}
}

static unused void exec_event(int pid)
{
	struct exec_event ev = { .pid = (uint32_t)pid };
	struct timespec t;

	(void)clock_gettime(CLOCK_BOOTTIME, &t);
	ev.time_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	cr_assert_eq(write(exec_pipe[1], &ev, sizeof(ev)), sizeof(ev));
}

static unused void pods(const char *cart_annotations, const char *cart_id,
			const char *admin_annotations)
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

static unused void start_kubelet(void)
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

static unused void set_up(void)
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

static unused void tear_down(void)
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

static unused void start(void)
{
	const struct worker_backend backend = { NULL, fake_trace, fake_untrace, NULL };
	const struct discover_execs execs = { .fd = exec_pipe[0], .drain = drain_pipe };

	if (strcmp(cfg.kubelet_source, "none") != 0)
		start_kubelet();
	cr_assert_eq(discover_new_with(&d, &cfg, &backend, &execs, NULL), 0);
	cr_assert_eq(discover_start(d), 0);
}

/* What the status page says of a process; the caller frees. NULL: nothing. */
static unused json_t *status_of(int pid)
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

static unused bool in_state(int pid, const char *state, const char *reason)
{
	json_t *one = status_of(pid);
	bool is = one ? strcmp(json_string_value(json_object_get(one, "state")), state) == 0 &&
				  strstr(json_string_value(json_object_get(one, "reason")), reason)
		      : strcmp(state, "unknown") == 0;

	json_decref(one);
	return is;
}

static unused void expect_state(int pid, const char *state, const char *reason)
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
static unused size_t live(int pid)
{
	size_t n = 0;

	(void)pthread_mutex_lock(&fake.lock);
	for (size_t i = 0; i < fake.nlive; i++)
		n += fake.live[i]->pid == pid;
	(void)pthread_mutex_unlock(&fake.lock);
	return n;
}

static unused void expect_live(int pid, size_t n)
{
	for (int i = 0; i < 500 && live(pid) != n; i++)
		(void)usleep(10000);
	cr_assert_eq(live(pid), n, "process %d: %zu", pid, live(pid));
}

static unused size_t jobs(void)
{
	size_t n;

	(void)pthread_mutex_lock(&fake.lock);
	n = fake.jobs;
	(void)pthread_mutex_unlock(&fake.lock);
	return n;
}

static unused size_t untraced(void)
{
	size_t n;

	(void)pthread_mutex_lock(&fake.lock);
	n = fake.untraced;
	(void)pthread_mutex_unlock(&fake.lock);
	return n;
}

/* What the one live tracing was made with. */
static unused struct traced first(void)
{
	struct traced t = { 0 };

	(void)pthread_mutex_lock(&fake.lock);
	if (fake.nlive)
		t = *fake.live[0];
	(void)pthread_mutex_unlock(&fake.lock);
	return t;
}

static unused size_t renames(void)
{
	size_t n;

	(void)pthread_mutex_lock(&fake.lock);
	n = fake.renames;
	(void)pthread_mutex_unlock(&fake.lock);
	return n;
}
