/* record.c - traces one process and writes what comes out of the ring into a replay case, and the
 * literals that decoding it asks for (literals_get() is wrapped by the linker). */
#include "base/config.h"
#include "gobin/gobin.h"
#include "trace/attach.h"
#include "trace/lib.h"
#include "trace/literals.h"
#include "trace/plan.h"
#include "trace/span.h"

#include <bpf/libbpf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

static volatile sig_atomic_t ending;

static void on_signal(int number)
{
	(void)number;
	ending = 1;
}

static FILE *events, *texts;
static const char *only; /* the case's name, which begins with that of its library */
static struct decode with;

int __real_literals_get(struct literals *l, struct arena *arena, uint64_t at, size_t n,
			struct str *out);
int __wrap_literals_get(struct literals *l, struct arena *arena, uint64_t at, size_t n,
			struct str *out);

int __wrap_literals_get(struct literals *l, struct arena *arena, uint64_t at, size_t n,
			struct str *out)
{
	int err = __real_literals_get(l, arena, at, n, out);

	if (!err)
		(void)fprintf(texts, "%llu\t%.*s\n", (unsigned long long)at, (int)out->n, out->p);
	return err;
}

static int on_record(void *ctx, void *data, size_t size)
{
	static const char zeros[8];
	struct attr attrs[SPAN_ATTRS_MAX];
	struct span span = { .attrs = attrs };
	const struct event *ev = data;
	const struct lib *lib = lib_at(ev->cookie.lib);
	size_t n = ev->size;

	(void)ctx;
	if (strncmp(only, lib->name, strlen(lib->name)) != 0 || only[strlen(lib->name)] != '-')
		return 0; /* of another library */
	if (fwrite(data, 1, n, events) != n || fwrite(zeros, 1, -n & 7, events) != (-n & 7))
		return -EIO;
	arena_reset(with.arena);
	ev = (const void *)arena_copy(with.arena, data, size);
	return ev && lib->decode(ev, &with, &span) == 0 ? 0 : -EIO;
}

/* Where a position-independent program lies: its first mapping. */
static uint64_t bias_of(int pid)
{
	unsigned long at = 0;
	char path[64];
	FILE *maps;

	(void)snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (!maps || fscanf(maps, "%lx", &at) != 1)
		at = 0;
	if (maps)
		(void)fclose(maps);
	return at;
}

static int attach_to(struct attached **out, struct attach *a, int pid, int exe)
{
	auto_gobin struct gobin *g = NULL;
	auto_plan struct plan *plan = NULL;
	char path[64];
	const char *why = "";
	enum gobin_why refused;
	size_t places;
	int err;

	err = gobin_open(&g, dup(exe), &refused);
	if (!err)
		err = plan_make(&plan, g, 0);
	if (!err)
		err = literals_new(&with.literals, dup(exe), gobin_info(g)->ro_offset,
				   gobin_info(g)->ro_size);
	if (err)
		return err;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", exe);
	err = attach_process(out, a, plan, pid, path, 0, 1, gobin_info(g)->pie ? bias_of(pid) : 0,
			     0, &places, &why);
	if (err)
		(void)fprintf(stderr, "cannot attach: %s\n", why);
	return err;
}

static FILE *create(const char *folder, const char *name)
{
	char path[512];

	(void)mkdir(folder, 0777);
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return fopen(path, "we");
}

/* Until Ctrl-C. */
static int record(struct attach *a, int pid, int exe)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	struct attached *attached = NULL;
	struct ring_buffer *ring = ring_buffer__new(attach_events_fd(a), on_record, NULL, NULL);
	int err = ring ? attach_to(&attached, a, pid, exe) : -ENOMEM;

	(void)signal(SIGINT, on_signal);
	(void)signal(SIGTERM, on_signal);
	if (!err)
		(void)fprintf(stderr, "attached, Ctrl-C ends\n");
	while (!err && !ending) {
		(void)nanosleep(&pause, NULL);
		err = ring_buffer__consume(ring) < 0 ? -EIO : 0;
	}
	attach_detach(a, &attached, 1);
	if (!err)
		err = ring_buffer__consume(ring) < 0 ? -EIO : 0;
	ring_buffer__free(ring);
	return err;
}

int main(int argc, char **argv)
{
	auto_config struct config *cfg = NULL;
	char path[64], *none[] = { argv[0], NULL };
	struct attach *a = NULL;
	struct privacy privacy;
	struct arena arena = { 0 };
	int err;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: replay_record PID FOLDER\n");
		return 2;
	}
	only = strrchr(argv[2], '/') ? strrchr(argv[2], '/') + 1 : argv[2];
	(void)snprintf(path, sizeof(path), "/proc/%d/exe", atoi(argv[1]));
	auto_close int exe = open(path, O_RDONLY | O_CLOEXEC);
	events = create(argv[2], "events.bin");
	texts = create(argv[2], "literals.tsv");
	if (exe < 0 || !events || !texts || config_load(&cfg, 1, none, NULL) ||
	    arena_init(&arena, 1 << 16) || attach_open(&a, cfg))
		return 1;
	privacy = config_privacy(cfg);
	with.arena = &arena;
	with.privacy = &privacy;
	err = record(a, atoi(argv[1]), exe);
	attach_close(&a);
	literals_free(&with.literals);
	arena_clear(&arena);
	if (fclose(events) || fclose(texts))
		err = -EIO;
	if (err)
		(void)fprintf(stderr, "failed: %s\n", strerror(-err));
	return err != 0;
}
