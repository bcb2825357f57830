#include "propagate/object.h"

#include "base/config.h"
#include "base/log.h"
#include "trace/lib.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

LIB_OBJECT(propagate)

#define LOG_BYTES (64u << 10)

int propagate_fail(struct propagate *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(p->why, sizeof(p->why), fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < ARRAY_SIZE(p->links); i++) {
		(void)bpf_link__destroy(p->links[i]);
		p->links[i] = NULL;
	}
	(void)bpf_link__destroy(p->who);
	p->who = NULL;
	bpf_object__close(p->object);
	p->object = NULL;
	p->sockets = p->owners = p->processes = p->pending = -1;
	return -1;
}

/* Where the whole tree of control groups is mounted, seen from here: in the mounts of process 1, or
 * in our own. fd or -1. */
static int open_cgroup_root(const struct config *cfg)
{
	const char *const whose[] = { "1", "self" };
	char path[PATH_MAX], line[1024], where[512];
	int fd = -1;

	for (size_t i = 0; i < ARRAY_SIZE(whose) && fd < 0; i++) {
		FILE *f;

		(void)snprintf(path, sizeof(path), "%s/%s/mountinfo", cfg->proc_root, whose[i]);
		f = fopen(path, "re");
		while (f && fd < 0 && fgets(line, sizeof(line), f)) {
			/* id, parent, device, root, mount point, ... - type */
			if (!strstr(line, " - cgroup2 ") ||
			    sscanf(line, "%*s %*s %*s %*s %511s", where) != 1)
				continue;
			(void)snprintf(path, sizeof(path), "%s/%s/root%s", cfg->proc_root, whose[i],
				       where);
			fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		}
		if (f)
			(void)fclose(f);
	}
	return fd;
}

static int find_maps(struct propagate *p)
{
	const struct {
		const char *name;
		int *fd;
	} maps[] = {
		{ "sockets", &p->sockets },
		{ "owners", &p->owners },
		{ "processes", &p->processes },
		{ "pending", &p->pending },
	};

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		*maps[i].fd = bpf_object__find_map_fd_by_name(p->object, maps[i].name);
		if (*maps[i].fd < 0)
			return -ENOENT;
	}
	return 0;
}

static int set_maps(struct propagate *p)
{
	struct bpf_map *map;
	int err = 0;

	bpf_object__for_each_map(map, p->object)
	{
		const char *name = bpf_map__name(map);

		if (strcmp(name, "counters") == 0)
			err = bpf_map__reuse_fd(map, p->counters);
		else if (strcmp(name, "events") == 0 || strcmp(name, "control") == 0)
			err = bpf_map__set_autocreate(map, false); /* not used here */
		else if (strcmp(name, "processes") == 0)
			err = bpf_map__set_max_entries(map, 2 * p->cfg->targets_max);
		else if (strcmp(name, "pending") == 0)
			err = bpf_map__set_max_entries(map, p->cfg->operations_max);
		if (err)
			return err;
	}
	return 0;
}

static int load(struct propagate *p)
{
	auto_free char *verdict = calloc(1, LOG_BYTES);
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = "spoor_propagate",
		    .kernel_log_buf = verdict, .kernel_log_size = LOG_BYTES);
	size_t size;
	const void *bytes = propagate_object(&size);
	int err;

	if (!verdict)
		return propagate_fail(p, "no memory");
	p->object = bpf_object__open_mem(bytes, size, &opts);
	err = p->object ? set_maps(p) : -errno;
	if (!err)
		err = bpf_object__load(p->object);
	if (err == -EPERM)
		return propagate_fail(p, "the kernel does not let us watch sockets: CAP_NET_ADMIN "
					 "is needed");
	if (err) {
		log_debug("propagation: verifier: %s", verdict);
		return propagate_fail(p, "the kernel refused its programs: %s", strerror(-err));
	}
	err = find_maps(p);
	return err ? propagate_fail(p, "its maps are not there: %s", strerror(-err)) : 0;
}

/* All by file descriptor: an agent that dies leaves plain sockets behind. */
static int attach(struct propagate *p)
{
	static const char *const names[PROPAGATE_CGROUP_LINKS] = {
		"propagate_connect4", "propagate_connect6", "propagate_peer4", "propagate_peer6",
		"propagate_established"
	};
	const struct bpf_program *send =
		bpf_object__find_program_by_name(p->object, "propagate_send");
	auto_close int root = open_cgroup_root(p->cfg);

	if (root < 0)
		return propagate_fail(p, "no tree of control groups (cgroup2) is mounted");
	if (!send || bpf_prog_attach(bpf_program__fd(send), p->sockets, BPF_SK_MSG_VERDICT, 0))
		return propagate_fail(p, "the kernel refused the program on sockets: %s",
				      strerror(errno));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct bpf_program *prog =
			bpf_object__find_program_by_name(p->object, names[i]);

		p->links[i] = prog ? bpf_program__attach_cgroup(prog, root) : NULL;
		if (!p->links[i])
			return propagate_fail(p, "%s cannot be attached to the control groups: %s",
					      names[i], strerror(errno));
	}
	return 0;
}

int propagate_open(struct propagate **out, const struct config *cfg, int counters)
{
	struct propagate *p = NULL;

	if (strcmp(cfg->propagation, "off") != 0) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return -ENOMEM;
		p->cfg = cfg;
		p->counters = counters;
		propagate_try_write(p);
		if (load(p) == 0 && attach(p) == 0 && propagate_try(p) == 0)
			log_debug("propagation: works");
	}
	*out = p;
	return 0;
}

void propagate_close(struct propagate **pp)
{
	struct propagate *p = take(*pp);

	if (!p)
		return;
	(void)propagate_fail(p, "closed");
	free(p);
}

const char *propagate_off(const struct propagate *p)
{
	if (!p)
		return "propagation is off";
	return *p->why ? p->why : NULL;
}

const char *propagate_write_off(const struct propagate *p)
{
	if (!p)
		return "propagation is off";
	return *p->why_write ? p->why_write : NULL;
}

const struct propagate_kernel *propagate_kernel(const struct propagate *p)
{
	return &p->kernel;
}

const struct bpf_map *propagate_pending(const struct propagate *p)
{
	return p && p->object ? bpf_object__find_map_by_name(p->object, "pending") : NULL;
}

struct bpf_object *propagate_maps(const struct propagate *p)
{
	return p ? p->object : NULL;
}

/* BPF sees processes with their numbers of the first PID namespace, wherever the agent lives: an
 * iterator over one process tells. */
int propagate_tgid(const struct propagate *p, int pidfd, uint32_t *tgid)
{
	const struct bpf_program *prog =
		bpf_object__find_program_by_name(p->object, "propagate_who");
	union bpf_iter_link_info info;
	LIBBPF_OPTS(bpf_iter_attach_opts, opts); /* filled below: its padding must be zero */
	struct bpf_link *link;
	auto_close int fd = -1;
	uint32_t found;

	memset(&info, 0, sizeof(info));
	info.task.pid_fd = (uint32_t)pidfd;
	opts.link_info = &info;
	opts.link_info_len = sizeof(info);
	link = prog ? bpf_program__attach_iter(prog, &opts) : NULL;
	if (!link)
		return errno ? -errno : -ENOENT;
	fd = bpf_iter_create(bpf_link__fd(link));
	(void)bpf_link__destroy(link);
	if (fd < 0)
		return -errno;
	/* One number for each thread, all the same. */
	if (read(fd, &found, sizeof(found)) != sizeof(found))
		return -ESRCH;
	*tgid = found;
	return 0;
}

int propagate_add(struct propagate *p, int pid, int pidfd, const struct propagate_socket *owner,
		  uint32_t *tgid)
{
	size_t n;
	int err;

	if (propagate_off(p))
		return -ENOTSUP;
	err = propagate_tgid(p, pidfd, tgid);
	if (!err && bpf_map_update_elem(p->processes, tgid, owner, BPF_ANY))
		err = -errno;
	if (err)
		return err;
	n = propagate_sockets(p, pid, pidfd, owner, true);
	log_debug("propagation: process %d: %zu connections are there already", pid, n);
	return 0;
}

void propagate_remove(struct propagate *p, int pid, int pidfd, const struct propagate_socket *owner,
		      uint32_t tgid)
{
	struct propagate_socket now;

	if (propagate_off(p))
		return;
	/* It may be traced anew already, under another slot. */
	if (bpf_map_lookup_elem(p->processes, &tgid, &now) == 0 && now.slot == owner->slot &&
	    now.generation == owner->generation)
		(void)bpf_map_delete_elem(p->processes, &tgid);
	(void)propagate_sockets(p, pid, pidfd, owner, false);
}
