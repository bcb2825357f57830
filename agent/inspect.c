#include "inspect.h"
#include "base/base.h"
#include "commands.h"
#include "discover/proc.h"
#include "gobin/gobin.h"
#include "runtime/runtime.h"
#include "trace/plan.h"
#include <time.h>

#include <fcntl.h>
#include <sys/stat.h>

static const char usage[] = "Usage: spoor inspect FILE|PID [--modules] [--json]\n";

struct arguments {
	const char *what;
	bool json, modules;
};

static int arguments_parse(struct arguments *out, int argc, char **argv)
{
	bool options = true;

	for (int i = 1; i < argc; i++) {
		const char *a = argv[i];

		if (options && strcmp(a, "--") == 0) {
			options = false;
		} else if (options && strcmp(a, "--json") == 0) {
			out->json = true;
		} else if (options && strcmp(a, "--modules") == 0) {
			out->modules = true;
		} else if (options && a[0] == '-' && a[1]) {
			(void)fprintf(stderr, "spoor inspect: there is no option '%s'\n%s", a,
				      usage);
			return -EINVAL;
		} else if (out->what) {
			(void)fprintf(stderr,
				      "spoor inspect: one file or process at a time, not '%s' and "
				      "'%s'\n%s",
				      out->what, a, usage);
			return -EINVAL;
		} else {
			out->what = a;
		}
	}
	if (!out->what || !*out->what) {
		(void)fprintf(stderr, "spoor inspect: which file or process?\n%s", usage);
		return -EINVAL;
	}
	return 0;
}

/* All digits: the number of a process ("./4711" is a file). 0: it is a file. */
static int pid_of(const char *what)
{
	long n = 0;

	for (const char *p = what; *p; p++) {
		if (*p < '0' || *p > '9' || n > 1L << 30)
			return 0;
		n = 10 * n + (*p - '0');
	}
	return n > 0 && n <= INT32_MAX ? (int)n : 0;
}

static const char *open_advice(int pid, int err)
{
	if (pid && err == ENOENT)
		return "there is no such process, or it is one of the kernel's; for a file of that "
		       "name write ./NAME";
	if (pid && err == EACCES)
		return "run as the process's user or as root (in a container: capability "
		       "SYS_PTRACE)";
	if (err == ENOENT)
		return "there is no such file";
	if (err == EACCES)
		return "no permission to read it";
	if (err == EISDIR)
		return "this is a directory: give the program in it";
	if (err == EINVAL)
		return "this is no file with a program in it (a device, a FIFO or a socket)";
	return strerror(err);
}

/* The executable, for reading. -1: errno and a message. O_NONBLOCK: a FIFO must not hold us. */
static int program_open(const struct arguments *a, int pid, char *path, size_t size)
{
	struct stat st;
	int fd;

	(void)snprintf(path, size, pid ? "/proc/%.0s%d/exe" : "%s", a->what, pid);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)) {
		(void)close(fd);
		errno = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
		fd = -1;
	}
	if (fd < 0)
		(void)fprintf(stderr, "spoor inspect: %s: %s\n", path, open_advice(pid, errno));
	return fd;
}

static int refused(const char *name, enum gobin_why why, int err)
{
	if (why == GOBIN_OPEN)
		(void)fprintf(stderr, "spoor inspect: %s: %s: %s\n", name, gobin_why_text(why),
			      strerror(-err));
	else
		(void)fprintf(stderr, "spoor inspect: %s: %s\n", name, gobin_why_text(why));
	return 1;
}

static double now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int runtime_now(struct runtime_numbers *out, const struct runtime_plan *plan, bool pie,
		       int pid)
{
	uint64_t start_time, stack, bias = 0;
	struct go_runtime *r;
	int err = proc_image("/proc", pid, &start_time, &stack);

	if (!err && pie)
		err = proc_load_bias("/proc", pid, &bias);
	if (err)
		return err;
	r = go_runtime_new(plan, pid, start_time, stack, bias);
	err = r ? runtime_read(out, r, "/proc") : -ENOMEM;
	go_runtime_put(&r);
	return err;
}

int inspect_main(int argc, char **argv)
{
	struct arguments a = { 0 };
	auto_gobin struct gobin *g = NULL;
	auto_plan struct plan *plan = NULL;
	struct runtime_plan runtime;
	struct runtime_numbers numbers;
	enum gobin_why why = GOBIN_OK;
	char path[4096], link[4096];
	struct inspect in;
	ssize_t n;
	int fd, err;

	if (arguments_parse(&a, argc, argv) != 0)
		return EXIT_USAGE;
	in = (struct inspect){ .name = a.what, .pid = pid_of(a.what), .modules = a.modules };
	fd = program_open(&a, in.pid, path, sizeof(path));
	if (fd < 0)
		return 1;
	if (in.pid) {
		n = readlink(path, link, sizeof(link) - 1);
		link[n > 0 ? n : 0] = 0;
		in.name = link;
	}
	in.seconds = -now();
	err = gobin_open(&g, fd, &why);
	if (err)
		return refused(in.name, why, err);
	err = plan_make(&plan, g, ~0u);
	if (!err)
		err = runtime_plan(&runtime, g);
	if (err) {
		(void)fprintf(stderr,
			      "spoor inspect: %s: its functions and types cannot be read: %s\n",
			      in.name, strerror(-err));
		return 1;
	}
	in.seconds += now();
	in.g = g;
	in.plan = plan;
	in.runtime = &runtime;
	if (in.pid && runtime_now(&numbers, &runtime, gobin_info(g)->pie, in.pid) == 0)
		in.now = &numbers;
	if (!a.json) {
		inspect_text(stdout, &in);
		return 0;
	}
	err = inspect_json(stdout, &in);
	if (err)
		(void)fprintf(stderr, "spoor inspect: %s\n", strerror(-err));
	return err ? 1 : 0;
}
