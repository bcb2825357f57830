/* What the BPF objects may not do. Reads the objects as they were built; loads nothing. */
#include "base/base.h"
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <glob.h>

/* Helpers that read or write memory of the kernel, or write that of programs: refused under
 * lockdown, or not needed. */
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
