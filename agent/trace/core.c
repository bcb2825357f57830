#include "trace/core.h"

#include "base/config.h"
#include "base/log.h"
#include "trace/lib.h"
#include "trace/selftest.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <sys/mman.h>

LIB_OBJECT(core)

static int to_log(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char line[512];
	size_t n;

	if (level == LIBBPF_DEBUG)
		return 0;
	(void)vsnprintf(line, sizeof(line), fmt, ap);
	n = strlen(line);
	while (n && line[n - 1] == '\n')
		line[--n] = 0;
	log_debug("%s", line);
	return 0;
}

int core_link(struct bpf_link **out, const struct bpf_program *prog, int pid, const char *path,
	      const struct core_places *places)
{
	LIBBPF_OPTS(bpf_uprobe_multi_opts, opts, .offsets = places->offsets,
		    .cookies = (const __u64 *)places->cookies, .cnt = places->n);
	struct bpf_link *link;

	if (!places->n || pid <= 0)
		return -EINVAL;
	/* Kernels before 6.6 get their perf-event uprobes here: one fd for each place,
	 * CAP_SYS_ADMIN. */
	link = bpf_program__attach_uprobe_multi(prog, pid, path, NULL, &opts);
	if (!link)
		return errno ? -errno : -EINVAL;
	*out = link;
	return 0;
}

const char *core_link_text(int err)
{
	switch (-err) {
	case EPERM:
	case EACCES:
		return "no permission: capabilities BPF, PERFMON and SYS_PTRACE are needed, or "
		       "AppArmor, "
		       "SELinux or seccomp is in the way";
	case ENOENT:
	case ESRCH:
		return "the process or its file is gone";
	case EINVAL:
		return "the kernel refused a place in the file";
	case EOPNOTSUPP:
	case 524: /* ENOTSUPP, the kernel's own */
		return "the kernel cannot put a probe on an instruction there";
	case ENOMEM:
		return "no kernel memory";
	case EMFILE:
	case ENFILE:
		return "no file descriptor left";
	default:
		return "the kernel refused the link";
	}
}

const struct bpf_map *core_map(const struct core *c, const struct bpf_map *map)
{
	if (bpf_map__is_internal(map))
		return NULL;
	if (strcmp(bpf_map__name(map), "pending") == 0)
		return c->pending;
	return bpf_object__find_map_by_name(c->object, bpf_map__name(map));
}

int core_begin(const struct core *c, uint16_t slot)
{
	static const char nothing[SHARE_SIZE];
	const struct bpf_map *shares = bpf_object__find_map_by_name(c->object, "live_shares");
	uint32_t key = slot;

	if (!shares || bpf_map__value_size(shares) != sizeof(nothing))
		return -EINVAL;
	return bpf_map_update_elem(bpf_map__fd(shares), &key, nothing, BPF_ANY) ? -errno : 0;
}

/* fdinfo of a map has a line "memlock:\t<bytes>". */
static size_t map_memory(int fd)
{
	static const char key[] = "memlock:";
	char path[64], line[128];
	size_t bytes = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (strncmp(line, key, sizeof(key) - 1) == 0)
			bytes = strtoul(line + sizeof(key) - 1, NULL, 10);
	(void)fclose(f);
	return bytes;
}

size_t core_memory(const struct core *c, const struct bpf_object *object)
{
	const struct bpf_map *map;
	size_t bytes = 0;

	bpf_object__for_each_map(map, object)
	{
		const struct bpf_map *shared = core_map(c, map);

		/* An object's copies of the shared maps are other fds of the same maps. */
		if (bpf_map__fd(map) >= 0 && (!shared || shared == map))
			bytes += map_memory(bpf_map__fd(map));
	}
	return bytes;
}

/* Sizes are the configuration's. */
static void size_maps(struct core *c, const struct config *cfg)
{
	static const char *const operations[] = { "live", "contexts", "started" };

	(void)bpf_map__set_max_entries(bpf_object__find_map_by_name(c->object, "events"),
				       (uint32_t)cfg->ring_size);
	(void)bpf_map__set_max_entries(bpf_object__find_map_by_name(c->object, "live_shares"),
				       cfg->targets_max);
	for (size_t i = 0; i < ARRAY_SIZE(operations); i++)
		(void)bpf_map__set_max_entries(
			bpf_object__find_map_by_name(c->object, operations[i]),
			cfg->operations_max);
}

static int find_keyed(struct core *c)
{
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map(map, c->object)
	{
		if (!err)
			err = keyed_add(&c->keyed, map);
	}
	return err;
}

static int find_maps(struct core *c)
{
	const struct {
		const char *name;
		int *fd;
	} maps[] = {
		{ "events", &c->events }, { "counters", &c->counters }, { "control", &c->control },
		{ "progs", &c->progs },   { "execs", &c->execs },
	};
	void *p;

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		*maps[i].fd = bpf_object__find_map_fd_by_name(c->object, maps[i].name);
		if (*maps[i].fd < 0)
			return -ENOENT;
	}
	p = mmap(NULL, (size_t)getpagesize(), PROT_READ | PROT_WRITE, MAP_SHARED, c->control, 0);
	if (p == MAP_FAILED)
		return -errno;
	c->control_word = p;
	return find_keyed(c);
}

static int load(struct core *c, const struct config *cfg)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "spoor");
	size_t size;
	const void *bytes = core_object(&size);
	int err;

	c->object = bpf_object__open_mem(bytes, size, &opts);
	if (!c->object)
		return fail(-errno, "bpf: core object: %s", strerror(errno));
	size_maps(c, cfg);
	err = bpf_object__load(c->object);
	if (err == -EPERM)
		return fail(err, "bpf: the kernel does not let us load programs: capabilities BPF "
				 "and PERFMON are "
				 "needed (or a seccomp profile blocks bpf(2))");
	if (err)
		return fail(err, "bpf: core object is not accepted by this kernel: %s",
			    strerror(-err));
	err = find_maps(c);
	if (err)
		return fail(err, "bpf: maps of the core object: %s", strerror(-err));
	c->dispatch = bpf_object__find_program_by_name(c->object, "dispatch");
	return c->dispatch ? 0 : -ENOENT;
}

static int self_test(struct core *c)
{
	const struct bpf_map *seen = bpf_object__find_map_by_name(c->object, ".bss");
	const struct bpf_program *prog = bpf_object__find_program_by_name(c->object, "self_test");
	int err = -ENOENT;

	if (seen && prog && bpf_map__value_size(seen) >= sizeof(struct selftest_seen))
		err = selftest_run(&c->kernel, prog, bpf_map__fd(seen));
	if (err == -EPERM || err == -EACCES)
		return fail(err, "bpf: self-test: %s", core_link_text(err));
	if (!c->kernel.uprobe_multi)
		return fail(-ENOTSUP,
			    "bpf: this kernel has no uprobe_multi links (%s): Linux 6.6 or newer "
			    "is needed",
			    strerror(-err));
	if (err)
		return fail(err, "bpf: self-test: %s", strerror(-err));
	if (!c->kernel.pid_filter_exact)
		return fail(-ENOTSUP, "bpf: this kernel's per-process filter of uprobe_multi links "
				      "is not exact (fixed in "
				      "Linux 6.10 and its stable branches): programs that have not "
				      "opted in would be touched");
	return 0;
}

int core_open(struct core *c, const struct config *cfg)
{
	const struct bpf_program *exec;
	int err;

	*c = (struct core){ .events = -1, .counters = -1, .control = -1, .progs = -1, .execs = -1 };
	(void)libbpf_set_print(to_log);
	err = load(c, cfg);
	if (!err)
		err = self_test(c);
	if (err) {
		core_close(c);
		return err;
	}
	exec = bpf_object__find_program_by_name(c->object, "on_exec");
	c->exec_link = exec ? bpf_program__attach_raw_tracepoint(exec, "sched_process_exec") : NULL;
	c->kernel.exec_events = c->exec_link != NULL;
	if (!c->exec_link)
		log_warn("bpf: no execve notifications (%s): new processes are found by scanning "
			 "only",
			 strerror(errno));
	return 0;
}

void core_close(struct core *c)
{
	(void)bpf_link__destroy(c->exec_link);
	if (c->control_word)
		(void)munmap(c->control_word, (size_t)getpagesize());
	bpf_object__close(c->object);
	*c = (struct core){ .events = -1, .counters = -1, .control = -1, .progs = -1, .execs = -1 };
}
