#include "discover/proc.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OUTER "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
#define UID   "8f1d2c3b-0a4e-4f6e-9d7a-1b2c3d4e5f60"
#define UID_  "8f1d2c3b_0a4e_4f6e_9d7a_1b2c3d4e5f60"
#define HASH  "c0ffee00c0ffee00c0ffee00c0ffee00"

static const struct {
	const char *what, *cgroup, *id, *pod;
} layouts[] = {
	{ "containerd, systemd driver, v2",
	  "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
	  ".slice/cri-containerd-" ID ".scope\n",
	  ID, UID },
	{ "containerd, systemd driver, guaranteed pod",
	  "0::/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope\n", ID, UID },
	{ "containerd, cgroupfs driver, v2", "0::/kubepods/besteffort/pod" UID "/" ID "\n", ID,
	  UID },
	{ "cgroupfs driver, guaranteed pod", "0::/kubepods/pod" UID "/" ID "\n", ID, UID },
	{ "containerd that is not told of the kubelet's systemd driver",
	  "0::/system.slice/containerd.service/kubepods-besteffort-pod" UID_
	  ".slice:cri-containerd:" ID "\n",
	  ID, UID },
	{ "CRI-O, systemd driver",
	  "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
	  ".slice/crio-" ID ".scope\n",
	  ID, UID },
	{ "CRI-O with crun: the container in a cgroup below",
	  "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
	  ".slice/crio-" ID ".scope/container\n",
	  ID, UID },
	{ "CRI-O, cgroupfs driver", "0::/kubepods/burstable/pod" UID "/crio-" ID "\n", ID, UID },
	{ "CRI-O's monitor of a container is not in it",
	  "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
	  ".slice/crio-conmon-" ID ".scope\n",
	  "", "" },
	{ "Docker, systemd driver", "0::/system.slice/docker-" ID ".scope\n", ID, "" },
	{ "Docker, cgroupfs driver", "0::/docker/" ID "\n", ID, "" },
	{ "cri-dockerd",
	  "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
	  ".slice/docker-" ID ".scope\n",
	  ID, UID },
	{ "v1, all controllers",
	  "12:pids:/kubepods/burstable/pod" UID "/" ID "\n11:memory:/kubepods/burstable/pod" UID
	  "/" ID "\n1:name=systemd:/kubepods/burstable/pod" UID "/" ID "\n",
	  ID, UID },
	{ "hybrid: the v2 line names nothing",
	  "0::/\n4:memory:/kubepods/burstable/pod" UID "/" ID
	  "\n3:cpu,cpuacct:/kubepods/burstable/pod" UID "/" ID "\n",
	  ID, UID },
	{ "hybrid: the v2 line names the runtime's service",
	  "9:pids:/kubepods/burstable/pod" UID "/" ID "\n0::/system.slice/containerd.service\n", ID,
	  UID },
	{ "half-way into the container: one hierarchy first",
	  "3:memory:/kubepods/burstable/pod" UID "/" ID
	  "\n2:cpu:/system.slice/containerd.service\n0::/\n",
	  ID, UID },
	{ "kind, systemd driver: a node that is a container",
	  "0::/system.slice/docker-" OUTER
	  ".scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
	  "kubelet-kubepods-besteffort-pod" UID_ ".slice/cri-containerd-" ID ".scope\n",
	  ID, UID },
	{ "kind, cgroupfs driver",
	  "0::/docker/" OUTER "/kubelet/kubepods/besteffort/pod" UID "/" ID "\n", ID, UID },
	{ "kind, v1: a controller that the inner runtime does not have",
	  "13:misc:/docker/" OUTER "\n12:pids:/docker/" OUTER "/kubelet/kubepods/besteffort/pod" UID
	  "/" ID "\n",
	  ID, UID },
	{ "the node itself, as kind's own processes are",
	  "0::/docker/" OUTER "/system.slice/kubelet.service\n", OUTER, "" },
	{ "private cgroup namespace, another pod's",
	  "0::/../../kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope\n", ID, UID },
	{ "private cgroup namespace, a sibling", "0::/../cri-containerd-" ID ".scope\n", ID, "" },
	{ "private cgroup namespace, cgroupfs driver", "0::/../../pod" UID "/" ID "\n", ID, UID },
	{ "private cgroup namespace, our own", "0::/\n", "", "" },
	{ "systemd inside the container: sub-cgroups",
	  "0::/kubepods/burstable/pod" UID "/" ID "/system.slice/app.service\n", ID, UID },
	{ "Docker inside the pod: the innermost",
	  "0::/kubepods/burstable/pod" UID "/" OUTER "/docker/" ID "\n", ID, "" },
	{ "static pod: the hash of its manifest",
	  "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" HASH
	  ".slice/cri-containerd-" ID ".scope\n",
	  ID, HASH },
	{ "podman", "0::/machine.slice/libpod-" ID ".scope\n", ID, "" },
	{ "podman, rootless, container below",
	  "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
	  ".scope/container\n",
	  ID, "" },
	{ "podman's monitor", "0::/machine.slice/libpod-conmon-" ID ".scope\n", "", "" },
	{ "nerdctl", "0::/system.slice/nerdctl-" ID ".scope\n", ID, "" },
	{ "containerd's own name space", "0::/k8s.io/" ID "\n", ID, "" },
	{ "k3s", "0::/kubepods/besteffort/pod" UID "/" ID "\n", ID, UID },
	{ "a removed cgroup", "0::/kubepods/burstable/pod" UID "/" ID " (deleted)\n", ID, UID },
	{ "no newline at the end", "0::/kubepods/burstable/pod" UID "/" ID, ID, UID },
	{ "a service of the host", "0::/system.slice/sshd.service\n", "", "" },
	{ "a user's session", "0::/user.slice/user-1000.slice/session-3.scope\n", "", "" },
	{ "the kubelet's own", "0::/kubepods.slice\n", "", "" },
	{ "63 digits",
	  "0::/docker/123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n", "", "" },
	{ "65 digits", "0::/docker/0" ID "\n", "", "" },
	{ "capitals",
	  "0::/docker/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\n", "", "" },
	{ "a word before the digits", "0::/docker/x" ID "\n", "", "" },
	{ "no colons", "garbage\n/docker/" ID "\n", "", "" },
	{ "nothing", "", "", "" },
};

Test(proc, every_cgroup_layout_names_its_innermost_container_and_its_pod)
{
	for (size_t i = 0; i < ARRAY_SIZE(layouts); i++) {
		struct proc_cgroup got;

		proc_cgroup_parse(layouts[i].cgroup, strlen(layouts[i].cgroup), &got);
		cr_expect_str_eq(got.container_id, layouts[i].id, "%s: id '%s'", layouts[i].what,
				 got.container_id);
		cr_expect_str_eq(got.pod_uid, layouts[i].pod, "%s: pod '%s'", layouts[i].what,
				 got.pod_uid);
	}
}

/* A /proc of our own: one process with the files that are read. */
static char root[] = BUILD_DIR "/proc-XXXXXX";

static void write_file(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	f = fopen(path, "w");
	cr_assert(f);
	(void)fputs(text, f);
	(void)fclose(f);
}

static void make_proc(void)
{
	char path[256];

	cr_assert(mkdtemp(root));
	(void)snprintf(path, sizeof(path), "%s/42", root);
	cr_assert_eq(mkdir(path, 0755), 0);
	write_file("42/cgroup", "0::/kubepods/burstable/pod" UID "/" ID "\n");
	(void)snprintf(path, sizeof(path), "%s/42/exe", root);
	cr_assert_eq(symlink("/proc/self/exe", path), 0);
}

static void remove_proc(void)
{
	char command[256];
	pid_t pid = fork();

	(void)snprintf(command, sizeof(command), "%s", root);
	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", command, NULL);
		_exit(127);
	}
	(void)waitpid(pid, NULL, 0);
}

#define STAT(name, state, flags, start)                                                            \
	"42 (" name ") " state " 1 42 42 0 -1 " flags " 100 0 0 0 1 2 0 0 20 0 1 0 " start         \
	" 1000000 200 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0\n"

Test(proc, odd_command_names_do_not_shift_the_start_time, .init = make_proc, .fini = remove_proc)
{
	static const char *const stats[] = {
		STAT("app", "S", "4194304", "4711"),
		STAT("a b) S 1 (c", "S", "4194304", "4711"),
		STAT("))) R 9 9 9", "R", "4194304", "4711"),
		STAT("", "S", "4194304", "4711"),
		STAT("new\nline", "S", "4194304", "4711"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(stats); i++) {
		uint64_t start = 0;

		write_file("42/stat", stats[i]);
		cr_expect_eq(proc_start_time(root, 42, &start), 0, "%s", stats[i]);
		cr_expect_eq(start, 4711, "%s", stats[i]);
	}
}

Test(proc, a_process_is_read_with_its_container, .init = make_proc, .fini = remove_proc)
{
	struct process p;
	struct stat st;

	write_file("42/stat", STAT("app", "S", "4194304", "4711"));
	cr_assert_eq(proc_read(&p, root, 42), 0);
	cr_assert_eq(stat("/proc/self/exe", &st), 0);
	cr_expect_eq(p.pid, 42);
	cr_expect_eq(p.start_time, 4711);
	cr_expect_str_eq(p.container_id, ID);
	cr_expect_str_eq(p.pod_uid, UID);
	cr_expect_eq(p.ino, st.st_ino);
	cr_expect_eq(p.dev, st.st_dev);
}

Test(proc, kernel_threads_zombies_and_the_dead_are_told_apart, .init = make_proc,
     .fini = remove_proc)
{
	struct process p = { .pid = 7 };

	write_file("42/stat", STAT("kworker/0:1", "I", "69238880", "4711"));
	cr_expect_eq(proc_read(&p, root, 42), -ENOEXEC);
	write_file("42/stat", STAT("gone", "Z", "4194304", "4711"));
	cr_expect_eq(proc_read(&p, root, 42), -ESRCH);
	cr_expect_eq(proc_read(&p, root, 43), -ESRCH);
	write_file("42/stat", "garbage");
	cr_expect_eq(proc_read(&p, root, 42), -EBADMSG);
	cr_expect_eq(p.pid, 7, "*out is written on success only");
}

Test(proc, a_process_without_its_executable_is_to_be_looked_at_again, .init = make_proc,
     .fini = remove_proc)
{
	struct process p;
	char path[256];

	write_file("42/stat", STAT("app", "S", "4194304", "4711"));
	(void)snprintf(path, sizeof(path), "%s/42/exe", root);
	cr_assert_eq(unlink(path), 0);
	cr_expect_eq(proc_read(&p, root, 42), -EAGAIN);
}

Test(proc, a_deleted_executable_is_named_without_the_kernel_s_mark, .init = make_proc,
     .fini = remove_proc)
{
	struct process p;
	char path[256], copy[256], self[256];
	pid_t pid;
	FILE *f;

	(void)snprintf(copy, sizeof(copy), "%s/sleeper", root);
	(void)snprintf(self, sizeof(self), "cp /bin/sleep %s", copy);
	pid = fork();
	if (pid == 0) {
		(void)execlp("sh", "sh", "-c", self, NULL);
		_exit(127);
	}
	(void)waitpid(pid, NULL, 0);
	pid = fork();
	if (pid == 0) {
		(void)execl(copy, "sleeper", "30", NULL);
		_exit(127);
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	for (int i = 0; i < 200; i++) {
		char comm[32] = "";

		f = fopen(path, "r");
		if (f && fgets(comm, sizeof(comm), f) && strcmp(comm, "sleeper\n") == 0)
			i = 200;
		if (f)
			(void)fclose(f);
		(void)usleep(5000);
	}
	cr_assert_eq(unlink(copy), 0);
	cr_expect_eq(proc_read(&p, "/proc", pid), 0);
	cr_expect_str_eq(p.exe, copy);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

Test(proc, the_innermost_pid_is_the_program_s_own, .init = make_proc, .fini = remove_proc)
{
	int pid = 0;

	write_file("42/status", "Name:\tapp\nPid:\t42\nNSpid:\t42\t17\t1\nThreads:\t1\n");
	cr_expect_eq(proc_ns_pid(root, 42, &pid), 0);
	cr_expect_eq(pid, 1);
	write_file("42/status", "Name:\tapp\nNSpid:\t\nThreads:\t1\n");
	cr_expect_eq(proc_ns_pid(root, 42, &pid), -EBADMSG);
	write_file("42/status", "Name:\tapp\nThreads:\t1\n");
	cr_expect_eq(proc_ns_pid(root, 42, &pid), -ENOENT);
	cr_expect_eq(proc_ns_pid("/proc", getpid(), &pid), 0);
	cr_expect_eq(pid, getpid());
}

static int main_bias(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uint64_t *)arg = info->dlpi_addr; /* the main program comes first */
	return 1;
}

Test(proc, the_load_bias_is_what_the_dynamic_linker_says)
{
	uint64_t want = 1, got = 2;

	(void)dl_iterate_phdr(main_bias, &want);
	cr_assert_eq(proc_load_bias("/proc", getpid(), &got), 0);
	cr_expect_eq(got, want, "%lx, not %lx", got, want);
}

Test(proc, an_environment_variable_is_found_by_its_whole_name)
{
	char *value = NULL;
	int fds[2];
	char c;
	pid_t pid;

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		char *const env[] = { "OTEL_SERVICE_NAME_X=no", "OTEL_SERVICE_NAME=cart=1",
				      "EMPTY=", NULL };
		char *const args[] = { "sleep", "30", NULL };

		(void)execve("/bin/sleep", args, env);
		_exit(127);
	}
	(void)close(fds[1]);
	cr_assert_eq(read(fds[0], &c, 1), 0, "the pipe closes at execve");
	cr_expect_eq(proc_getenv("/proc", pid, "OTEL_SERVICE_NAME", &value), 0);
	cr_expect_str_eq(value, "cart=1");
	free(value);
	cr_expect_eq(proc_getenv("/proc", pid, "EMPTY", &value), 0);
	cr_expect_str_eq(value, "");
	free(value);
	cr_expect_eq(proc_getenv("/proc", pid, "OTEL_SERVICE", &value), -ENOENT);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	cr_expect_eq(proc_getenv("/proc", pid, "EMPTY", &value), -ESRCH);
}

static int find_self(int pid, void *arg)
{
	int *found = arg;

	*found += pid == getpid();
	return pid == getpid();
}

Test(proc, every_process_is_listed_until_the_caller_has_enough)
{
	int found = 0;

	cr_expect_eq(proc_foreach("/proc", find_self, &found), 0);
	cr_expect_eq(found, 1);
	cr_expect_eq(proc_foreach("/nowhere", find_self, &found), -ENOENT);
}
