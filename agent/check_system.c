/* The rows of the self-check that ask nobody else. */
#include "base/config.h"
#include "check.h"
#include "discover/proc.h"

#include <bpf/bpf.h>
#include <cap-ng.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#define CAP_ID_SYS_ADMIN 21

struct capability {
	const char *name;
	const char *mode; /* of propagation, needed for that alone; "headers": write as well */
	const char *cost;
	enum check_state lack;
	unsigned id;
	bool implied; /* by SYS_ADMIN */
};

/* Values of linux/capability.h; older libraries do not know the newest names. */
static const struct capability capabilities[] = {
	{ "CAP_BPF", NULL, "no BPF program can be loaded: nothing is traced", CHECK_MISSING, 39,
	  true },
	{ "CAP_PERFMON", NULL, "probes cannot read the traced programs' memory: nothing is traced",
	  CHECK_MISSING, 38, true },
	{ "CAP_SYS_PTRACE", NULL,
	  "executables of other users' processes can neither be read nor probed: only the agent's "
	  "own user's, if any, are traced",
	  CHECK_MISSING, 19, false },
	{ "CAP_DAC_READ_SEARCH", NULL,
	  "programs whose file only their owner may read are not traced, and OTEL_SERVICE_NAME and "
	  "OTEL_RESOURCE_ATTRIBUTES of "
	  "traced programs are not read",
	  CHECK_DEGRADED, 2, false },
	{ "CAP_NET_ADMIN", "headers",
	  "propagation does not work: the kernel does not let us watch sockets", CHECK_DEGRADED, 12,
	  true },
	{ "CAP_SYS_ADMIN", "write",
	  "propagation does no more than `headers`: the kernel does not let us write into "
	  "programs' memory",
	  CHECK_DEGRADED, CAP_ID_SYS_ADMIN, false },
};

#define DENIALS_ASKED 256 /* processes that are looked at: enough to see a profile at work */

/* The first line of a file, "" when it cannot be read. errno is what open() or read() said, 0 on
 * success. */
static void first_line(const char *path, char *out, size_t n)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, out, n - 1);

	if (got >= 0)
		errno = 0;
	out[got > 0 ? got : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

/* The link's text, "" when it cannot be read. */
static void link_text(const char *path, char *out, size_t n)
{
	ssize_t got = readlink(path, out, n - 1);

	out[got > 0 ? got : 0] = '\0';
}

static bool has_capability(unsigned id)
{
	return capng_have_capability(CAPNG_EFFECTIVE, id) == 1;
}

static bool is_asked_for(const char *mode, const struct config *cfg)
{
	return strcmp(cfg->propagation, "write") == 0 || strcmp(cfg->propagation, mode) == 0;
}

static void check_capabilities(struct checks *out, const struct config *cfg)
{
	bool known = capng_get_caps_process() == 0;

	for (size_t i = 0; i < ARRAY_SIZE(capabilities); i++) {
		const struct capability *c = &capabilities[i];
		bool held = known && has_capability(c->id);
		bool implied = known && c->implied && has_capability(CAP_ID_SYS_ADMIN);
		struct check *row;

		if (c->mode && !is_asked_for(c->mode, cfg))
			continue;
		row = check_add(out, c->name, held || implied ? CHECK_OK : c->lack, c->cost,
				"grant it: securityContext.capabilities.add of the container, or "
				"run as root");

		(void)snprintf(row->found, sizeof(row->found), "%s",
			       held      ? "held"
			       : implied ? "implied by CAP_SYS_ADMIN"
					 : "not held");
	}
}

/* Capabilities of another user namespace than the first one do not count for BPF. */
static void check_user_namespace(struct checks *out)
{
	char map[128];
	unsigned long long inside, outside, count;
	bool initial;
	struct check *row;
	char *p = map;

	first_line("/proc/self/uid_map", map, sizeof(map));
	inside = strtoull(p, &p, 10);
	outside = strtoull(p, &p, 10);
	count = strtoull(p, &p, 10);
	initial = inside == 0 && outside == 0 && count == 4294967295u;
	row = check_add(out, "user namespace", initial ? CHECK_OK : CHECK_MISSING,
			"capabilities of a user namespace do not count for BPF: nothing is traced",
			"set hostUsers: true, or leave it out");
	(void)snprintf(row->found, sizeof(row->found), "%s", initial ? "the host's" : "its own");
}

static void check_kernel_release(struct checks *out)
{
	struct utsname u;
	struct check *row = check_add(out, "kernel", CHECK_OK, "", "");

	if (uname(&u) == 0)
		(void)snprintf(row->found, sizeof(row->found), "%s %s", u.release, u.machine);
}

/* securityfs is not mounted in a container; the host's is seen through its first process. */
static void check_lockdown(struct checks *out)
{
	static const char *const paths[] = { "/sys/kernel/security/lockdown",
					     "/proc/1/root/sys/kernel/security/lockdown" };
	struct check *row = check_add(out, "lockdown", CHECK_OK, "", "");
	char line[128] = "";

	for (size_t i = 0; i < ARRAY_SIZE(paths) && !*line; i++)
		first_line(paths[i], line, sizeof(line));
	if (strchr(line, '[') && strchr(line, ']'))
		(void)snprintf(row->found, sizeof(row->found),
			       "%.*s (no mode of it hinders tracing)",
			       (int)strcspn(strchr(line, '[') + 1, "]"), strchr(line, '[') + 1);
	else
		(void)snprintf(row->found, sizeof(row->found),
			       "unknown (no mode of it hinders tracing)");
}

static void check_btf(struct checks *out)
{
	bool there = access("/sys/kernel/btf/vmlinux", R_OK) == 0;
	struct check *row = check_add(out, "kernel BTF", CHECK_OK, "", "");

	(void)snprintf(row->found, sizeof(row->found), "%s",
		       there ? "there (not needed)" : "absent (not needed)");
}

static void check_memlock(struct checks *out)
{
	struct rlimit r = { 0 };
	struct check *row = check_add(out, "memlock", CHECK_OK, "", "");

	(void)getrlimit(RLIMIT_MEMLOCK, &r);
	if (r.rlim_cur == RLIM_INFINITY)
		(void)snprintf(row->found, sizeof(row->found), "unlimited");
	else
		(void)snprintf(row->found, sizeof(row->found),
			       "%llu bytes (limits BPF before Linux 5.11 only)",
			       (unsigned long long)r.rlim_cur);
}

/* The value of "Name:\tvalue" in /proc/self/status, "" when it is not there. */
static void status_field(const char *name, char *out, size_t n)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");
	size_t len = strlen(name);

	out[0] = '\0';
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, len) == 0 && line[len] == ':') {
			(void)snprintf(out, n, "%s",
				       line + len + 1 + strspn(line + len + 1, " \t"));
			out[strcspn(out, "\n")] = '\0';
			break;
		}
	if (f)
		(void)fclose(f);
}

/* A seccomp profile shows in what bpf(2) answers: EPERM although the capability is held. */
static void check_seccomp(struct checks *out)
{
	static const char *const modes[] = { "no filter", "strict", "a filter" };
	bool capable = has_capability(39) || has_capability(CAP_ID_SYS_ADMIN);
	char mode[16];
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "spoor_check", 4, 8, 1, NULL),
	    err = fd < 0 ? errno : 0;
	bool blocked = err && capable;
	struct check *row =
		check_add(out, "bpf(2) allowed",
			  blocked ? CHECK_MISSING
			  : err   ? CHECK_SKIPPED
				  : CHECK_OK,
			  "BPF cannot be used although the capability is held: nothing is traced",
			  "allow bpf(2) in the seccomp profile: seccompProfile type Unconfined, or "
			  "a profile that knows "
			  "CAP_BPF");

	if (fd >= 0)
		(void)close(fd);
	status_field("Seccomp", mode, sizeof(mode));
	(void)snprintf(row->found, sizeof(row->found), "%s%s, seccomp: %s",
		       err ? strerror(err) : "yes", err && !capable ? " without BPF" : "",
		       mode[0] >= '0' && mode[0] <= '2' && !mode[1] ? modes[mode[0] - '0']
								    : "unknown");
}

struct denials {
	const char *proc_root;
	int asked, denied;
};

/* Process 1 is left out: some systems shield it, and it is never a Go program of a pod. */
static int count_denial(int pid, void *arg)
{
	struct denials *d = arg;
	char path[512], root[8];

	if (pid == 1 || pid == getpid())
		return 0;
	(void)snprintf(path, sizeof(path), "%s/%d/root", d->proc_root, pid);
	if (readlink(path, root, sizeof(root)) >= 0)
		d->asked++;
	else if (errno == EACCES || errno == EPERM)
		d->asked++, d->denied++;
	return d->asked >= DENIALS_ASKED;
}

/* AppArmor and SELinux show in that other processes are denied although SYS_PTRACE is held. */
static void check_confinement(struct checks *out, const struct config *cfg)
{
	struct denials d = { .proc_root = cfg->proc_root };
	char profile[128];
	bool denied;
	struct check *row;

	first_line("/proc/self/attr/apparmor/current", profile, sizeof(profile));
	if (!*profile)
		first_line("/proc/self/attr/current", profile, sizeof(profile));
	(void)proc_foreach(cfg->proc_root, count_denial, &d);
	denied = d.denied > 0 && has_capability(19);
	row = check_add(out, "AppArmor, SELinux",
			!denied               ? CHECK_OK
			: d.denied == d.asked ? CHECK_MISSING
					      : CHECK_DEGRADED,
			"processes that are denied are not traced, although SYS_PTRACE is held",
			"run without a profile: appArmorProfile type Unconfined; seLinuxOptions "
			"type spc_t");
	(void)snprintf(row->found, sizeof(row->found), "profile: %s; %d of %d processes are denied",
		       *profile ? profile : "none", d.denied, d.asked);
}

/* The first PID namespace has a kthreadd. Else /proc's process 1 lives in our container, or in a
 * node's container (kind, minikube). */
static void check_host_pid(struct checks *out, const struct config *cfg)
{
	char path[512], name[32], ours[64], theirs[64];
	bool initial, alone;
	struct check *row;

	(void)snprintf(path, sizeof(path), "%s/2/comm", cfg->proc_root);
	first_line(path, name, sizeof(name));
	initial = strcmp(name, "kthreadd") == 0;
	(void)snprintf(path, sizeof(path), "%s/1/ns/mnt", cfg->proc_root);
	link_text(path, theirs, sizeof(theirs));
	link_text("/proc/self/ns/mnt", ours, sizeof(ours));
	alone = !initial && *theirs && strcmp(ours, theirs) == 0;
	row = check_add(out, "host PID namespace", alone ? CHECK_DEGRADED : CHECK_OK,
			"only processes of the agent's own PID namespace are seen and traced",
			"set hostPID: true");
	(void)snprintf(row->found, sizeof(row->found), "%s",
		       initial ? "yes"
		       : alone ? "no, one of its own"
			       : "a node's that is a container itself: new processes are found by "
				 "scanning, a little later");
}

static void check_cgroups(struct checks *out)
{
	struct check *row = check_add(out, "cgroups", CHECK_OK, "", "");
	char line[256];

	first_line("/proc/self/cgroup", line, sizeof(line));
	(void)snprintf(row->found, sizeof(row->found), "%s",
		       strncmp(line, "0::", 3) == 0 ? "v2" : "v1 or both");
}

void check_system(struct checks *out, const struct config *cfg)
{
	check_capabilities(out, cfg);
	check_user_namespace(out);
	check_kernel_release(out);
	check_seccomp(out);
	check_confinement(out, cfg);
	check_host_pid(out, cfg);
	check_lockdown(out);
	check_btf(out);
	check_memlock(out);
	check_cgroups(out);
}
