/* ask PROGRAM: for each line "type TAB field" of stdin a line "type TAB field TAB offset TAB
 * source". With a second argument it prints what a program is instead ("ok go1.26.8 swiss" or the
 * label of the reason for which it is refused), and what analysis cost; with "runtime" where the
 * variables of Go's runtime are taken to lie, and the fields of their types, as tests/gobin/layouts
 * prints them. */
#include "bpf/event.h"
#include "gobin/gobin.h"
#include "runtime/layout.h"
#include "runtime/runtime.h"
#include <fcntl.h>
#include <stdio.h>
#include <time.h>

#define MANY 4096

static double milliseconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int answer(struct gobin *g, struct gobin_want *want, size_t n)
{
	static struct gobin_field out[MANY];
	int err = gobin_fields(g, want, n, out);

	for (size_t i = 0; !err && i < n; i++)
		printf("%s\t%s\t%u\t%s\n", want[i].type, want[i].field, out[i].offset,
		       gobin_source_text(out[i].source));
	for (size_t i = 0; i < n; i++)
		free((void *)want[i].type);
	return err;
}

static int fields(struct gobin *g)
{
	static struct gobin_want want[MANY];
	static char line[65536];
	size_t n = 0;
	int err = 0;

	while (!err && fgets(line, sizeof(line), stdin)) {
		char *copy = strdup(line), *tab;

		copy[strcspn(copy, "\n")] = 0;
		tab = strchr(copy, '\t');
		if (!tab)
			return -EINVAL;
		*tab = 0;
		want[n++] = (struct gobin_want){ copy, tab + 1 };
		if (n < MANY)
			continue;
		err = answer(g, want, n);
		n = 0;
	}
	return err ? err : answer(g, want, n);
}

/* What the agent would ask of a server. */
static int describe(struct gobin *g, double begin)
{
	static const char *const serve[] = { "net/http.serverHandler.ServeHTTP", NULL };
	static const char *const finish[] = { "net/http.(*response).finishRequest", NULL };
	static const char *const *const names[] = { serve, finish };
	static const struct gobin_want want[] = { { "runtime.g", "goid" },
						  { "net/http.Request", "ctx" },
						  { "net/http.response", "status" } };
	const struct gobin_info *info = gobin_info(g);
	struct gobin_field f[3] = { 0 };
	struct gobin_func func[2] = { 0 };
	struct gobin_map map = { 0 };
	int err = gobin_funcs(g, names, 2, func);

	if (!err)
		err = gobin_fields(g, want, 3, f);
	if (err)
		return err;
	(void)!gobin_header_map(g, &map);
	printf("ok %s map %d goid %u ctx %u status %u places %d %d modules %zu",
	       *info->go_version ? info->go_version : "?", map.kind, f[0].offset, f[1].offset,
	       f[2].offset, func[0].name ? (int)func[0].place : -1,
	       func[1].name ? (int)func[1].place : -1, info->nmodules);
	(void)fprintf(stderr, "%.1f ms, %zu KiB read, %zu KiB of memory\n", milliseconds() - begin,
		      info->bytes_read / 1024, info->peak_bytes / 1024);
	(void)putchar('\n');
	return 0;
}

static void put(const char *what, uint32_t offset, bool there)
{
	if (there)
		printf("%s %u\n", what, offset);
}

static void controller(const struct runtime_layout *l)
{
	put("gcControllerState gcPercent", 0, true);
	put("gcControllerState memoryLimit", LAYOUT_LIMIT, true);
	put("gcControllerState heapMinimum", LAYOUT_MINIMUM, true);
	put("gcControllerState gcPercentHeapGoal", l->goal, true);
	put("gcControllerState sweepDistMinTrigger", l->sweep, true);
	put("gcControllerState triggered", l->triggered, true);
	put("gcControllerState heapMarked", l->marked, true);
	put("gcControllerState heapFree", l->free, true);
	put("gcControllerState totalAlloc", l->allocated, true);
	put("gcControllerState totalFree", l->freed, true);
	put("gcControllerState mappedReady", l->mapped, true);
}

static void memstats(const struct runtime_layout *l)
{
	static const char *const sys[LAYOUT_SYS] = { "mstats stacks_sys", "mstats mspan_sys",
						     "mstats mcache_sys", "mstats buckhash_sys",
						     "mstats gcMiscSys",  "mstats other_sys" };

	put("heapStatsDelta size", l->delta, true);
	put("heapStatsDelta committed", LAYOUT_COMMITTED, true);
	put("heapStatsDelta released", LAYOUT_RELEASED, true);
	put("heapStatsDelta inStacks", LAYOUT_STACKS, true);
	put("heapStatsDelta largeAlloc", l->large, true);
	put("heapStatsDelta largeAllocCount", l->large + 8u, true);
	put("heapStatsDelta smallAllocCount", l->small, true);
	put("consistentHeapStats gen", LAYOUT_DELTAS * l->delta, true);
	put("mstats heapStats", 0, true);
	for (uint32_t i = 0; i < LAYOUT_SYS; i++)
		put(sys[i], l->sys + 8 * i, true);
	put("mstats numgc", l->numgc, true);
	put("mstats gcPauseDist", l->pause_dist, l->pause_dist);
}

static int runtime(struct gobin *g)
{
	static const char *const names[RUNTIME_VARIABLES] = { "memstats", "gcController",
							      "sched",    "allgs",
							      "allp",     "work.cpuStats" };
	const struct runtime_layout *l;
	struct runtime_plan p;
	int err = runtime_plan(&p, g);

	if (err || !p.layout)
		return err ? err : -ENOENT;
	l = p.layout;
	for (size_t i = 0; i < RUNTIME_VARIABLES; i++)
		if (p.at[i])
			printf("%s 0x%llx\n", names[i], (unsigned long long)p.at[i]);
	put("schedt lock", l->lock, true);
	put("schedt ngsys", l->ngsys, true);
	put("schedt gFree.n", l->gfree[0], true);
	put("schedt gFree.noStack.size", l->gfree[1], l->gfree[1]);
	put("schedt timeToRun", l->time_to_run, true);
	put("schedt stwTotalTimeGC", l->pauses, l->pauses);
	memstats(l);
	controller(l);
	put("timeHistogram counts", 0, true);
	put("timeHistogram underflow", 8 * (l->fine ? 45 * 16 : 40 * 4), true);
	put("timeHistogram overflow", 8 * (40 * 4 + 1), !l->fine);
	put("p id", p.p_id, true);
	put("p gFree.n", p.p_gfree + LAYOUT_GFREE_COUNT, true);
	if (!p.at[RUNTIME_WORK])
		return 0;
	put("cpuStats GCTotalTime", LAYOUT_CPU_GC, true);
	put("cpuStats ScavengeTotalTime", LAYOUT_CPU_SCAVENGE, true);
	put("cpuStats IdleTime", LAYOUT_CPU_IDLE, true);
	put("cpuStats UserTime", LAYOUT_CPU_USER, true);
	put("cpuStats TotalTime", LAYOUT_CPU_TOTAL, true);
	return 0;
}

int main(int argc, char **argv)
{
	enum gobin_why why = GOBIN_OK;
	double begin = milliseconds();
	struct gobin *g = NULL;
	int err;

	if (argc < 2)
		return 2;
	err = gobin_open(&g, open(argv[1], O_RDONLY | O_CLOEXEC), &why);
	if (err) {
		puts(gobin_why_label(why));
		return argc > 2 ? 0 : 1;
	}
	if (argc > 2 && strcmp(argv[2], "runtime") == 0)
		err = runtime(g);
	else
		err = argc > 2 ? describe(g, begin) : fields(g);
	if (err)
		(void)fprintf(stderr, "ask: %s\n", strerror(-err));
	gobin_close(&g);
	return err ? 1 : 0;
}
