/* May programs' memory be written? The kernel is asked by a program of three instructions: it
 * refuses the helper under lockdown, and to whoever lacks CAP_SYS_ADMIN. */
#include "propagate/object.h"

#include "base/config.h"
#include "base/log.h"

#include <bpf/bpf.h>
#include <cap-ng.h>
#include <fcntl.h>
#include <stdio.h>

#define CAP_ID_SYS_ADMIN 21

/* The word in brackets of "none [integrity] confidentiality"; "" where that cannot be read. */
static void lockdown(char *out, size_t size)
{
	auto_close int fd = open("/sys/kernel/security/lockdown", O_RDONLY | O_CLOEXEC);
	char text[128] = "", *from, *to;

	out[0] = '\0';
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return;
	from = strchr(text, '[');
	to = from ? strchr(from, ']') : NULL;
	if (to)
		(void)snprintf(out, size, "%.*s", (int)(to - from - 1), from + 1);
}

/* probe_write_user(0, a word of the stack, 8). The address 0 would make it harmless, and nobody
 * runs it. */
static int load(void)
{
	enum { ALU = BPF_ALU64, MOV = BPF_MOV, IMM = BPF_K };
	static const struct bpf_insn code[] = {
		{ .code = BPF_ST | BPF_MEM | BPF_DW, .dst_reg = BPF_REG_10, .off = -8 },
		{ .code = ALU | MOV | BPF_X, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_10 },
		{ .code = ALU | BPF_ADD | IMM, .dst_reg = BPF_REG_2, .imm = -8 },
		{ .code = ALU | MOV | IMM, .dst_reg = BPF_REG_1 },
		{ .code = ALU | MOV | IMM, .dst_reg = BPF_REG_3, .imm = 8 },
		{ .code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_probe_write_user },
		{ .code = ALU | MOV | IMM, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "spoor_write", "GPL", code, ARRAY_SIZE(code),
			       &opts);

	if (fd < 0)
		return -errno;
	(void)close(fd);
	return 0;
}

void propagate_try_write(struct propagate *p)
{
	bool admin = capng_get_caps_process() == 0 &&
		     capng_have_capability(CAPNG_EFFECTIVE, CAP_ID_SYS_ADMIN) == 1;
	char mode[32];
	int err;

	if (strcmp(p->cfg->propagation, "write") != 0) {
		(void)snprintf(p->why_write, sizeof(p->why_write), "not asked for");
		return;
	}
	err = load();
	if (!err)
		return;
	lockdown(mode, sizeof(mode));
	if (*mode && strcmp(mode, "none") != 0)
		(void)snprintf(p->why_write, sizeof(p->why_write),
			       "the kernel refuses to write into programs' memory: lockdown is %s",
			       mode);
	else if (!admin)
		(void)snprintf(p->why_write, sizeof(p->why_write),
			       "the kernel does not let us write into programs' memory: "
			       "CAP_SYS_ADMIN is needed");
	else
		(void)snprintf(p->why_write, sizeof(p->why_write),
			       "the kernel refuses to write into programs' memory "
			       "(bpf_probe_write_user: %s)%s",
			       strerror(-err), *mode ? "" : ": its lockdown does so, most likely");
	log_warn("propagation: write: %s; plaintext HTTP/1 only", p->why_write);
}
