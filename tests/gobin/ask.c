/* ask PROGRAM: for each line "type TAB field" of stdin a line "type TAB field TAB offset TAB
 * source". With a second argument it prints what a program is instead ("ok go1.26.8 swiss" or the
 * label of the reason for which it is refused), and what analysis cost. */
#include "bpf/event.h"
#include "gobin/gobin.h"
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
	err = argc > 2 ? describe(g, begin) : fields(g);
	if (err)
		(void)fprintf(stderr, "ask: %s\n", strerror(-err));
	gobin_close(&g);
	return err ? 1 : 0;
}
