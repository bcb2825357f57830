/* parents_rig.h - the functions of bpf/parent.bpf.h, run in the kernel on contexts, itabs and types
 * that a test lays out in its own memory as Go does. Needs root. */
#pragma once
#include "base/base.h"
#include "bpf/stats.h"
#include "tests/bpf/parents.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <sys/mman.h>

#define SAMPLED   EVENT_SAMPLED
#define LEND_SELF 1
#define LEND_CONN 2

/* ---- Go's memory ---- */

struct name {
	uint8_t flags, len;
	char text[6];
};

static const struct name plain = { 1, 1, "c" }, embedded = { 1 | 8, 7, "Contex" };

/* internal/abi.Type and what follows it for pointers and structs. */
struct type {
	uint64_t size, ptrdata;
	uint32_t hash;
	uint8_t tflag, align, field_align, kind;
	uint64_t equal, gcdata;
	uint32_t str, to_this;
	const void *elem; /* struct: pkgPath */
	const struct field *fields;
	uint64_t nfields, cap;
};

struct field {
	const void *name;
	const struct type *type;
	uint64_t at;
};

struct itab {
	const struct type *inter, *type;
};

struct iface {
	const struct itab *itab;
	void *data;
};

static const struct type context_inter = { .kind = 20 }, other_inter = { .kind = 20 },
			 word = { .kind = 2 };

#define STRUCT(...)                                                                                \
	{                                                                                          \
		.kind = 25, .fields = (const struct field[]){ __VA_ARGS__ },                       \
		.nfields = sizeof((const struct field[]){ __VA_ARGS__ }) / sizeof(struct field)    \
	}
#define POINTER(t)                                                                                 \
	{                                                                                          \
		.kind = 22, .elem = &(t)                                                           \
	}

/* context.valueCtx, cancelCtx, timerCtx, withoutCancelCtx, backgroundCtx. */
static const struct type value_ctx =
	STRUCT({ &embedded, &context_inter, 0 }, { &plain, &word, 16 });
static const struct type cancel_ctx =
	STRUCT({ &embedded, &context_inter, 0 }, { &plain, &word, 16 });
static const struct type timer_ctx = STRUCT({ &embedded, &cancel_ctx, 0 }, { &plain, &word, 24 });
static const struct type without_cancel = STRUCT({ &plain, &context_inter, 0 });
static const struct type empty = { .kind = 25 }, background = STRUCT({ &embedded, &empty, 0 });
static const struct type value_ptr = POINTER(value_ctx), cancel_ptr = POINTER(cancel_ctx),
			 timer_ptr = POINTER(timer_ctx);
static const struct itab value_itab = { &context_inter, &value_ptr },
			 cancel_itab = { &context_inter, &cancel_ptr },
			 timer_itab = { &context_inter, &timer_ptr },
			 without_itab = { &context_inter, &without_cancel },
			 background_itab = { &context_inter, &background };

/* What a context's data pointer points to; its parent wherever the type says. */
struct ctx {
	struct iface at[8];
};

static struct ctx nothing;
static const struct iface root = { &background_itab, &nothing };

/* A context made from `parent`. */
static inline struct iface with(struct ctx *c, const struct itab *itab, struct iface parent)
{
	c->at[0] = parent;
	return (struct iface){ itab, c };
}

/* ---- the kernel's side ---- */

static struct bpf_object *object;
static int prog, calls, counters;

static inline int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

/* Maps each page of what was loaded: mlockall() does nothing below a sanitizer. */
static inline void touch_image(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], rights[8];
	unsigned long lo, hi;

	cr_assert_not_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %7s", &lo, &hi, rights) == 3 && rights[0] == 'r' &&
		    strstr(line, "unit_parents"))
			cr_assert_eq(madvise((void *)lo, hi - lo, MADV_POPULATE_READ), 0);
	(void)fclose(maps);
}

static inline void open_object(void)
{
	/* BPF reads only pages that the process has touched. */
	(void)mlockall(MCL_CURRENT | MCL_FUTURE);
	touch_image();
	(void)libbpf_set_print(quiet);
	object = bpf_object__open_file(BUILD_DIR "/gen/parents.bpf.o", NULL);
	cr_assert_not_null(object);
	cr_assert_eq(bpf_object__load(object), 0, "are you root?");
	prog = bpf_program__fd(bpf_object__find_program_by_name(object, "parents"));
	calls = bpf_object__find_map_fd_by_name(object, "calls");
	counters = bpf_object__find_map_fd_by_name(object, "counters");
}

static inline void close_object(void)
{
	bpf_object__close(object);
}

static inline void run(struct parents_call *c)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	uint32_t zero = 0;

	cr_assert_eq(bpf_map_update_elem(calls, &zero, c, BPF_ANY), 0);
	cr_assert_eq(bpf_prog_test_run_opts(prog, &opts), 0);
	cr_assert_eq(bpf_map_lookup_elem(calls, &zero, c), 0);
}

static inline uint64_t counted(uint32_t row)
{
	uint64_t per_cpu[256] = { 0 }, sum = 0;

	cr_assert_leq(libbpf_num_possible_cpus(), 256);
	cr_assert_eq(bpf_map_lookup_elem(counters, &row, per_cpu), 0);
	for (int i = 0; i < libbpf_num_possible_cpus(); i++)
		sum += per_cpu[i];
	return sum;
}

static inline size_t entries(const char *map)
{
	int fd = bpf_object__find_map_fd_by_name(object, map);
	struct op_key key, *at = NULL;
	size_t n = 0;

	for (; bpf_map_get_next_key(fd, at, &key) == 0; at = &key)
		n++;
	return n;
}

/* An operation is named by one byte, which stands in its ids; goroutines by a number. */
static inline struct parents_call call_of(uint32_t what, uint8_t id, uint64_t goid)
{
	struct parents_call c = { .what = what, .goid = goid, .depth = 1000 };

	c.ev.cookie.slot = 3;
	c.ev.goid = goid;
	c.ev.flags = SAMPLED;
	c.ev.trace_id[0] = c.ev.trace_id[15] = c.ev.span_id[0] = id;
	c.slot.options = GO_OPTION_STARTED | GO_OPTION_LEND;
	c.slot.sample_below = UINT64_MAX;
	c.slot.sample_inbound = SAMPLE_LIKE_PARENT;
	return c;
}

static inline void lend(uint8_t id, uint64_t goid, struct iface ctx, uint32_t how)
{
	struct parents_call c = call_of(PARENTS_LEND, id, goid);

	c.data = (uintptr_t)ctx.data;
	c.how = how;
	run(&c);
}

static inline bool unlend(uint64_t goid, uint32_t keep)
{
	struct parents_call c = call_of(PARENTS_UNLEND, 0, goid);

	c.how = keep;
	run(&c);
	return c.result;
}

static inline struct parents_call enter(uint8_t id, uint64_t goid, uint64_t depth, uint8_t trace)
{
	struct parents_call c = call_of(PARENTS_ENTER, id, goid);

	c.depth = depth;
	c.ev.trace_id[0] = c.ev.trace_id[15] = trace;
	run(&c);
	return c;
}

static inline void leave(struct parents_call *c)
{
	c->what = PARENTS_LEAVE;
	run(c);
}

static inline struct parents_call begin(uint64_t goid, uint64_t started_by, uint64_t depth,
					struct iface ctx)
{
	struct parents_call c = call_of(PARENTS_PARENT, 0, goid);

	c.ev.flags = 0;
	c.parent = started_by;
	c.depth = depth;
	c.itab = (uintptr_t)ctx.itab;
	c.data = (uintptr_t)ctx.data;
	run(&c);
	return c;
}

/* The operation that is the parent of one that begins so; 0: none. */
static inline uint8_t parent(uint64_t goid, uint64_t started_by, struct iface ctx)
{
	struct parents_call c = begin(goid, started_by, 2000, ctx);

	cr_assert_eq(c.ev.parent_id[0] != 0, (c.ev.flags & EVENT_LOCAL) != 0);
	cr_assert_eq(c.ev.flags & EVENT_LOCAL, c.result);
	return c.ev.parent_id[0];
}
