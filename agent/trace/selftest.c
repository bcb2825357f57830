#include "trace/selftest.h"

#include "trace/attach.h"
#include "trace/core.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/wait.h>

#ifdef __clang__
#define ONE_COPY __attribute__((noinline))
#else
#define ONE_COPY __attribute__((noinline, noclone))
#endif

ONE_COPY int selftest_place(int n)
{
	/* The compiler may neither drop nor merge the call. */
	__asm__ volatile("" : "+r"(n));
	return n;
}

struct lookup {
	uintptr_t address;
	unsigned long offset;
	bool found;
};

/* The first object is the program itself. */
static int in_program(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct lookup *l = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD || l->address < at || l->address - at >= ph->p_filesz)
			continue;
		l->offset = l->address - at + ph->p_offset;
		l->found = true;
	}
	return 1;
}

int selftest_offset(const void *function, unsigned long *out)
{
	struct lookup l = { .address = (uintptr_t)function };

	(void)dl_iterate_phdr(in_program, &l);
	if (!l.found)
		return -ENOENT;
	*out = l.offset;
	return 0;
}

static void *call_place(void *arg)
{
	(void)selftest_place(1);
	return arg;
}

/* The child waits, then calls from a thread that is not the first one: kernels with the broken
 * filter compared threads. */
static void child(int fd)
{
	pthread_t thread;
	char byte;

	if (read(fd, &byte, 1) != 1 || pthread_create(&thread, NULL, call_place, NULL) != 0)
		_exit(1);
	(void)pthread_join(thread, NULL);
	_exit(0);
}

/* -EAGAIN: it has not called, and what was seen says nothing of the kernel. */
static int reap(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status ? -EAGAIN : 0;
}

static struct selftest_seen look(int fd)
{
	struct selftest_seen seen = { 0 };

	(void)bpf_map_lookup_elem(fd, &(uint32_t){ 0 }, &seen);
	return seen;
}

static int try_link(struct attach_kernel *out, const struct bpf_program *prog, int seen, pid_t pid,
		    int go)
{
	struct core_places places = { .offsets = &(unsigned long){ 0 },
				      .cookies = &(uint64_t){ 0 },
				      .n = 1 };
	struct bpf_link *link = NULL;
	struct selftest_seen ours, both;
	int err;

	err = selftest_offset((const void *)selftest_place, places.offsets);
	if (!err)
		err = core_link(&link, prog, pid, "/proc/self/exe", &places);
	if (err)
		return err;
	out->uprobe_multi = true;
	(void)selftest_place(1);
	ours = look(seen);
	err = write(go, "", 1) == 1 ? reap(pid) : -EIO;
	both = look(seen);
	if (!err) {
		out->pid_filter_exact = ours.hits == 0 && both.hits == 1;
		out->own_pid_namespace = both.pid != (uint32_t)pid;
	}
	(void)bpf_link__destroy(link);
	return err;
}

int selftest_run(struct attach_kernel *out, const struct bpf_program *prog, int seen)
{
	int fds[2], err;
	pid_t pid;

	if (!prog || pipe2(fds, O_CLOEXEC))
		return -EINVAL;
	pid = fork();
	if (pid == 0) {
		(void)close(fds[1]);
		child(fds[0]);
	}
	err = pid < 0 ? -errno : try_link(out, prog, seen, pid, fds[1]);
	(void)close(fds[1]); /* ends a child that was not told to go on */
	(void)close(fds[0]);
	if (pid > 0 && err)
		(void)reap(pid);
	return err;
}
