/* Needs root: real uprobes on two functions of this program, traced as the library `toy`
 * (tests/bpf). */
#include "trace/attach.h"

#include "base/config.h"
#include "base/log.h"
#include "base/stats.h"
#include "gobin/gobin.h"
#include "pipeline/batch.h"
#include "pipeline/resource.h"
#include "tests/bpf/toy.h"
#include "trace/clock.h"
#include "trace/ring.h"
#include "trace/selftest.h"
#include "trace/span.h"
#include "trace/target.h"
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

/* ---- two libraries ---- */

#if defined(__x86_64__)
#define PLACE_BODY "push %rbp\nmov %rdi, %rax\npop %rbp\n"
#else
#define PLACE_BODY "mov x1, x0\n"
#endif

/* Written by hand, so that the test knows where its RET is. */
__asm__(".pushsection .text\n.globl toy_place\n.type toy_place, %function\ntoy_place:\n" PLACE_BODY
	".globl toy_place_end\ntoy_place_end:\nret\n.size toy_place, . - toy_place\n.popsection\n");
long toy_place(long argument);
extern const char toy_place_end[];

LIB_OBJECT(toy)
LIB_OBJECT(refused)

static int decode_toy(const struct event *ev, const struct decode *with, struct span *span)
{
	const struct toy_event *toy = (const void *)ev;

	(void)with;
	span->name = str_of("toy");
	span_int(span, "argument", (int64_t)toy->argument);
	span_int(span, "found", toy->found);
	span_int(span, "missing", toy->missing);
	span_int(span, "parts", toy->parts);
	span_int(span, "calls", toy->calls_before);
	span_int(span, "ro_lo", (int64_t)toy->ro_lo);
	span_int(span, "ro_hi", (int64_t)toy->ro_hi);
	return 0;
}

static const char *const toy_symbols[] = { "toy_place", NULL };
static const struct go_probe toy_probes[] = { { "place", toy_symbols, "toy_enter", "toy_leave" } };
static const struct go_probe refused_probes[] = { { "place", toy_symbols, "refused_enter", NULL } };
#define X(id, type, field) { type, field },
static const struct go_field toy_fields[] = { TOY_FIELDS(X) };
#undef X

static const struct lib toy = {
	.name = "toy",
	.scope = "spoor/toy",
	.probes = toy_probes,
	.nprobes = ARRAY_SIZE(toy_probes),
	.fields = toy_fields,
	.nfields = ARRAY_SIZE(toy_fields),
	.event_size = sizeof(struct toy_event),
	.object = toy_object,
	.decode = decode_toy,
};
LIB_REGISTER(toy);

static const struct lib refused = {
	.name = "refused",
	.scope = "spoor/refused",
	.probes = refused_probes,
	.nprobes = ARRAY_SIZE(refused_probes),
	.event_size = sizeof(struct event),
	.object = refused_object,
	.decode = decode_toy,
};
LIB_REGISTER(refused);

static size_t index_of(const struct lib *lib)
{
	size_t i = 0;

	while (lib_at(i) && lib_at(i) != lib)
		i++;
	cr_assert_lt(i, lib_count());
	return i;
}

/* ---- the agent's middle, without discovery and export ---- */

static struct config *cfg;
static struct attach *attach;
static struct targets *targets;
static struct pool *pool;
static struct ring *ring;
static struct plan *plan;
static struct plan_lib planned[LIBS_MAX];
static struct plan_place places[4];
static struct gobin_field fields[TOY_NFIELDS];

static char *cfg_share = "--operations-max-per-process=4096";

static void load_config(const char *ring_size)
{
	char size[64], *argv[] = { "agent",
				   size,
				   cfg_share,
				   "--operations-max=100",
				   "--targets-max=40",
				   "--batch-delay=50ms",
				   "--ring-interval=20ms" };

	(void)snprintf(size, sizeof(size), "--ring-size=%s", ring_size);
	cr_assert_eq(config_load(&cfg, ARRAY_SIZE(argv), argv, NULL), 0);
}

/* What plan_make() would say of this program. */
static void make_plan(void)
{
	static struct plan made;
	unsigned long enter, leave;
	uint8_t i = (uint8_t)index_of(&toy);

	cr_assert_eq(selftest_offset((const void *)toy_place, &enter), 0);
	cr_assert_eq(selftest_offset(toy_place_end, &leave), 0);
	for (size_t k = 0; k < lib_count(); k++)
		planned[k].lib = lib_at(k);
	fields[TOY_FOUND] = (struct gobin_field){ 0x123, GOBIN_TYPES, 0 };
	fields[TOY_MISSING] = (struct gobin_field){ 8, GOBIN_NOWHERE, 0 };
	planned[i].parts = 5;
	planned[i].fields = fields;
	places[0] = (struct plan_place){ leave, i, COOKIE_LEAVE };
	places[1] = (struct plan_place){ enter, i, 0 };
	made = (struct plan){ .libs = planned,
			      .nlibs = lib_count(),
			      .places = places,
			      .nplaces = 2,
			      .slot = { .ro_lo = 0x1000, .ro_hi = 0x3000 } };
	plan = &made;
}

static void open_all(const char *ring_size)
{
	load_config(ring_size);
	cr_assert_eq(attach_open(&attach, cfg), 0, "root, BPF and uprobe_multi are needed");
	cr_assert_eq(targets_new(&targets, cfg->targets_max), 0);
	cr_assert_eq(pool_new(&pool, 8, 512, 256 << 10), 0);
	cr_assert_eq(ring_new(&ring, cfg, attach_events_fd(attach), attach_sleeping(attach),
			      targets, pool),
		     0);
	make_plan();
}

static void set_up(void)
{
	open_all("1MiB");
}

static void tear_down(void)
{
	ring_stop(ring);
	ring_free(&ring);
	attach_close(&attach);
	targets_free(&targets);
	pool_free(&pool);
	config_free(&cfg);
}

TestSuite(attach, .init = set_up, .fini = tear_down, .timeout = 60);

/* The worker's sequence, for a process that runs this program. */
static struct attached *follow(int pid, uint16_t *slot)
{
	struct resource_attr attr = { .key = "service.name", .value = "toy" };
	struct resource *r = NULL;
	struct attached *attached = NULL;
	struct target *t = NULL;
	const char *why = NULL;
	uint32_t generation;
	size_t nprobes = 0;

	cr_assert_eq(resource_new(&r, &attr, 1), 0);
	cr_assert_eq(targets_reserve(targets, slot, &generation), 0);
	cr_assert_eq(target_new(&t, *slot, generation, pid, &r, NULL, NULL, 0, SIGNAL_TRACES), 0);
	targets_publish(targets, t);
	cr_assert_eq(attach_process(&attached, attach, plan, pid, "/proc/self/exe", *slot,
				    generation, 0x10000, &nprobes, &why),
		     0, "%s", why);
	cr_assert_eq(nprobes, 2);
	return attached;
}

static int64_t value(const struct span *s, const char *key)
{
	const struct attr *a = span_attr(s, key);

	cr_assert_not_null(a, "%s", key);
	return a->i;
}

/* Spans that arrive until there are n or a while has passed; the first one is copied to *first. */
static size_t receive(size_t n, struct span *first)
{
	static struct attr attrs[SPAN_ATTRS_MAX];
	uint64_t until = clock_monotonic() + 5000000000u;
	size_t got = 0;

	while (got < n && clock_monotonic() < until) {
		struct batch *b = pool_receive(pool, 200);

		if (!b)
			continue;
		if (!got && first) {
			*first = b->spans[0];
			memcpy(attrs, first->attrs, first->nattrs * sizeof(*attrs));
			first->attrs = attrs;
		}
		got += b->nspans;
		pool_put(pool, b);
	}
	return got;
}

static uint8_t first_byte(int pid)
{
	char path[64];
	uint8_t byte = 0;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	cr_assert_eq(pread(fd, &byte, 1, (off_t)(uintptr_t)toy_place), 1);
	(void)close(fd);
	return byte;
}

/* A child of ours that calls toy_place(argument) for each byte it is sent and answers. */
struct child {
	pid_t pid;
	int to, from;
};

static struct child start_child(void)
{
	int to[2], from[2];
	struct child c;

	cr_assert_eq(pipe2(to, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(from, O_CLOEXEC), 0);
	c.pid = fork();
	if (c.pid == 0) {
		uint8_t argument;

		(void)close(to[1]);
		(void)close(from[0]);
		while (read(to[0], &argument, 1) == 1) {
			(void)toy_place(argument);
			if (write(from[1], "", 1) != 1)
				break;
		}
		_exit(0);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	c.to = to[1];
	c.from = from[0];
	return c;
}

static void child_calls(const struct child *c, uint8_t argument)
{
	char done;

	cr_assert_eq(write(c->to, &argument, 1), 1);
	cr_assert_eq(read(c->from, &done, 1), 1);
}

static void end_child(struct child *c)
{
	(void)close(c->to);
	(void)close(c->from);
	(void)kill(c->pid, SIGKILL);
	cr_assert_eq(waitpid(c->pid, NULL, 0), c->pid);
}

/* ---- tests ---- */

Test(attach, the_self_test_finds_exact_uprobe_multi_links_here)
{
	const struct attach_kernel *k = attach_kernel(attach);

	cr_assert(k->uprobe_multi);
	cr_assert(k->pid_filter_exact);
	cr_assert(k->exec_events);
	cr_assert_not(k->own_pid_namespace);
}

Test(attach, a_call_of_an_attached_process_becomes_a_span_with_its_slot)
{
	struct attached *list[1];
	struct timespec now;
	struct span s;
	uint16_t slot;

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slot);
	cr_assert_eq(toy_place(2), 2);
	cr_assert_eq(toy_place(4), 4);
	cr_assert_eq(receive(2, &s), 2);
	cr_assert(str_eq(s.name, "toy"));
	cr_assert_eq(value(&s, "argument"), 2);
	cr_assert_eq(value(&s, "found"), 0x123);
	cr_assert_eq(value(&s, "missing"), GO_ABSENT);
	cr_assert_eq(value(&s, "parts"), 5);
	cr_assert_eq(value(&s, "calls"), 0, "the leave program has not run yet");
	cr_assert_eq(value(&s, "ro_lo"), 0x11000);
	cr_assert_eq(value(&s, "ro_hi"), 0x13000);
	(void)clock_gettime(CLOCK_REALTIME, &now);
	cr_assert_lt((double)now.tv_sec - (double)(s.start_ns / 1000000000u), 3.0);
	cr_assert_leq(s.start_ns / 1000000000u, (uint64_t)now.tv_sec);
	cr_assert_eq(toy_place(6), 6);
	cr_assert_eq(receive(1, &s), 1);
	cr_assert_eq(value(&s, "calls"), 2, "the leave program runs at the RET");
	attach_detach(attach, list, 1);
	cr_assert_null(list[0]);
}

Test(attach, a_process_that_has_not_opted_in_is_not_touched_though_it_runs_the_same_file)
{
	struct child other = start_child();
	struct attached *list[1];
	uint16_t slot;
	uint8_t before = first_byte(getpid());

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slot);
	cr_assert_neq(first_byte(getpid()), before, "the probe is in");
	cr_assert_eq(first_byte(other.pid), before);
	for (int i = 0; i < 10; i++)
		child_calls(&other, 2);
	(void)toy_place(4);
	cr_assert_eq(receive(1, NULL), 1);
	cr_assert_eq(stat_get(events), 1);
	attach_detach(attach, list, 1);
	cr_assert_eq(first_byte(getpid()), before, "and out");
	end_child(&other);
}

Test(attach, the_first_call_after_a_long_silence_is_read_at_once)
{
	struct attached *list[1];
	uint64_t began;
	uint16_t slot;

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slot);
	for (int i = 0; i < 3; i++) {
		(void)usleep(150000); /* the events thread sleeps for up to a second */
		began = clock_monotonic();
		(void)toy_place(2);
		while (stat_get(events) == (uint64_t)i && clock_monotonic() - began < 2000000000u)
			(void)usleep(200);
		cr_assert_lt(clock_monotonic() - began, 50000000u, "round %d", i);
	}
	attach_detach(attach, list, 1);
}

Test(attach, after_detaching_a_call_does_nothing_and_what_was_open_is_counted)
{
	struct attached *list[2];
	uint16_t slots[2];

	cr_assert_eq(ring_start(ring), 0);
	list[0] = NULL;
	list[1] = follow(getpid(), &slots[0]);
	for (int i = 1; i < 60; i += 2)
		(void)toy_place(i);
	attach_detach(attach, list, 2);
	targets_retire(targets, slots[0]);
	cr_assert_eq(stat_get(ops_opt_out), 30);
	cr_assert_eq(stat_get(ops_process_exit), 0);
	for (int i = 0; i < 10; i++)
		(void)toy_place(2 * i);
	/* Nothing is left for those who come later. */
	list[0] = follow(getpid(), &slots[1]);
	(void)toy_place(2);
	cr_assert_eq(receive(1, NULL), 1);
	attach_detach(attach, list, 1);
	cr_assert_eq(stat_get(ops_opt_out), 30);
	cr_assert_eq(stat_get(events), 1);
}

Test(attach, a_process_that_is_traced_anew_before_it_is_detached_gives_one_span_a_call)
{
	struct attached *list[2];
	uint16_t slots[2];

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slots[0]);
	(void)toy_place(1);
	attach_silence(attach, list[0]);
	list[1] = follow(getpid(), &slots[1]);
	for (int i = 0; i < 10; i++)
		(void)toy_place(2);
	cr_assert_eq(receive(10, NULL), 10);
	attach_detach(attach, list, 1);
	cr_assert_eq(stat_get(ops_opt_out), 1, "what was open is counted as ever");
	(void)toy_place(2);
	cr_assert_eq(receive(1, NULL), 1, "the other one goes on");
	cr_assert_eq(stat_get(events), 11);
	attach_detach(attach, list + 1, 1);
}

Test(attach, processes_that_have_ended_leave_nothing_behind_and_their_open_operations_are_counted)
{
	struct attached *list[8];
	struct child children[8];
	uint16_t slot;

	for (int i = 0; i < 8; i++) {
		children[i] = start_child();
		list[i] = follow(children[i].pid, &slot);
		child_calls(&children[i], 1);
		child_calls(&children[i], 3);
	}
	for (int i = 0; i < 7; i++)
		end_child(&children[i]);
	attach_detach(attach, list, 8);
	cr_assert_eq(stat_get(ops_process_exit), 14);
	cr_assert_eq(stat_get(ops_opt_out), 2);
	end_child(&children[7]);
}

Test(attach, no_room_for_another_operation_is_counted)
{
	struct attached *list[1];
	uint16_t slot;

	list[0] = follow(getpid(), &slot);
	for (int i = 0; i < 150; i++)
		(void)toy_place(2 * i + 1);
	attach_collect_stats(attach);
	cr_assert_eq(stat_get(ops_no_room), 50, "operations.max is 100");
	attach_detach(attach, list, 1);
	cr_assert_eq(stat_get(ops_opt_out), 100);
}

Test(attach, a_process_that_is_gone_is_refused_with_that_reason)
{
	struct child c = start_child();
	struct attached *attached = NULL;
	const char *why = NULL;
	size_t n = 0;

	end_child(&c);
	cr_assert_eq(
		attach_process(&attached, attach, plan, c.pid, "/proc/self/exe", 3, 1, 0, &n, &why),
		-ESRCH);
	cr_assert_str_eq(why, "the process is gone");
	cr_assert_null(attached);
}

Test(attach, a_place_that_is_none_is_refused_and_nothing_stays)
{
	uint8_t before = first_byte(getpid());
	struct attached *attached = NULL;
	const char *why = NULL;
	size_t n = 0;
	int err;

	places[0].offset = 1ul << 40;
	err = attach_process(&attached, attach, plan, getpid(), "/proc/self/exe", 3, 1, 0, &n,
			     &why);
	cr_assert_lt(err, 0);
	cr_assert_not_null(why);
	cr_assert_null(attached);
	cr_assert_eq(first_byte(getpid()), before);
}

Test(attach, a_library_that_the_verifier_refuses_is_disabled_and_the_others_go_on)
{
	size_t bad = index_of(&refused);
	struct attached *list[1];
	uint16_t slot;

	cr_assert_null(attach_lib_disabled(attach, bad), "it is loaded on first use");
	planned[bad].parts = 1;
	places[2] = (struct plan_place){ places[1].offset, (uint8_t)bad, 0 };
	plan->nplaces = 3;
	list[0] = follow(getpid(), &slot);
	cr_assert_str_eq(attach_lib_disabled(attach, bad), "the kernel refused its programs");
	cr_assert_null(attach_lib_disabled(attach, index_of(&toy)));
	cr_assert_eq(stat_get(libraries_refused), 1);
	attach_detach(attach, list, 1);
	list[0] = follow(getpid(), &slot);
	cr_assert_eq(stat_get(libraries_refused), 1, "not tried again");
	attach_detach(attach, list, 1);
}

struct seen {
	uint32_t pid;
	bool found;
};

static int take_exec(void *arg, void *data, size_t size)
{
	const struct exec_event *ev = data;
	struct seen *seen = arg;

	cr_assert_eq(size, sizeof(*ev));
	seen->found |= ev->pid == seen->pid;
	return 0;
}

Test(attach, every_execve_on_the_machine_is_told)
{
	struct pollfd pfd = { .fd = attach_exec_fd(attach), .events = POLLIN };
	struct ring_buffer *rb;
	struct seen seen = { 0 };
	pid_t pid = fork();

	if (pid == 0) {
		(void)execl("/bin/true", "true", NULL);
		_exit(1);
	}
	seen.pid = (uint32_t)pid;
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert_eq(poll(&pfd, 1, 2000), 1);
	rb = ring_buffer__new(pfd.fd, take_exec, &seen, NULL);
	cr_assert_not_null(rb);
	(void)ring_buffer__consume(rb);
	ring_buffer__free(rb);
	cr_assert(seen.found);
}

Test(attach, a_trickle_does_not_fill_the_queue_while_the_exporter_is_behind)
{
	struct attached *list[1];
	uint16_t slot;

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slot);
	for (int i = 0; i < 20; i++) { /* the pool has 8 batches */
		(void)toy_place(2);
		(void)usleep(80000); /* batch.delay is 50 ms */
	}
	cr_assert_eq(stat_get(spans_dropped_queue), 0);
	cr_assert_eq(receive(20, NULL), 20);
	attach_detach(attach, list, 1);
}

/* A thread of ours that never pauses, so that there is always something in the ring. */
static atomic_bool calling;

static void *call_all_the_time(void *arg)
{
	while (atomic_load(&calling))
		(void)toy_place(2);
	return arg;
}

Test(attach, slots_of_ended_processes_come_back_also_while_the_ring_is_never_empty)
{
	struct attached *list[1], *other[1];
	pthread_t thread;
	uint16_t slot;

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slot);
	atomic_store(&calling, true);
	cr_assert_eq(pthread_create(&thread, NULL, call_all_the_time, NULL), 0);
	for (int i = 0; i < 10; i++) {
		struct child c = start_child();
		uint64_t until = clock_monotonic() + 5000000000u;

		other[0] = follow(c.pid, &slot);
		attach_detach(attach, other, 1);
		targets_retire(targets, slot);
		while (targets_retiring(targets) && clock_monotonic() < until) {
			for (struct batch *b; (b = pool_receive(pool, 1));)
				pool_put(pool, b);
		}
		cr_assert_not(targets_retiring(targets));
		end_child(&c);
	}
	atomic_store(&calling, false);
	(void)pthread_join(thread, NULL);
	attach_detach(attach, list, 1);
}

Test(attach, the_kernel_memory_is_known)
{
	size_t before = attach_memory(attach);
	struct attached *list[1];
	uint16_t slot;

	cr_assert_gt(before, 1 << 20, "the ring alone has so much");
	list[0] = follow(getpid(), &slot);
	cr_assert_gt(attach_memory(attach), before, "the library's maps are counted");
	cr_assert_lt(attach_memory(attach), 8 << 20, "and the shared ones once");
	attach_detach(attach, list, 1);
}

/* In there a process has other pids for itself than for BPF, as on kind and minikube. Exit status
 * 0: all as it should be. */
static int in_pid_namespace(void)
{
	struct attached *list[1];
	uint16_t slot;
	size_t got;

	if (getpid() != 1)
		return 2;
	set_up();
	if (!attach_kernel(attach)->own_pid_namespace || !attach_kernel(attach)->pid_filter_exact)
		return 3;
	if (ring_start(ring))
		return 4;
	list[0] = follow(getpid(), &slot);
	(void)toy_place(2);
	got = receive(1, NULL);
	attach_detach(attach, list, 1);
	tear_down();
	return got == 1 ? 0 : 5;
}

TestSuite(attach_nested, .timeout = 60);

Test(attach_nested, in_a_pid_namespace_of_its_own_the_agent_knows_it_and_traces_all_the_same)
{
	int status = -1;
	pid_t pid;

	cr_assert_eq(unshare(CLONE_NEWPID), 0);
	pid = fork();
	if (pid == 0)
		_exit(in_pid_namespace());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "%d", WEXITSTATUS(status));
}

Test(attach_nested, without_rights_it_is_refused_and_nothing_stays_open)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0) {
		struct attach *none = NULL;
		int before = dup(0), after, err;

		load_config("1MiB");
		if (setresuid(65534, 65534, 65534))
			_exit(2);
		err = attach_open(&none, cfg);
		after = dup(0);
		_exit(err == -EPERM && !none && after == before + 1 ? 0 : 3);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0, "%d", WEXITSTATUS(status));
}

TestSuite(attach_small, .fini = tear_down, .timeout = 60);

Test(attach_small, what_a_full_ring_loses_is_counted_and_nothing_else_is_lost)
{
	struct attached *list[1];
	uint64_t queued;
	uint16_t slot;

	open_all("4KiB");
	list[0] = follow(getpid(), &slot);
	for (int i = 0; i < 1000; i++)
		(void)toy_place(2);
	attach_detach(attach, list, 1);
	cr_assert_eq(ring_start(ring), 0);
	ring_stop(ring);
	queued = receive(1, NULL);
	attach_collect_stats(attach);
	attach_collect_stats(attach);
	cr_assert_gt(stat_get(lost_ring_full), 900);
	cr_assert_eq(stat_get(spans_dropped_ring_full), stat_get(lost_ring_full));
	cr_assert_eq(stat_get(spans_produced), 1000);
	cr_assert_eq(queued + stat_get(spans_dropped_ring_full), 1000);
}

static void hang(struct attached **out, uint16_t slot, uint32_t generation)
{
	const char *why = NULL;
	size_t n = 0;

	cr_assert_eq(attach_process(out, attach, plan, getpid(), "/proc/self/exe", slot, generation,
				    0, &n, &why),
		     0, "%s", why);
}

Test(attach_small, one_process_takes_no_more_than_its_share_and_the_slots_next_owner_has_all_of_it)
{
	struct attached *list[2];

	cfg_share = "--operations-max-per-process=30";
	open_all("1MiB");
	hang(&list[0], 3, 1);
	hang(&list[1], 4, 1); /* both count the same calls */
	for (int i = 0; i < 40; i++)
		(void)toy_place(2 * i + 1);
	for (int i = 0; i < 30; i++) /* in the place of what is there already */
		(void)toy_place(2 * i + 1);
	attach_collect_stats(attach);
	cr_assert_eq(stat_get(ops_no_share), 20);
	cr_assert_eq(stat_get(ops_no_room), 0, "of 100, 60 are used");
	attach_detach(attach, list, 1);
	cr_assert_eq(stat_get(ops_opt_out), 30);
	hang(&list[0], 3, 2);
	for (int i = 0; i < 30; i++)
		(void)toy_place(2 * i + 1);
	attach_collect_stats(attach);
	cr_assert_eq(stat_get(ops_no_share), 20);
	attach_detach(attach, list, 2);
	cr_assert_eq(stat_get(ops_opt_out), 90);
}

Test(attach_small, a_library_is_disabled_by_the_configuration)
{
	char *argv[] = { "agent", "--libraries-disabled=toy" };
	struct attached *attached = NULL;
	const char *why = NULL;
	size_t n = 0;

	cr_assert_eq(config_load(&cfg, 2, argv, NULL), 0);
	cr_assert_eq(attach_open(&attach, cfg), 0);
	make_plan();
	cr_assert_str_eq(attach_lib_disabled(attach, index_of(&toy)),
			 "disabled by libraries.disabled");
	cr_assert_eq(attach_process(&attached, attach, plan, getpid(), "/proc/self/exe", 3, 1, 0,
				    &n, &why),
		     -ENODATA);
	cr_assert_str_eq(why, "nothing to trace in it");
	cr_assert_eq(targets_new(&targets, 1), 0);
	cr_assert_eq(pool_new(&pool, 4, 10, 4096), 0);
	cr_assert_eq(ring_new(&ring, cfg, -1, NULL, targets, pool), 0);
}
