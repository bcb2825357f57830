#include "discover/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define PF_KTHREAD  0x00200000 /* include/linux/sched.h; field 9 of stat */
#define CGROUP_MAX  32768      /* cgroup v1 has some 14 lines, a line may be as long as a path */
#define ENVIRON_MAX ((size_t)128 * 1024)
#define PHDRS_MAX   128

static void auto_fclose_cleanup(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

static void auto_closedir_cleanup(DIR **d)
{
	if (*d)
		(void)closedir(*d);
}

static int proc_path(char *out, size_t size, const char *root, int pid, const char *name)
{
	int n = snprintf(out, size, "%s/%d/%s", root, pid, name);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* A vanished process is -ESRCH, whether its directory is gone (ENOENT) or only what is behind it
 * (ESRCH). */
static int gone(int err)
{
	return err == ENOENT || err == ESRCH ? -ESRCH : -err;
}

static int proc_open(const char *root, int pid, const char *name)
{
	char path[PATH_MAX];
	int err = proc_path(path, sizeof(path), root, pid, name);
	int fd;

	if (err)
		return err;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? gone(errno) : fd;
}

/* Reads at most size - 1 bytes of a file of /proc and ends them with a NUL. Their number or -errno.
 */
static ssize_t proc_slurp(const char *root, int pid, const char *name, char *buf, size_t size)
{
	auto_close int fd = proc_open(root, pid, name);
	size_t have = 0;

	if (fd < 0)
		return fd;
	while (have < size - 1) {
		ssize_t n = read(fd, buf + have, size - 1 - have);

		if (n < 0)
			return gone(errno);
		if (n == 0)
			break;
		have += (size_t)n;
	}
	buf[have] = '\0';
	return (ssize_t)have;
}

struct stat_line {
	char state;
	uint64_t flags;
	uint64_t start_time;
	uint64_t stack; /* 0 where we may not trace it */
};

/* The command name in parentheses may hold anything, blanks and parentheses too: the fields begin
 * behind the last ')'. */
static int stat_read(const char *root, int pid, struct stat_line *out)
{
	char text[2048];
	ssize_t n = proc_slurp(root, pid, "stat", text, sizeof(text));
	struct stat_line line = { 0 };
	const char *p;

	if (n < 0)
		return (int)n;
	p = strrchr(text, ')');
	if (!p || p[1] != ' ' || !p[2])
		return -EBADMSG;
	line.state = p[2];
	p += 3;
	for (int field = 4; field <= 28; field++) {
		char *end;
		uint64_t value = strtoull(p, &end, 10);

		if (end == p)
			return -EBADMSG;
		if (field == 9)
			line.flags = value;
		else if (field == 22)
			line.start_time = value;
		else if (field == 28)
			line.stack = value;
		p = end;
	}
	if (line.state == 'Z' || line.state == 'X')
		return -ESRCH;
	*out = line;
	return 0;
}

int proc_image(const char *proc_root, int pid, uint64_t *start_time, uint64_t *stack)
{
	struct stat_line line;
	int err = stat_read(proc_root, pid, &line);

	if (err)
		return err;
	*start_time = line.start_time;
	*stack = line.stack;
	return 0;
}

int proc_start_time(const char *proc_root, int pid, uint64_t *out)
{
	uint64_t stack;

	return proc_image(proc_root, pid, out, &stack);
}

int proc_ns_pid(const char *proc_root, int pid, int *out)
{
	char text[8192];
	ssize_t n = proc_slurp(proc_root, pid, "status", text, sizeof(text));
	const char *line, *end, *last;
	long value;

	if (n < 0)
		return (int)n;
	line = strstr(text, "\nNSpid:");
	if (!line)
		return -ENOENT;
	line += strlen("\nNSpid:");
	end = strchr(line, '\n');
	if (!end)
		end = line + strlen(line);
	for (last = end; last > line && isdigit((unsigned char)last[-1]);)
		last--;
	value = last < end ? strtol(last, NULL, 10) : 0;
	if (value <= 0 || value > INT_MAX)
		return -EBADMSG;
	*out = (int)value;
	return 0;
}

static bool is_hex(const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isdigit((unsigned char)p[i]) && !(p[i] >= 'a' && p[i] <= 'f'))
			return false;
	return true;
}

static bool ends_in(const char *p, size_t n, const char *suffix)
{
	size_t len = strlen(suffix);

	return n >= len && memcmp(p + n - len, suffix, len) == 0;
}

/* "ID", "cri-containerd-ID.scope", "crio-ID", "docker-ID.scope", "SLICE:cri-containerd:ID": the id
 * is the end, whatever the runtime puts before it. conmon is the runtime's own process beside the
 * container ("crio-conmon-ID.scope"). */
static const char *component_id(const char *p, size_t n)
{
	if (ends_in(p, n, " (deleted)"))
		n -= strlen(" (deleted)");
	if (ends_in(p, n, ".scope"))
		n -= strlen(".scope");
	if (n < CONTAINER_ID_LEN || !is_hex(p + n - CONTAINER_ID_LEN, CONTAINER_ID_LEN))
		return NULL;
	n -= CONTAINER_ID_LEN;
	if (n > 0 && p[n - 1] != '-' && p[n - 1] != ':' && p[n - 1] != '_')
		return NULL;
	return ends_in(p, n, "conmon-") ? NULL : p + n;
}

/* "podUID", "kubepods-burstable-podUID.slice", "kubelet-kubepods-podUID.slice:cri-containerd:ID";
 * the systemd driver writes '_' for the '-' of the uid. */
static void component_pod(const char *p, size_t n, char out[POD_UID_MAX + 1])
{
	const char *colon = memchr(p, ':', n), *kubepods;
	size_t len = colon ? (size_t)(colon - p) : n;

	if (ends_in(p, len, ".slice"))
		len -= strlen(".slice");
	if (len > 3 && memcmp(p, "pod", 3) == 0) {
		p += 3, len -= 3;
	} else {
		kubepods = memmem(p, len, "kubepods-", strlen("kubepods-"));
		if (!kubepods)
			return;
		len -= (size_t)(kubepods - p) + strlen("kubepods");
		p = memmem(kubepods + strlen("kubepods"), len, "-pod", 4);
		if (!p)
			return;
		len -= (size_t)(p - (kubepods + strlen("kubepods"))) + 4;
		p += 4;
	}
	if (len == 0 || len > POD_UID_MAX)
		return;
	for (size_t i = 0; i < len; i++) {
		out[i] = p[i];
		if (out[i] == '_')
			out[i] = '-';
	}
	out[len] = '\0';
}

/* One path: the last component that is an id, and the last pod before it. Number of ids on the way.
 */
static int path_parse(const char *path, size_t len, struct proc_cgroup *out)
{
	char pod[POD_UID_MAX + 1] = "";
	int ids = 0;

	while (len > 0) {
		const char *slash = memchr(path, '/', len);
		size_t n = slash ? (size_t)(slash - path) : len;
		const char *id = component_id(path, n);

		component_pod(path, n, pod);
		if (id) {
			memcpy(out->container_id, id, CONTAINER_ID_LEN);
			out->container_id[CONTAINER_ID_LEN] = '\0';
			memcpy(out->pod_uid, pod, sizeof(pod));
			pod[0] = '\0';
			ids++;
		}
		path += n + (slash ? 1 : 0);
		len -= n + (slash ? 1 : 0);
	}
	return ids;
}

void proc_cgroup_parse(const char *cgroup, size_t len, struct proc_cgroup *out)
{
	int best = 0;

	*out = (struct proc_cgroup){ 0 };
	while (len > 0) {
		const char *newline = memchr(cgroup, '\n', len);
		size_t n = newline ? (size_t)(newline - cgroup) : len;
		const char *colon = memchr(cgroup, ':', n);

		if (colon)
			colon = memchr(colon + 1, ':', n - (size_t)(colon + 1 - cgroup));
		if (colon) { /* hierarchies may differ (hybrid, or controllers that a nested runtime
				does not have): the deepest tells */
			struct proc_cgroup found = { 0 };
			int ids = path_parse(colon + 1, n - (size_t)(colon + 1 - cgroup), &found);

			if (ids > best ||
			    (ids == best && ids > 0 && !out->pod_uid[0] && found.pod_uid[0])) {
				*out = found;
				best = ids;
			}
		}
		cgroup += n + (newline ? 1 : 0);
		len -= n + (newline ? 1 : 0);
	}
}

int proc_cgroup(const char *proc_root, int pid, struct proc_cgroup *out)
{
	char text[CGROUP_MAX];
	ssize_t n = proc_slurp(proc_root, pid, "cgroup", text, sizeof(text));

	if (n < 0)
		return (int)n;
	proc_cgroup_parse(text, (size_t)n, out);
	return 0;
}

static int exe_read(struct process *out, const char *root, int pid)
{
	char path[PATH_MAX], link[PATH_MAX];
	struct statx st;
	ssize_t n;
	int err = proc_path(path, sizeof(path), root, pid, "exe");

	if (err)
		return err;
	n = readlink(path, link, sizeof(link) - 1);
	/* Not to be asked: a file system that does not answer. */
	if (n < 0 || statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_INO, &st) != 0)
		return -errno;
	link[n] = '\0';
	if (ends_in(link, (size_t)n, " (deleted)"))
		link[n - (ssize_t)strlen(" (deleted)")] = '\0';
	(void)snprintf(out->exe, sizeof(out->exe), "%s", link);
	out->dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	out->ino = st.stx_ino;
	return 0;
}

int proc_read(struct process *out, const char *proc_root, int pid)
{
	struct process p = { .pid = pid };
	struct stat_line before, after;
	struct proc_cgroup cgroup;
	int err = stat_read(proc_root, pid, &before);

	if (err)
		return err;
	if (before.flags & PF_KTHREAD)
		return -ENOEXEC;
	err = exe_read(&p, proc_root, pid);
	if (!err)
		err = proc_cgroup(proc_root, pid, &cgroup);
	if (err && err != -ENOENT && err != -ESRCH)
		return err;
	/* The pid may have been reused in between; and a process that is just ending has no
	 * executable any more. */
	if (stat_read(proc_root, pid, &after))
		return -ESRCH;
	if (err || after.start_time != before.start_time || after.stack != before.stack)
		return -EAGAIN;
	p.start_time = before.start_time;
	p.stack = before.stack;
	memcpy(p.container_id, cgroup.container_id, sizeof(p.container_id));
	memcpy(p.pod_uid, cgroup.pod_uid, sizeof(p.pod_uid));
	*out = p;
	return 0;
}

int proc_foreach(const char *proc_root, int (*fn)(int pid, void *arg), void *arg)
{
	__attribute__((cleanup(auto_closedir_cleanup))) DIR *dir = opendir(proc_root);
	struct dirent *entry;

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		char *end;
		long pid;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		pid = strtol(entry->d_name, &end, 10);
		if (*end || pid <= 0 || pid > INT_MAX)
			continue;
		if (fn((int)pid, arg))
			break;
	}
	return 0;
}

struct segments {
	bool fixed; /* ET_EXEC: no bias */
	Elf64_Phdr phdr[PHDRS_MAX];
	size_t n;
};

static int segments_read(int fd, struct segments *out)
{
	Elf64_Ehdr ehdr;
	size_t size;

	if (pread(fd, &ehdr, sizeof(ehdr), 0) != sizeof(ehdr) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr.e_phentsize != sizeof(Elf64_Phdr) || ehdr.e_phnum > PHDRS_MAX ||
	    ehdr.e_phoff > INT64_MAX)
		return -EBADMSG;
	size = ehdr.e_phnum * sizeof(Elf64_Phdr);
	if (pread(fd, out->phdr, size, (off_t)ehdr.e_phoff) != (ssize_t)size)
		return -EBADMSG;
	out->n = ehdr.e_phnum;
	out->fixed = ehdr.e_type == ET_EXEC;
	return 0;
}

/* The segment that is mapped from that file offset on: 0 and the bias, or -ENOENT. */
static int segment_bias(const struct segments *s, uint64_t start, uint64_t offset, uint64_t *bias)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;

	for (size_t i = 0; i < s->n; i++)
		if (s->phdr[i].p_type == PT_LOAD && (s->phdr[i].p_offset & ~page) == offset) {
			*bias = start - (s->phdr[i].p_vaddr & ~page);
			return 0;
		}
	return -ENOENT;
}

struct mapping {
	uint64_t start, offset, ino;
	const char *path;
};

/* "559f0000-559f1000 r-xp 00001000 fd:01 1234   /usr/bin/app". False: not of that form. */
static bool mapping_parse(char *line, struct mapping *out)
{
	char *p;

	line[strcspn(line, "\n")] = '\0';
	out->start = strtoull(line, &p, 16);
	if (*p != '-')
		return false;
	p += strcspn(p, " ");
	p += strspn(p, " ");
	p += strcspn(p, " "); /* permissions */
	out->offset = strtoull(p, &p, 16);
	p += strspn(p, " ");
	p += strcspn(p, " "); /* device */
	out->ino = strtoull(p, &p, 10);
	out->path = p + strspn(p, " ");
	return true;
}

int proc_load_bias(const char *proc_root, int pid, uint64_t *bias)
{
	auto_close int exe = proc_open(proc_root, pid, "exe"),
		       maps_fd = proc_open(proc_root, pid, "maps");
	__attribute__((cleanup(auto_fclose_cleanup))) FILE *maps = NULL;
	char path[PATH_MAX], link[PATH_MAX], line[PATH_MAX + 128];
	struct segments segments;
	struct stat st;
	ssize_t n;
	int err;

	if (exe < 0 || maps_fd < 0)
		return exe < 0 ? exe : maps_fd;
	err = segments_read(exe, &segments);
	if (!err && segments.fixed)
		*bias = 0;
	if (err || segments.fixed)
		return err;
	err = proc_path(path, sizeof(path), proc_root, pid, "exe");
	n = err ? -1 : readlink(path, link, sizeof(link) - 1);
	if (n < 0 || fstat(exe, &st) != 0)
		return -ESRCH;
	link[n] = '\0';
	maps = fdopen(maps_fd, "r");
	if (!maps)
		return -errno;
	(void)take_fd(maps_fd); /* the stream closes it */
	/* Overlay file systems show another device in maps than stat does, and some another inode:
	 * either sign will do. */
	while (fgets(line, sizeof(line), maps)) {
		struct mapping m;

		if (!mapping_parse(line, &m) || m.ino == 0 ||
		    (m.ino != st.st_ino && strcmp(m.path, link) != 0))
			continue;
		if (segment_bias(&segments, m.start, m.offset, bias) == 0)
			return 0;
	}
	return -ENOENT;
}

int proc_getenv(const char *proc_root, int pid, const char *name, char **out)
{
	auto_free char *text = malloc(ENVIRON_MAX);
	size_t len = strlen(name), at = 0;
	ssize_t n;

	if (!text)
		return -ENOMEM;
	n = proc_slurp(proc_root, pid, "environ", text, ENVIRON_MAX);
	if (n < 0)
		return (int)n;
	while (at < (size_t)n) {
		const char *var = text + at;

		if (strncmp(var, name, len) == 0 && var[len] == '=') {
			char *copy = strdup(var + len + 1);

			if (!copy)
				return -ENOMEM;
			*out = copy;
			return 0;
		}
		at += strlen(var) + 1;
	}
	return -ENOENT;
}
