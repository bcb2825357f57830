/* toy_rig.h - two C functions of the test itself, traced as the library `toy` (tests/bpf), and one
 * more library that the verifier refuses. */
#pragma once
#include "attach_rig.h"
#include "tests/bpf/toy.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

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
static const struct go_probe toy_probes[] = {
	{ .name = "place", .symbols = toy_symbols, .enter = "toy_enter", .leave = "toy_leave" }
};
static const struct go_probe refused_probes[] = {
	{ .name = "place", .symbols = toy_symbols, .enter = "refused_enter" }
};
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

static struct plan_lib planned[LIBS_MAX];
static struct plan_place places[4];
static struct gobin_field fields[TOY_NFIELDS];

/* What plan_make() would say of this program. */
static unused void make_plan(void)
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
	places[0] = (struct plan_place){ .offset = leave, .lib = i, .probe = COOKIE_LEAVE };
	places[1] = (struct plan_place){ .offset = enter, .lib = i };
	made = (struct plan){ .libs = planned,
			      .nlibs = lib_count(),
			      .places = places,
			      .nplaces = 2,
			      .slot = { .ro_lo = 0x1000, .ro_hi = 0x3000 } };
	plan = &made;
}

static unused void open_all(const char *ring_size, const char *share)
{
	open_middle(ring_size, share);
	make_plan();
}

static unused void set_up(void)
{
	open_all("1MiB", "4096");
}

static unused uint8_t first_byte(int pid)
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

static unused struct child start_child(void)
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

static unused void child_calls(const struct child *c, uint8_t argument)
{
	char done;

	cr_assert_eq(write(c->to, &argument, 1), 1);
	cr_assert_eq(read(c->from, &done, 1), 1);
}

static unused void end_child(struct child *c)
{
	(void)close(c->to);
	(void)close(c->from);
	(void)kill(c->pid, SIGKILL);
	cr_assert_eq(waitpid(c->pid, NULL, 0), c->pid);
}
