/* Recorded bytes of the ring through decode(), compared with the expected spans.
 * tests/replay/README.md says how to record. */
#include "tests/replay/span_json.h"

#include "base/config.h"
#include "trace/lib.h"
#include "trace/literals.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>

#define FILE_MAX (1u << 20)

static struct arena arena;
static bool rewrite; /* $REPLAY_WRITE: expected.jsonl is written anew */

/* <folder>/<name>, NUL-terminated and 8-aligned, in the arena; NULL: there is none. */
static char *slurp(const char *folder, const char *name, size_t *n)
{
	char path[512];
	ssize_t got;
	char *bytes;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	bytes = arena_get(&arena, FILE_MAX);
	cr_assert(bytes);
	got = read(fd, bytes, FILE_MAX - 1);
	cr_assert(got >= 0 && got < (ssize_t)FILE_MAX - 1, "%s", path);
	bytes[got] = 0;
	*n = (size_t)got;
	return bytes;
}

/* literals.tsv has lines "offset<TAB>text": a file of holes with those texts in it. */
static struct literals *literals_of(const char *folder)
{
	int fd = memfd_create("literals", MFD_CLOEXEC);
	struct literals *literals = NULL;
	size_t n, end = 0;
	char *lines = slurp(folder, "literals.tsv", &n), *line;

	while (lines && (line = strsep(&lines, "\n")) && *line) {
		char *tab = strchr(line, '\t');
		off_t at = strtol(line, NULL, 10);

		cr_assert(tab);
		cr_assert_eq(pwrite(fd, tab + 1, strlen(tab + 1), at), (ssize_t)strlen(tab + 1));
		if ((size_t)at + strlen(tab + 1) > end)
			end = (size_t)at + strlen(tab + 1);
	}
	cr_assert_eq(literals_new(&literals, fd, 0, end), 0);
	return literals;
}

/* A case's name is that of its library, '-', and whatever else. */
static const struct lib *lib_of(const char *name)
{
	lib_foreach (it)
		if (strncmp(name, (*it)->name, strlen((*it)->name)) == 0 &&
		    name[strlen((*it)->name)] == '-')
			return *it;
	return NULL;
}

static void replay(const struct lib *lib, const char *folder, const char *events, size_t n,
		   FILE *out)
{
	auto_config struct config *cfg = NULL;
	struct privacy privacy;
	struct decode with = { .privacy = &privacy, .literals = literals_of(folder) };
	char *argv[] = { (char *)"replay", NULL };
	struct arena scratch;
	int rest;

	(void)clearenv();
	cr_assert_eq(config_load(&cfg, 1, argv, &rest), 0);
	privacy = config_privacy(cfg);
	cr_assert_eq(arena_init(&scratch, 1 << 16), 0);
	with.arena = &scratch;
	for (size_t at = 0; at < n;) {
		const struct event *ev = (const void *)(events + at);
		struct attr attrs[SPAN_ATTRS_MAX];
		struct span span = { .attrs = attrs,
				     .start_ns = ev->start_ns,
				     .end_ns = ev->end_ns };

		cr_assert(n - at >= sizeof(*ev) && ev->size >= lib->event_size &&
			  ev->size <= n - at);
		arena_reset(&scratch);
		memcpy(span.trace_id, ev->trace_id, sizeof(span.trace_id));
		memcpy(span.span_id, ev->span_id, sizeof(span.span_id));
		memcpy(span.parent_id, ev->parent_id, sizeof(span.parent_id));
		span.flags = ev->flags & EVENT_SAMPLED;
		cr_assert_eq(lib->decode(ev, &with, &span), 0);
		span_json(out, &span);
		at += (ev->size + 7) & ~(size_t)7;
	}
	arena_clear(&scratch);
	literals_free(&with.literals);
}

static void compare(const char *name, const char *folder, const char *got)
{
	size_t n;
	char *want = slurp(folder, "expected.jsonl", &n), *copy = strdup(got), *left = copy, *a, *b;
	int line = 1;

	cr_assert(want, "%s has no expected.jsonl", name);
	for (; (a = strsep(&want, "\n")) && (b = strsep(&left, "\n")); line++)
		cr_assert_str_eq(b, a, "%s, line %d:\n%s\nexpected:\n%s", name, line, b, a);
	cr_assert(!a == !left || (!want && !left), "%s: more or fewer spans than expected", name);
	free(copy);
}

static void run_case(const char *name)
{
	auto_free char *got = NULL;
	char folder[512], path[600];
	const struct lib *lib = lib_of(name);
	size_t n, size;
	char *events;
	FILE *out;

	cr_assert(lib, "%s: no library has that name", name);
	(void)snprintf(folder, sizeof(folder), "%s/tests/replay/%s", SOURCE_DIR, name);
	arena_reset(&arena);
	events = slurp(folder, "events.bin", &n);
	cr_assert(events && n, "%s has no events.bin", name);
	out = open_memstream(&got, &size);
	replay(lib, folder, events, n, out);
	(void)fclose(out);
	if (rewrite) {
		(void)snprintf(path, sizeof(path), "%s/expected.jsonl", folder);
		out = fopen(path, "we");
		cr_assert(out && fputs(got, out) >= 0);
		(void)fclose(out);
	}
	compare(name, folder, got);
}

Test(replay, recorded_events_decode_to_the_expected_spans)
{
	DIR *dir = opendir(SOURCE_DIR "/tests/replay");
	const struct dirent *entry;
	int cases = 0;

	cr_assert(dir);
	rewrite = getenv("REPLAY_WRITE") != NULL;
	cr_assert_eq(arena_init(&arena, 8 * FILE_MAX), 0);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || !strchr(entry->d_name, '-'))
			continue;
		run_case(entry->d_name);
		cases++;
	}
	(void)closedir(dir);
	arena_clear(&arena);
	cr_assert(cases > 0, "there is nothing to replay");
}
