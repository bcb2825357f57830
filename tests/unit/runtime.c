/* Go's runtime as it is read from memory: here from this very process, which holds a runtime made
 * up by hand. What real programs say: tests/e2e/runtime, tests/gobin/matrix.sh. */
#include "runtime/runtime.h"
#include "discover/proc.h"
#include "gobin/insn.h"
#include "runtime/layout.h"
#include <criterion/criterion.h>

#define PROCS 3

/* Of Go 1.26, all as it must be. */
struct made {
	uint8_t memstats[8192], controller[512], sched[8192], cpu[LAYOUT_CPU];
	uint64_t allp[3], allgs[3], procs[PROCS];
	uint8_t p[PROCS][64]; /* id at 0, gFree at 8 */
	struct go_runtime *r;
	const struct runtime_layout *l;
};

static void put(uint8_t *at, uint64_t v)
{
	memcpy(at, &v, sizeof(v));
}

static void put_half(uint8_t *at, int32_t v)
{
	memcpy(at, &v, sizeof(v));
}

static void make_memory(struct made *m)
{
	const struct runtime_layout *l = m->l;
	uint8_t *old = m->memstats, *now = m->memstats + l->delta; /* gen 1: writers write there */

	put_half(m->memstats + (size_t)3 * l->delta, 1);
	put(old + LAYOUT_COMMITTED, 1000000);
	put(now + LAYOUT_COMMITTED, (uint64_t)-1000);
	put(now + LAYOUT_STACKS, 5000);
	put(old + l->large, 70000);
	put(old + l->large + 8, 1);
	put(now + l->small + 16, 10); /* class 2: 16 bytes */
	for (size_t i = 0; i < LAYOUT_SYS; i++)
		put(m->memstats + l->sys + 8 * i, 100);
	put_half(m->memstats + l->numgc, 7);
	put_half(m->controller, 100);
	put(m->controller + LAYOUT_LIMIT, INT64_MAX);
	put(m->controller + LAYOUT_MINIMUM, 4u << 20);
	put(m->controller + l->goal, 9u << 20);
	put(m->controller + l->triggered, UINT64_MAX);
	put(m->controller + l->mapped, 100u << 20);
}

static void make(struct made *m)
{
	struct runtime_plan plan = { .p_id = 0, .p_gfree = 8 };
	uint64_t start_time, stack;

	*m = (struct made){ .l = runtime_layout("go1.26.8") };
	cr_assert_not_null(m->l);
	make_memory(m);
	for (size_t i = 0; i < PROCS; i++) {
		put_half(m->p[i], (int32_t)i);
		put_half(m->p[i] + 8 + LAYOUT_GFREE_COUNT, 2);
		m->procs[i] = (uintptr_t)m->p[i];
	}
	m->allp[0] = (uintptr_t)m->procs;
	m->allp[1] = m->allp[2] = PROCS;
	m->allgs[0] = 4096;
	m->allgs[1] = 50;
	m->allgs[2] = 64;
	put_half(m->sched + m->l->gfree[0], 3);
	put_half(m->sched + m->l->gfree[1], 1);
	put(m->sched + m->l->time_to_run, 4);             /* less than 64 ns */
	put(m->sched + m->l->time_to_run + 8 * 4 * 3, 2); /* from 1,024 ns */
	put(m->sched + m->l->pauses + 8 * 160, 5);        /* below zero */
	put(m->sched + m->l->pauses + 8 * 161, 6);        /* too long */
	put(m->cpu + LAYOUT_CPU_USER, 2000000000);
	put(m->cpu + LAYOUT_CPU_TOTAL, 8000000000);
	plan.layout = m->l;
	plan.at[RUNTIME_MEMSTATS] = (uintptr_t)m->memstats;
	plan.at[RUNTIME_CONTROLLER] = (uintptr_t)m->controller;
	plan.at[RUNTIME_SCHED] = (uintptr_t)m->sched;
	plan.at[RUNTIME_ALLGS] = (uintptr_t)m->allgs;
	plan.at[RUNTIME_ALLP] = (uintptr_t)m->allp;
	plan.at[RUNTIME_WORK] = (uintptr_t)m->cpu;
	cr_assert_eq(proc_image("/proc", getpid(), &start_time, &stack), 0);
	m->r = go_runtime_new(&plan, getpid(), start_time, stack, 0);
	cr_assert_not_null(m->r);
}

#define ALL ((1u << RUNTIME_VALUES) - 1)

Test(runtime, numbers_are_what_the_memory_says)
{
	static struct made m;
	struct runtime_numbers n;

	make(&m);
	cr_assert_eq(runtime_read(&n, m.r, "/proc"), 0);
	cr_assert_eq(n.have, ALL & ~(1u << RUNTIME_LIMIT), "%x", n.have);
	cr_assert_eq(n.stack_bytes, 5000);
	cr_assert_eq(n.other_bytes, 1000000 - 1000 + 600 - 5000);
	cr_assert_eq(n.allocated_bytes, 70000 + 10 * 16);
	cr_assert_eq(n.allocations, 11);
	cr_assert_eq(n.cycles, 7);
	cr_assert_eq(n.goal_bytes, 9 << 20);
	cr_assert_eq(n.gogc, 100);
	cr_assert_eq(n.processors, PROCS);
	cr_assert_eq(n.goroutines, 50 - 4 - 6);
	cr_assert_eq(n.schedule.counts[0], 4);
	cr_assert_eq(n.schedule.counts[1], 2);
	cr_assert_eq(n.pauses.counts[0], 5);
	cr_assert_eq(n.pauses.counts[RUNTIME_BOUNDS], 6);
	cr_assert_float_eq(n.user_s, 2, 1e-9);
	go_runtime_put(&m.r);
}

/* What is left when one thing is not as it must be. */
static uint32_t left(struct made *m)
{
	struct runtime_numbers n;

	cr_assert_eq(runtime_read(&n, m->r, "/proc"), 0);
	go_runtime_put(&m->r);
	make(m);
	return ~n.have & ALL & ~(1u << RUNTIME_LIMIT);
}

#define BIT(v) (1u << (v))

Test(runtime, a_number_that_does_not_look_as_it_must_is_absent_alone)
{
	const uint32_t memory = BIT(RUNTIME_MEMORY) | BIT(RUNTIME_ALLOCATED) | BIT(RUNTIME_CYCLES);
	const uint32_t scheduler = BIT(RUNTIME_PROCESSORS) | BIT(RUNTIME_GOROUTINES);
	static struct made m;

	make(&m);
	put_half(m.memstats + (size_t)3 * m.l->delta, 3);
	cr_assert_eq(left(&m), memory, "a generation that does not exist");
	put(m.memstats + (size_t)2 * m.l->delta, 8);
	cr_assert_eq(left(&m), memory, "a merge under way");
	put(m.memstats + LAYOUT_COMMITTED, 0);
	cr_assert_eq(left(&m), BIT(RUNTIME_MEMORY), "less than no memory");
	put(m.memstats + m.l->large, (uint64_t)-1000000);
	cr_assert_eq(left(&m), BIT(RUNTIME_ALLOCATED), "less than nothing allocated");
	put(m.controller + LAYOUT_MINIMUM, 5u << 20);
	cr_assert_eq(left(&m), BIT(RUNTIME_GOAL) | BIT(RUNTIME_GOGC), "not that of GOGC=100");
	put(m.controller + m.l->free, 101u << 20);
	cr_assert_eq(left(&m), BIT(RUNTIME_GOAL) | BIT(RUNTIME_GOGC), "more free than mapped");
	put_half(m.p[2], 1);
	cr_assert_eq(left(&m), scheduler, "a P at the place of another");
	m.allp[1] = 0;
	cr_assert_eq(left(&m), scheduler, "no P");
	m.allp[1] = m.allp[2] = 1u << 20;
	cr_assert_eq(left(&m), scheduler, "too many Ps");
	put_half(m.sched + m.l->gfree[0], 50);
	cr_assert_eq(left(&m), scheduler, "more free goroutines than there are");
	put(m.sched + m.l->time_to_run + 16, UINT64_MAX);
	cr_assert_eq(left(&m), BIT(RUNTIME_SCHEDULE), "a count that cannot be");
	put(m.cpu + LAYOUT_CPU_IDLE, (uint64_t)-1);
	cr_assert_eq(left(&m), BIT(RUNTIME_CPU), "less than no time");
	go_runtime_put(&m.r);
}

Test(runtime, another_process_of_that_number_is_not_read)
{
	static struct made m;
	struct runtime_numbers n;

	make(&m);
	m.r->start_time++;
	cr_assert_eq(runtime_read(&n, m.r, "/proc"), -ESRCH);
	m.r->start_time--;
	m.r->stack++;
	cr_assert_eq(runtime_read(&n, m.r, "/proc"), -ESRCH, "the same after an execve");
	m.r->stack--;
	m.r->plan.at[RUNTIME_SCHED] = 4096;
	cr_assert_eq(runtime_read(&n, m.r, "/proc"), -EFAULT);
	cr_assert_eq(n.have, 0);
	go_runtime_put(&m.r);
}

Test(runtime, a_layout_is_of_releases_that_are_known)
{
	static const char *const known[] = { "go1.19",
					     "go1.20.14",
					     "go1.24.11",
					     "go1.25.5",
					     "go1.27.3",
					     "go1.22.5 (Red Hat 1.22.5-1.el9)",
					     "go1.26.8 X:boringcrypto",
					     "go1.26.8 X:nodwarf5,boringcrypto",
					     "go1.27rc1" };
	static const char *const unknown[] = { "go1.18.10",
					       "go1.28",
					       "devel go1.27-abc",
					       "",
					       "go1.27-devel_1234",
					       "go1.26.8 X:staticlockranking",
					       "go1.26.8 X:boringcrypto,greenteagc",
					       "garbage" };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		cr_assert_not_null(runtime_layout(known[i]), "%s", known[i]);
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		cr_assert_null(runtime_layout(unknown[i]), "%s", unknown[i]);
}

Test(runtime, references_of_code_are_found_in_order)
{
	static const uint8_t code[] = {
		0x48, 0x8d, 0x05, 0x10, 0x00, 0x00, 0x00, /* lea 0x10(%rip),%rax */
		0xe8, 0x00, 0x01, 0x00, 0x00,             /* call +0x100 */
		0x48, 0x8b, 0x0d, 0xf9, 0xff, 0xff, 0xff, /* mov -7(%rip),%rcx */
		0x48, 0x63, 0x0d, 0x00, 0x00, 0x00, 0x00, /* movsxd (%rip),%rcx */
		0x48, 0x87, 0x05, 0x08, 0x00, 0x00, 0x00, /* xchg %rax,8(%rip) */
		0x48, 0x8b, 0x44, 0x24, 0x08,             /* mov 8(%rsp),%rax */
		0xff, 0xd0,                               /* call *%rax */
		0xc3,
	};
	static const struct gobin_ref want[] = {
		{ 0x1017, GOBIN_REF_ADDRESS, 0 }, { 0x110c, GOBIN_REF_CALL, 0 },
		{ 0x100c, GOBIN_REF_READ, 8 },    { 0x101a, GOBIN_REF_READ, 4 },
		{ 0x1029, GOBIN_REF_WRITE, 8 },   { 0, GOBIN_REF_CALL, 0 },
	};
	struct gobin_ref got[16];
	size_t n;

	cr_assert_eq(insn_refs(false, code, sizeof(code), 0x1000, got, 16, &n), 0);
	cr_assert_eq(n, ARRAY_SIZE(want), "%zu", n);
	for (size_t i = 0; i < n; i++) {
		cr_assert_eq(got[i].addr, want[i].addr, "%zu: %lx", i, (unsigned long)got[i].addr);
		cr_assert_eq(got[i].kind, want[i].kind, "%zu", i);
		cr_assert_eq(got[i].size, want[i].size, "%zu", i);
	}
	cr_assert_eq(insn_refs(false, code, sizeof(code), 0x1000, got, 2, &n), 0);
	cr_assert_eq(n, 2, "no more than there is room for");
	cr_assert_eq(insn_refs(false, code, sizeof(code) - 4, 0x1000, got, 16, &n), -ENOTSUP);
	cr_assert_eq(insn_refs(true, code, sizeof(code), 0x1000, got, 16, &n), -ENOTSUP);
}
