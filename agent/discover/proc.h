/* proc.h - who runs here: a process as /proc tells it, and the container its cgroup names. No
 * state; CONTROL and WORKER. */
#pragma once
#include "base/base.h"

#define CONTAINER_ID_LEN 64
#define POD_UID_MAX      64

/* Where a cgroup path says that a process is. */
struct proc_cgroup {
	char container_id[CONTAINER_ID_LEN + 1]; /* 64 hex digits; "": in no container */
	char pod_uid[POD_UID_MAX +
		     1]; /* as the kubelet names the pod's cgroup ('-', not '_'); "": not told */
};

struct process {
	int pid;    /* in the PID namespace of /proc here */
	int ns_pid; /* as the program sees itself: last of NSpid; 0: not read, see proc_ns_pid() */
	uint64_t start_time;                     /* clock ticks since boot, field 22 of stat */
	char container_id[CONTAINER_ID_LEN + 1]; /* "" : in no container */
	char pod_uid[POD_UID_MAX +
		     1];   /* from the cgroup: known before the kubelet knows the container */
	char exe[512];     /* target of /proc/PID/exe as the link says it, " (deleted)" taken off */
	uint64_t dev, ino; /* of the executable: the same after execve of the same file */
	uint64_t stack;    /* where its stack began: another place after each execve; 0: not told */
};

/* Fills *out but for ns_pid from proc_root ("/proc") for pid. 0; -ESRCH: gone, or a zombie;
 * -EAGAIN: it changed while it was read; -ENOEXEC: a kernel thread; -errno. */
int proc_read(struct process *out, const char *proc_root, int pid) must_check;
/* Start time alone: cheap identity check. 0, -ESRCH: gone, or a zombie; -errno. */
int proc_start_time(const char *proc_root, int pid, uint64_t *out) must_check;
/* The same, and where its stack began (see struct process): with both it is told from what it was
 * before an execve. 0; -ESRCH; -errno. */
int proc_image(const char *proc_root, int pid, uint64_t *start_time, uint64_t *stack) must_check;
/* The pid as the program sees itself: last of NSpid in /proc/PID/status. 0 or -errno. */
int proc_ns_pid(const char *proc_root, int pid, int *out) must_check;
/* The cgroup alone: a process may be moved after execve. 0 or -errno. */
int proc_cgroup(const char *proc_root, int pid, struct proc_cgroup *out) must_check;
/* Calls fn for each pid of proc_root until it returns non-zero. 0 or -errno. */
int proc_foreach(const char *proc_root, int (*fn)(int pid, void *arg), void *arg);
/* The innermost container, and its pod, in the text of /proc/PID/cgroup. Pure. */
void proc_cgroup_parse(const char *cgroup, size_t len, struct proc_cgroup *out);
/* Load bias of the executable of pid: difference between where its first segment lies and its
 * virtual address there. 0 or -errno. */
int proc_load_bias(const char *proc_root, int pid, uint64_t *bias) must_check;
/* The value of an environment variable of pid, malloced. 0, -ENOENT or -errno. Reads at most 128
 * KiB. */
int proc_getenv(const char *proc_root, int pid, const char *name, char **out) must_check;
