/* What the BPF objects may not do, on any kernel. The second test loads them: as root. */
#include "trace/library.h"

#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <glob.h>

/* Helpers that read or write memory of the kernel, or write that of programs: refused under
 * lockdown, or not needed. The one exception, bpf_probe_write_user, is for programs of parts with
 * FEATURE_WRITE, which are not loaded unless they are asked for. */
static const struct {
	int id;
	const char *name;
} forbidden[] = {
	{ BPF_FUNC_probe_read, "bpf_probe_read" },
	{ BPF_FUNC_probe_read_str, "bpf_probe_read_str" },
	{ BPF_FUNC_probe_read_kernel, "bpf_probe_read_kernel" },
	{ BPF_FUNC_probe_read_kernel_str, "bpf_probe_read_kernel_str" },
	{ BPF_FUNC_probe_write_user, "bpf_probe_write_user" },
	{ BPF_FUNC_get_current_task, "bpf_get_current_task" },
	{ BPF_FUNC_override_return, "bpf_override_return" },
};

static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	(void)level, (void)fmt, (void)ap;
	return 0;
}

/* The library whose object that file is, or NULL. */
static const struct lib *lib_of(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	lib_foreach (l)
		if (strncmp(name, (*l)->name, strlen((*l)->name)) == 0 &&
		    strcmp(name + strlen((*l)->name), ".bpf.o") == 0)
			return *l;
	return NULL;
}

/* As the agent loads it where nothing may be written. */
static void leave_out(struct bpf_object *object, const char *path)
{
	const struct lib *lib = lib_of(path);

	if (lib)
		library_leave_out(object, lib, FEATURE_PROPAGATION);
}

static size_t check_program(const char *path, const struct bpf_program *prog)
{
	const struct bpf_insn *insns = bpf_program__insns(prog);
	size_t n = bpf_program__insn_cnt(prog), calls = 0;

	for (size_t i = 0; i < n; i++) {
		if (insns[i].code != (BPF_JMP | BPF_CALL) || insns[i].src_reg != 0)
			continue;
		calls++;
		for (size_t k = 0; k < ARRAY_SIZE(forbidden); k++)
			cr_assert_neq(insns[i].imm, forbidden[k].id, "%s: %s calls %s", path,
				      bpf_program__name(prog), forbidden[k].name);
	}
	return calls;
}

Test(objects, no_program_reads_the_kernel_or_writes_anything_of_others)
{
	glob_t found = { 0 };
	size_t calls = 0, programs = 0;

	(void)libbpf_set_print(quiet);
	cr_assert_eq(glob(BUILD_DIR "/gen/*.bpf.o", 0, NULL, &found), 0, "no BPF object was built");
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct bpf_object *object = bpf_object__open_file(found.gl_pathv[i], NULL);
		struct bpf_program *prog;

		cr_assert_not_null(object, "%s", found.gl_pathv[i]);
		bpf_object__for_each_program(prog, object)
		{
			calls += check_program(found.gl_pathv[i], prog);
			programs++;
		}
		bpf_object__close(object);
	}
	globfree(&found);
	cr_assert_geq(programs, 3, "core alone has three");
	cr_assert_geq(calls, 5, "if no call is seen, this test sees nothing");
}

/* ---- stack ---- */

/* Frames of a call chain have 512 bytes together, each rounded up to 32 (check_max_stack_depth() in
 * kernel/bpf/verifier.c; newer kernels are more generous). */
#define STACK_MAX   512
#define STACK_ROUND 32
#define FRAMES_MAX  8
#define SUBS_MAX    64

struct subs {
	const struct bpf_insn *insns;
	size_t ninsns, n;
	size_t starts[SUBS_MAX];
};

static void add_sub(struct subs *s, size_t at)
{
	size_t i = 0;

	while (i < s->n && s->starts[i] < at)
		i++;
	if (i < s->n && s->starts[i] == at)
		return;
	cr_assert_lt(s->n, SUBS_MAX);
	cr_assert_lt(at, s->ninsns);
	memmove(&s->starts[i + 1], &s->starts[i], (s->n - i) * sizeof(s->starts[0]));
	s->starts[i] = at;
	s->n++;
}

/* Where the function begins that this instruction calls or hands over to a helper; -1: none. */
static ssize_t callee(const struct bpf_insn *insn, size_t at)
{
	bool call = insn->code == (BPF_JMP | BPF_CALL) && insn->src_reg == BPF_PSEUDO_CALL;
	bool address =
		insn->code == (BPF_LD | BPF_DW | BPF_IMM) && insn->src_reg == BPF_PSEUDO_FUNC;

	return call || address ? (ssize_t)at + 1 + insn->imm : -1;
}

static size_t end_of(const struct subs *s, size_t sub)
{
	return sub + 1 < s->n ? s->starts[sub + 1] : s->ninsns;
}

/* Lowest address below the frame pointer that the function uses. */
static int frame_of(const struct subs *s, size_t sub)
{
	int lowest = 0, at;

	for (size_t i = s->starts[sub]; i < end_of(s, sub); i++) {
		const struct bpf_insn *insn = &s->insns[i], *next = insn + 1;
		uint8_t class = BPF_CLASS(insn->code);

		at = 0;
		if ((class == BPF_LDX && insn->src_reg == BPF_REG_10) ||
		    ((class == BPF_ST || class == BPF_STX) && insn->dst_reg == BPF_REG_10))
			at = insn->off;
		else if (insn->code == (BPF_ALU64 | BPF_MOV | BPF_X) &&
			 insn->src_reg == BPF_REG_10 && i + 1 < s->ninsns &&
			 next->code == (BPF_ALU64 | BPF_ADD | BPF_K) &&
			 next->dst_reg == insn->dst_reg)
			at = next->imm;
		if (at < lowest)
			lowest = at;
	}
	return (-lowest + STACK_ROUND - 1 + (lowest == 0)) / STACK_ROUND * STACK_ROUND;
}

static int deepest(const struct subs *s, size_t sub, int frames)
{
	int most = 0;

	cr_assert_leq(frames, FRAMES_MAX);
	for (size_t i = s->starts[sub]; i < end_of(s, sub); i++) {
		ssize_t at = callee(&s->insns[i], i);
		int below;

		for (size_t k = 0; at >= 0 && k < s->n; k++) {
			if (s->starts[k] != (size_t)at)
				continue;
			below = deepest(s, k, frames + 1);
			most = below > most ? below : most;
		}
	}
	return frame_of(s, sub) + most;
}

static int stack_of(const struct bpf_program *prog)
{
	struct subs s = { .insns = bpf_program__insns(prog),
			  .ninsns = bpf_program__insn_cnt(prog) };

	add_sub(&s, 0);
	for (size_t i = 0; i < s.ninsns; i++)
		if (callee(&s.insns[i], i) >= 0)
			add_sub(&s, (size_t)callee(&s.insns[i], i));
	return deepest(&s, 0, 1);
}

static void check_stacks(const char *path, int *most)
{
	struct bpf_object *object = bpf_object__open_file(path, NULL);
	struct bpf_program *prog;

	cr_assert_not_null(object, "%s", path);
	leave_out(object, path);
	/* Functions are put together when it is loaded: only now those that a program calls are
	 * seen. */
	cr_assert_eq(bpf_object__load(object), 0, "%s", path);
	bpf_object__for_each_program(prog, object)
	{
		int stack;

		if (!bpf_program__autoload(prog))
			continue;
		stack = stack_of(prog);
		(void)check_program(path, prog);
		cr_expect_leq(stack, STACK_MAX, "%s: %s takes %d bytes of stack", path,
			      bpf_program__name(prog), stack);
		*most = stack > *most ? stack : *most;
	}
	bpf_object__close(object);
}

Test(objects, no_program_takes_more_stack_than_the_oldest_kernel_gives)
{
	glob_t found = { 0 };
	int most = 0;

	(void)libbpf_set_print(quiet);
	cr_assert_eq(glob(BUILD_DIR "/gen/*.bpf.o", 0, NULL, &found), 0);
	for (size_t i = 0; i < found.gl_pathc; i++)
		if (!strstr(found.gl_pathv[i], "/refused.bpf.o"))
			check_stacks(found.gl_pathv[i], &most);
	globfree(&found);
	cr_assert_gt(most, 32, "if no frame is seen, this test sees nothing");
}
