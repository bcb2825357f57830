/* Needs root: the functions of bpf/parent.bpf.h, run in the kernel on contexts, itabs and types
 * that this test lays out in its own memory as Go does. */
#include "tests/bpf/parents.h"
#include "base/base.h"
#include "bpf/stats.h"
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
static struct iface with(struct ctx *c, const struct itab *itab, struct iface parent)
{
	c->at[0] = parent;
	return (struct iface){ itab, c };
}

/* ---- the kernel's side ---- */

static struct bpf_object *object;
static int prog, calls, counters;

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

/* Touches each page of what was loaded: mlockall() does nothing below a sanitizer. */
static void touch_image(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512], rights[8];
	unsigned long lo, hi;

	cr_assert_not_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %7s", &lo, &hi, rights) == 3 && rights[0] == 'r' &&
		    strstr(line, "unit_parents"))
			for (; lo < hi; lo += 4096)
				(void)*(volatile char *)lo;
	(void)fclose(maps);
}

static void open_object(void)
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

static void close_object(void)
{
	bpf_object__close(object);
}

static void run(struct parents_call *c)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	uint32_t zero = 0;

	cr_assert_eq(bpf_map_update_elem(calls, &zero, c, BPF_ANY), 0);
	cr_assert_eq(bpf_prog_test_run_opts(prog, &opts), 0);
	cr_assert_eq(bpf_map_lookup_elem(calls, &zero, c), 0);
}

static uint64_t counted(uint32_t row)
{
	uint64_t per_cpu[256] = { 0 }, sum = 0;

	cr_assert_leq(libbpf_num_possible_cpus(), 256);
	cr_assert_eq(bpf_map_lookup_elem(counters, &row, per_cpu), 0);
	for (int i = 0; i < libbpf_num_possible_cpus(); i++)
		sum += per_cpu[i];
	return sum;
}

static size_t entries(const char *map)
{
	int fd = bpf_object__find_map_fd_by_name(object, map);
	struct op_key key, *at = NULL;
	size_t n = 0;

	for (; bpf_map_get_next_key(fd, at, &key) == 0; at = &key)
		n++;
	return n;
}

/* An operation is named by one byte, which stands in its ids; goroutines by a number. */
static struct parents_call call_of(uint32_t what, uint8_t id, uint64_t goid)
{
	struct parents_call c = { .what = what, .goid = goid, .depth = 1000 };

	c.ev.cookie.slot = 3;
	c.ev.goid = goid;
	c.ev.flags = SAMPLED;
	c.ev.trace_id[0] = c.ev.trace_id[15] = c.ev.span_id[0] = id;
	c.slot.options = GO_OPTION_STARTED;
	c.slot.sample_below = UINT64_MAX;
	c.slot.sample_inbound = SAMPLE_LIKE_PARENT;
	return c;
}

static void lend(uint8_t id, uint64_t goid, struct iface ctx, uint32_t how)
{
	struct parents_call c = call_of(PARENTS_LEND, id, goid);

	c.data = (uintptr_t)ctx.data;
	c.how = how;
	run(&c);
}

static bool unlend(uint64_t goid, uint32_t keep)
{
	struct parents_call c = call_of(PARENTS_UNLEND, 0, goid);

	c.how = keep;
	run(&c);
	return c.result;
}

static struct parents_call enter(uint8_t id, uint64_t goid, uint64_t depth, uint8_t trace)
{
	struct parents_call c = call_of(PARENTS_ENTER, id, goid);

	c.depth = depth;
	c.ev.trace_id[0] = c.ev.trace_id[15] = trace;
	run(&c);
	return c;
}

static void leave(struct parents_call *c)
{
	c->what = PARENTS_LEAVE;
	run(c);
}

static struct parents_call begin(uint64_t goid, uint64_t started_by, uint64_t depth,
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
static uint8_t parent(uint64_t goid, uint64_t started_by, struct iface ctx)
{
	struct parents_call c = begin(goid, started_by, 2000, ctx);

	cr_assert_eq(c.ev.parent_id[0] != 0, (c.ev.flags & EVENT_LOCAL) != 0);
	cr_assert_eq(c.ev.flags & EVENT_LOCAL, c.result);
	return c.ev.parent_id[0];
}

TestSuite(parents, .init = open_object, .fini = close_object);

/* ---- rule 1 ---- */

Test(parents, a_context_leads_to_the_operation_that_lends_it_from_any_goroutine)
{
	struct ctx a, b, c;
	struct iface own = with(&a, &cancel_itab, root), up = with(&b, &timer_itab, own);
	struct parents_call got;

	lend(7, 1, own, LEND_SELF);
	cr_expect_eq(parent(50, 0, own), 7);
	cr_expect_eq(parent(50, 0, up), 7);
	cr_expect_eq(parent(50, 0, with(&c, &without_itab, up)), 7, "a struct in the interface");
	got = begin(50, 0, 0, up);
	cr_expect_eq(got.ev.trace_id[0], 7);
	cr_expect_eq(got.ev.trace_id[15], 7);
	cr_expect(got.ev.flags & SAMPLED);
	cr_expect_not(got.ev.flags & EVENT_STARTED);
	cr_expect_eq(parent(50, 0, root), 0);
	cr_expect_eq(parent(50, 0, (struct iface){ 0 }), 0);
}

Test(parents, an_operation_that_has_ended_lends_no_more_and_leaves_nothing)
{
	struct ctx a;
	struct iface own = with(&a, &cancel_itab, root);

	lend(7, 1, own, LEND_SELF);
	cr_expect_not(unlend(1, 0));
	cr_expect_eq(parent(50, 0, own), 0);
	cr_expect_eq(parent(1, 0, root), 0);
	cr_expect_eq(entries("live"), 0);
	cr_expect_eq(entries("contexts"), 0);
}

Test(parents, twenty_and_sixty_levels_of_values_are_walked_a_hundred_are_not)
{
	static struct ctx levels[100];
	struct ctx a;
	struct iface at = with(&a, &cancel_itab, root);

	lend(7, 1, at, LEND_SELF);
	for (int i = 0; i < 100; i++) {
		at = with(&levels[i], &value_itab, at);
		if (i == 20 || i == 60)
			cr_expect_eq(parent(50, 0, at), 7, "level %d", i);
	}
	cr_expect_eq(counted(COUNTER_reads_contexts), 0);
	cr_expect_eq(parent(50, 0, at), 0);
	cr_expect_eq(counted(COUNTER_reads_contexts), 1);
}

Test(parents, a_context_that_is_its_own_ancestor_ends_in_no_parent)
{
	struct ctx a, b;
	struct iface x = with(&a, &value_itab, root), y = with(&b, &value_itab, x);

	a.at[0] = x;
	cr_expect_eq(parent(50, 0, x), 0);
	a.at[0] = y;
	cr_expect_eq(parent(50, 0, x), 0);
	cr_expect_eq(counted(COUNTER_reads_contexts), 2);
}

Test(parents, memory_that_is_not_what_it_should_be_ends_the_walk)
{
	struct ctx a, b;
	struct iface own = with(&a, &cancel_itab, root), at = with(&b, &value_itab, own);
	const struct type other_ctx = STRUCT({ &embedded, &other_inter, 0 });
	const struct itab other = { &other_inter, &other_ctx };
	const struct itab nowhere = { &context_inter, (void *)8 };

	lend(7, 1, own, LEND_SELF);
	cr_expect_eq(parent(50, 0, at), 7);
	b.at[0] = (struct iface){ (void *)0x10, own.data };
	cr_expect_eq(parent(50, 0, at), 7, "the pointer is what counts");
	b.at[0] = (struct iface){ &value_itab, (void *)0x10 };
	cr_expect_eq(parent(50, 0, at), 0);
	b.at[0] = (struct iface){ &nowhere, &b };
	cr_expect_eq(parent(50, 0, at), 0);
	b.at[0] = (struct iface){ NULL, NULL };
	cr_expect_eq(parent(50, 0, at), 0);
	cr_expect_eq(parent(50, 0, (struct iface){ (void *)0x123456789abcdef0, own.data }), 7);
	cr_expect_eq(parent(50, 0, (struct iface){ (void *)~0ULL, (void *)~0ULL }), 0);
	/* An itab of another interface than the one that the walk began with. */
	struct ctx c;
	struct iface foreign = with(&c, &other, own);

	b.at[0] = foreign;
	cr_expect_eq(parent(50, 0, at), 0);
	/* Also when it is known from a walk that began with it. */
	cr_expect_eq(parent(50, 0, foreign), 7);
	cr_expect_eq(parent(50, 0, at), 0);
}

/* What a type of that shape gives, whose context is the n-th iface in it. */
static uint8_t walked(const struct type *shape, size_t n, bool pointer)
{
	/* Static: what has been learnt of an itab is not forgotten. */
	static struct type pointers[32];
	static struct itab itabs[32];
	static size_t used;
	struct ctx a, b = { 0 };
	struct iface own = with(&a, &cancel_itab, root);

	cr_assert_lt(used, 32);
	pointers[used] = (struct type)POINTER(*shape);
	itabs[used] = (struct itab){ &context_inter, pointer ? &pointers[used] : shape };
	lend(7, 1, own, LEND_SELF);
	b.at[n] = own;
	return parent(50, 0, (struct iface){ &itabs[used++], &b });
}

Test(parents, custom_contexts_embed_or_wrap_at_any_offset)
{
	const struct type mutex = STRUCT({ &plain, &word, 0 }), other = { .kind = 20 };
	const struct type second = STRUCT({ &plain, &word, 0 }, { &embedded, &context_inter, 16 });
	const struct type behind_mutex =
		STRUCT({ &embedded, &mutex, 0 }, { &embedded, &context_inter, 32 });
	const struct type nested = STRUCT({ &plain, &word, 0 }, { &embedded, &timer_ctx, 48 });
	const struct type named = STRUCT({ &plain, &word, 0 }, { &plain, &context_inter, 64 });
	const struct type both =
		STRUCT({ &plain, &context_inter, 0 }, { &embedded, &context_inter, 16 });
	const struct type named_beside =
		STRUCT({ &embedded, &mutex, 0 }, { &plain, &context_inter, 16 });
	const struct type embeds_deeper =
		STRUCT({ &plain, &context_inter, 0 }, { &embedded, &value_ctx, 16 });
	const struct type deeper_behind_other =
		STRUCT({ &embedded, &other, 0 }, { &embedded, &context_inter, 16 });

	cr_expect_eq(walked(&second, 1, true), 7);
	cr_expect_eq(walked(&second, 1, false), 7);
	cr_expect_eq(walked(&behind_mutex, 2, true), 7);
	cr_expect_eq(walked(&nested, 3, true), 7);
	cr_expect_eq(walked(&named, 4, true), 7);
	cr_expect_eq(walked(&named, 4, false), 7);
	cr_expect_eq(walked(&both, 1, true), 7, "what it embeds is what it is");
	cr_expect_eq(walked(&both, 0, true), 0);
	cr_expect_eq(walked(&named_beside, 1, true), 7);
	cr_expect_eq(walked(&embeds_deeper, 1, true), 7);
	cr_expect_eq(walked(&embeds_deeper, 0, true), 0);
	cr_expect_eq(walked(&deeper_behind_other, 1, true), 7);
}

Test(parents, a_custom_context_that_could_have_two_parents_has_none)
{
	const struct type other = { .kind = 20 }, pointer = POINTER(value_ctx);
	const struct type two =
		STRUCT({ &plain, &context_inter, 0 }, { &plain, &context_inter, 16 });
	const struct type two_embedded =
		STRUCT({ &embedded, &context_inter, 0 }, { &embedded, &context_inter, 16 });
	const struct type two_nested =
		STRUCT({ &embedded, &value_ctx, 0 }, { &embedded, &timer_ctx, 32 });
	const struct type hidden_pointer =
		STRUCT({ &embedded, &pointer, 0 }, { &plain, &context_inter, 16 });
	const struct type hidden_inter =
		STRUCT({ &embedded, &other, 0 }, { &plain, &context_inter, 16 });
	const struct type hidden_nested =
		STRUCT({ &embedded, &pointer, 0 }, { &embedded, &value_ctx, 16 });
	const struct type many =
		STRUCT({ &embedded, &word, 0 }, { &embedded, &word, 0 }, { &embedded, &word, 0 },
		       { &embedded, &word, 0 }, { &embedded, &value_ctx, 16 });
	const struct type none = STRUCT({ &plain, &word, 0 });

	cr_expect_eq(walked(&two, 0, true), 0);
	cr_expect_eq(walked(&two, 1, true), 0);
	cr_expect_eq(walked(&two_embedded, 0, true), 0);
	cr_expect_eq(walked(&two_nested, 0, true), 0);
	cr_expect_eq(walked(&hidden_pointer, 1, true), 0);
	cr_expect_eq(walked(&hidden_inter, 1, true), 0);
	cr_expect_eq(walked(&hidden_nested, 1, true), 0);
	cr_expect_eq(walked(&many, 1, true), 0);
	cr_expect_eq(walked(&none, 0, true), 0);
}

Test(parents, a_type_with_more_fields_than_are_looked_at_ends_the_walk)
{
	static struct field fields[100];
	struct type huge = { .kind = 25, .fields = fields, .nfields = 100 };
	struct type lying = { .kind = 25, .fields = fields, .nfields = UINT64_MAX };
	struct type nowhere = { .kind = 25, .fields = (void *)8, .nfields = 1 };
	/* A struct that embeds itself, as no compiler makes it. */
	struct field self_field = { &embedded, NULL, 0 };
	struct type self = { .kind = 25, .fields = &self_field, .nfields = 1 };

	for (int i = 0; i < 100; i++)
		fields[i] = (struct field){ &plain, &word, 8 };
	fields[0].type = &context_inter;
	fields[0].at = 0;
	self_field.type = &self;
	cr_expect_eq(walked(&huge, 0, true), 0);
	cr_expect_eq(walked(&lying, 0, true), 0);
	cr_expect_eq(walked(&nowhere, 0, true), 0);
	cr_expect_eq(walked(&self, 0, true), 0);
	fields[0].at = 1 << 20;
	huge.nfields = 2;
	cr_expect_eq(walked(&huge, 0, true), 0, "an offset that no context has");
}

/* ---- connections of HTTP/1 ---- */

Test(parents, a_connection_is_registered_once_and_each_request_is_told_apart)
{
	struct ctx c, r1, r2, d1, d2;
	struct iface conn = with(&c, &cancel_itab, root), one = with(&r1, &cancel_itab, conn),
		     two = with(&r2, &cancel_itab, conn), made_of_one = with(&d1, &value_itab, one),
		     made_of_two = with(&d2, &value_itab, two);

	lend(11, 1, one, LEND_CONN);
	cr_expect_eq(parent(50, 0, one), 11);
	cr_expect_eq(parent(50, 0, made_of_one), 11);
	cr_expect_not(unlend(1, 1));
	cr_expect_eq(parent(50, 0, made_of_one), 0, "between two requests");
	lend(12, 1, two, LEND_CONN);
	cr_expect_eq(parent(50, 0, made_of_two), 12);
	cr_expect_eq(parent(50, 0, made_of_one), 0, "a context of the request before");
	cr_expect_eq(parent(50, 0, conn), 0, "the connection's own is nobody's");
	cr_expect_eq(parent(51, 1, made_of_one), 0, "known to be over: no inference either");
	cr_expect_eq(parent(1, 0, made_of_one), 12, "but the goroutine serves another one");
	cr_expect_eq(entries("contexts"), 1);
	cr_expect_eq(entries("live"), 1);
	(void)unlend(1, 1);
	(void)unlend(1, 0);
	cr_expect_eq(entries("contexts"), 0);
	cr_expect_eq(entries("live"), 0);
}

Test(parents, what_an_unseen_end_left_behind_is_nobodys_parent)
{
	struct ctx a, b;
	struct iface old = with(&a, &cancel_itab, root), fresh = with(&b, &cancel_itab, root);

	lend(11, 1, old, LEND_SELF);
	lend(12, 1, fresh, LEND_SELF);
	cr_expect_eq(parent(50, 0, old), 0);
	cr_expect_eq(parent(50, 0, fresh), 12);
}

/* ---- rule 2 ---- */

Test(parents, without_a_context_the_same_goroutines_operation_is_the_parent)
{
	struct ctx a, b, hidden;
	struct iface own = with(&a, &cancel_itab, root);

	lend(7, 1, own, LEND_SELF);
	cr_expect_eq(parent(1, 0, root), 7);
	cr_expect_eq(parent(1, 0, (struct iface){ 0 }), 7);
	cr_expect_eq(parent(2, 0, root), 0);
	lend(8, 2, with(&b, &cancel_itab, root), LEND_SELF);
	cr_expect_eq(parent(2, 0, own), 7, "the context comes first");
	cr_expect_eq(parent(2, 0, with(&hidden, &value_itab, root)), 8);
}

Test(parents, the_innermost_call_of_the_goroutine_is_nearer_than_what_it_serves)
{
	struct parents_call outer, inner;
	struct ctx a, b;
	struct iface own = with(&a, &cancel_itab, root);

	lend(7, 1, own, LEND_SELF);
	outer = enter(21, 1, 1000, 7);
	cr_expect_eq(parent(1, 0, own), 21);
	cr_expect_eq(parent(1, 0, root), 21);
	inner = enter(22, 1, 1500, 7);
	cr_expect_eq(parent(1, 0, own), 22);
	leave(&inner);
	cr_expect_eq(parent(1, 0, own), 21);
	/* Another trace's context is stronger than where the goroutine is. */
	lend(9, 5, with(&b, &cancel_itab, root), LEND_SELF);
	cr_expect_eq(parent(1, 0, (struct iface){ &cancel_itab, &b }), 9);
	leave(&outer);
	cr_expect_eq(parent(1, 0, own), 7);
	cr_expect_eq(parent(1, 0, root), 7);
}

Test(parents, a_call_whose_frame_is_gone_is_nobodys_parent)
{
	struct parents_call first, second;

	first = enter(21, 1, 1000, 21);
	second = enter(22, 1, 1500, 21);
	cr_expect_eq(begin(1, 0, 2000, root).ev.parent_id[0], 22);
	cr_expect_eq(begin(1, 0, 1500, root).ev.parent_id[0], 0, "not within the second");
	leave(&first);
	cr_expect_eq(begin(1, 0, 2000, root).ev.parent_id[0], 0, "it took the second with it");
	leave(&second);
	cr_expect_eq(begin(1, 0, 2000, root).ev.parent_id[0], 0);
	cr_expect_eq(entries("live"), 0);
}

Test(parents, a_call_of_a_goroutine_that_serves_nothing_leaves_nothing)
{
	struct parents_call a = enter(21, 1, 1000, 21);

	cr_expect_eq(parent(1, 0, root), 21);
	leave(&a);
	cr_expect_eq(entries("live"), 0);
	cr_expect_eq(parent(1, 0, root), 0);
}

Test(parents, a_request_begins_without_what_a_panic_left)
{
	struct ctx a;
	struct iface own = with(&a, &cancel_itab, root);

	lend(7, 1, own, LEND_CONN);
	(void)enter(21, 1, 1000, 7);
	(void)unlend(1, 1);
	lend(8, 1, own, LEND_CONN);
	cr_expect_eq(parent(1, 0, root), 8);
}

/* ---- rule 3 ---- */

Test(parents, a_goroutine_started_by_a_handler_is_taken_to_call_for_it)
{
	struct parents_call got;
	struct ctx a;

	lend(7, 1, with(&a, &cancel_itab, root), LEND_SELF);
	got = begin(50, 1, 100, root);
	cr_expect_eq(got.ev.parent_id[0], 7);
	cr_expect(got.ev.flags & EVENT_STARTED);
	cr_expect(got.ev.flags & EVENT_LOCAL);
	cr_expect_eq(parent(51, 50, root), 0, "only the one that started it");
	(void)unlend(1, 0);
	cr_expect_eq(parent(50, 1, root), 0, "over");
}

Test(parents, a_worker_goes_on_for_its_first_request_or_for_none)
{
	struct ctx conn, a;
	struct iface own = with(&a, &cancel_itab, with(&conn, &cancel_itab, root));

	lend(7, 1, own, LEND_CONN);
	cr_expect_eq(parent(50, 1, root), 7);
	(void)unlend(1, 1);
	cr_expect_eq(parent(51, 1, root), 0, "first seen between two requests");
	lend(8, 1, own, LEND_CONN);
	cr_expect_eq(parent(50, 1, root), 0, "not the next request of the connection");
	cr_expect_eq(parent(51, 1, root), 0);
	cr_expect_eq(parent(52, 1, root), 8);
}

Test(parents, what_the_handler_calls_is_not_the_parent_of_what_it_started)
{
	struct ctx a;

	lend(7, 1, with(&a, &cancel_itab, root), LEND_SELF);
	(void)enter(21, 1, 1000, 7);
	cr_expect_eq(parent(50, 1, root), 7);
}

Test(parents, the_inference_is_an_option)
{
	struct parents_call c = call_of(PARENTS_PARENT, 0, 50);
	struct ctx a;

	lend(7, 1, with(&a, &cancel_itab, root), LEND_SELF);
	c.parent = 1;
	c.slot.options = 0;
	run(&c);
	cr_expect_eq(c.ev.parent_id[0], 0);
	cr_expect_eq(entries("started"), 0);
}

/* ---- ids and sampling ---- */

static struct parents_call child_of(uint8_t flags, uint8_t inbound, uint64_t below)
{
	struct parents_call c = call_of(PARENTS_LEND, 7, 1), got;

	c.ev.flags = flags;
	run(&c);
	got = begin(1, 0, 100, root);
	got.what = PARENTS_IDENTIFY;
	got.slot.sample_inbound = inbound;
	got.slot.sample_below = below;
	run(&got);
	return got;
}

Test(parents, a_child_has_its_parents_trace_and_by_a_parent_based_sampler_its_decision)
{
	struct parents_call got = child_of(SAMPLED, SAMPLE_LIKE_PARENT, 0);

	cr_expect_eq(got.ev.trace_id[0], 7);
	cr_expect_eq(got.ev.trace_id[15], 7);
	cr_expect_eq(got.ev.parent_id[0], 7);
	cr_expect_neq(memcmp(got.ev.span_id, got.ev.parent_id, 8), 0);
	cr_expect(got.ev.flags & SAMPLED);
	cr_expect_not(child_of(0, SAMPLE_LIKE_PARENT, UINT64_MAX).ev.flags & SAMPLED);
	cr_expect_not(child_of(SAMPLED, SAMPLE_ROOT, 0).ev.flags & SAMPLED);
	cr_expect(child_of(0, SAMPLE_ROOT, UINT64_MAX).ev.flags & SAMPLED);
}

Test(parents, what_is_done_for_a_health_probe_is_known_as_such)
{
	cr_expect(child_of(SAMPLED | EVENT_HEALTH, SAMPLE_LIKE_PARENT, 0).ev.flags & EVENT_HEALTH);
	cr_expect_not(child_of(SAMPLED, SAMPLE_LIKE_PARENT, 0).ev.flags & EVENT_HEALTH);
}

/* ---- one thing, seen by two libraries ---- */

Test(parents, an_operation_that_covers_another_takes_its_place)
{
	struct parents_call c = call_of(PARENTS_LEND, 7, 1), over;
	struct ctx a, b;
	struct iface own = with(&a, &cancel_itab, root), made = with(&b, &value_itab, own);

	c.data = (uintptr_t)own.data;
	c.how = LEND_CONN;
	c.ev.flags = SAMPLED | EVENT_REMOTE;
	c.ev.parent_id[0] = 99;
	a.at[0] = (struct iface){ &cancel_itab, &nothing };
	run(&c);
	over = call_of(PARENTS_COVER, 0, 50);
	over.ev.flags = 0;
	over.itab = (uintptr_t)made.itab;
	over.data = (uintptr_t)made.data;
	run(&over);
	cr_expect_eq(over.result, 1);
	cr_expect_eq(over.ev.trace_id[0], 7);
	cr_expect_eq(over.ev.parent_id[0], 99);
	cr_expect_eq(over.ev.flags, SAMPLED | EVENT_REMOTE | EVENT_LOCAL);
	cr_expect_eq(parent(50, 0, made), 0, "its span will not be there");
	cr_expect_eq(parent(1, 0, root), 0);
	cr_expect(unlend(1, 1), "the other one is told");
	lend(8, 1, own, LEND_CONN);
	cr_expect_not(unlend(1, 1), "of that request only");
}

/* ---- bounds ---- */

Test(parents, two_processes_do_not_see_each_other)
{
	struct parents_call c = call_of(PARENTS_PARENT, 0, 1);
	struct ctx a;
	struct iface own = with(&a, &cancel_itab, root);

	lend(7, 1, own, LEND_SELF);
	c.ev.cookie.slot = 4;
	c.itab = (uintptr_t)own.itab;
	c.data = (uintptr_t)own.data;
	run(&c);
	cr_expect_eq(c.ev.parent_id[0], 0);
}

Test(parents, no_room_costs_the_parent_and_is_counted)
{
	static struct ctx many[8200];

	for (int i = 0; i < 8200; i++)
		lend(7, (uint64_t)i + 100, with(&many[i], &cancel_itab, root), LEND_SELF);
	cr_expect_gt(counted(COUNTER_live_no_room), 0);
	cr_expect_eq(parent(50, 0, (struct iface){ &cancel_itab, &many[0] }), 7);
	cr_expect_eq(parent(50, 0, (struct iface){ &cancel_itab, &many[8199] }), 0);
}

/* ---- spans of the program's own SDK ---- */

static const struct type any = { .kind = 20 }, span_type = { .kind = 22 },
			 none_type = { .kind = 25 }, other_type = { .kind = 22 };
/* context.valueCtx as it is: {Context; key, val any}. */
static const struct type real_value = {
	.size = 48,
	.kind = 25,
	.fields = (const struct field[]){ { &embedded, &context_inter, 0 },
					  { &plain, &any, 16 },
					  { &plain, &any, 32 } },
	.nfields = 3,
};
static const struct type real_value_ptr = POINTER(real_value);
static const struct itab real_value_itab = { &context_inter, &real_value_ptr };

/* sdk/trace.recordingSpan: what is read of it. */
struct sdk_span {
	uint64_t kind;
	uint8_t trace_id[16], span_id[8];
	uint64_t flags;
};

struct value {
	struct iface up;
	const void *key_type, *key, *val_type;
	const void *val;
};

static struct iface with_span(struct value *v, struct iface up, const struct type *type,
			      const struct sdk_span *span)
{
	*v = (struct value){ .up = up, .val_type = type, .val = span };
	return (struct iface){ &real_value_itab, v };
}

static struct parents_call call_with_span(struct iface ctx, bool leave_it)
{
	struct parents_call c = call_of(PARENTS_PARENT, 0, 50);

	c.ev.flags = 0;
	c.itab = (uintptr_t)ctx.itab;
	c.data = (uintptr_t)ctx.data;
	c.slot.sdk = (struct go_sdk){ .span = (uintptr_t)&span_type,
				      .none = (uintptr_t)&none_type,
				      .span_at = offsetof(struct sdk_span, trace_id),
				      .none_at = offsetof(struct sdk_span, trace_id),
				      .kind_at = offsetof(struct sdk_span, kind),
				      .leave = leave_it };
	run(&c);
	return c;
}

static const struct sdk_span internal = { 1, { 9, 0, 1 }, { 99 }, 1 },
			     client = { 3, { 9 }, { 98 }, 1 };

Test(parents, a_span_of_the_sdks_that_is_nearer_than_the_operation_is_the_parent)
{
	struct ctx a, b;
	struct value v;
	struct iface own = with(&a, &cancel_itab, root);
	struct iface inner = with_span(&v, own, &span_type, &internal);
	struct parents_call got;

	lend(7, 50, own, LEND_SELF);
	got = call_with_span(with(&b, &timer_itab, inner), true);
	cr_assert_eq(got.ev.parent_id[0], 99);
	cr_assert(memcmp(got.ev.trace_id, internal.trace_id, 16) == 0);
	cr_assert_eq(got.ev.flags, EVENT_LOCAL | EVENT_SAMPLED);
	cr_assert_eq(got.ev.sdk, SDK_PARENT, "it is not one of this very call");
	/* Without an SDK in the process the same memory is a value like any other. */
	cr_assert_eq(parent(50, 0, inner), 7);
}

Test(parents, an_operation_that_is_nearer_than_the_span_is_the_parent)
{
	struct ctx a;
	struct value v;
	struct iface below = with_span(&v, root, &span_type, &internal);
	struct iface own = with(&a, &cancel_itab, below);

	lend(7, 50, own, LEND_SELF);
	cr_assert_eq(call_with_span(own, true).ev.parent_id[0], 7);
	cr_assert_eq(call_with_span(own, true).ev.sdk, 0);
}

Test(parents, values_of_other_types_are_stepped_over)
{
	struct value far, near;
	struct iface up = with_span(&far, root, &span_type, &internal);

	cr_assert_eq(
		call_with_span(with_span(&near, up, &other_type, &client), true).ev.parent_id[0],
		99);
}

Test(parents, a_call_below_a_clients_span_is_left_to_the_sdk_where_it_may_be)
{
	struct value v;
	struct iface ctx = with_span(&v, root, &span_type, &client);
	struct parents_call got = call_with_span(ctx, true);

	cr_assert_eq(got.ev.sdk, SDK_PARENT | SDK_LEFT);
	got.what = PARENTS_IDENTIFY;
	run(&got);
	cr_assert_eq(got.ev.span_id[0], 98, "it has the ids of that span");
	cr_assert_eq(call_with_span(ctx, false).ev.sdk, SDK_PARENT);
}

Test(parents, below_a_span_that_the_sdk_samples_out_nothing_is_sampled)
{
	static const struct sdk_span out = { 0, { 9 }, { 97 }, 0 };
	struct value v;
	struct parents_call got = call_with_span(with_span(&v, root, &none_type, &out), true);

	cr_assert_eq(got.ev.parent_id[0], 97);
	cr_assert_eq(got.ev.flags, EVENT_LOCAL);
	got.what = PARENTS_IDENTIFY;
	run(&got);
	cr_assert_not(got.ev.flags & EVENT_SAMPLED);
}

Test(parents, a_call_of_ours_below_the_span_is_nearer_than_the_span)
{
	struct value v;
	struct iface ctx = with_span(&v, root, &span_type, &internal);
	struct parents_call outer = call_with_span(ctx, true);

	outer.what = PARENTS_ENTER;
	outer.depth = 500;
	outer.ev.span_id[0] = 55;
	run(&outer);
	cr_assert_eq(call_with_span(ctx, true).ev.parent_id[0], 55);
	leave(&outer);
	cr_assert_eq(call_with_span(ctx, true).ev.parent_id[0], 99);
}
