/* pretend.c - becomes a process whose /proc/PID/exe is the FILE given, whatever is in it: for tests
 * of what an agent does with files that no kernel would run. Leaves its own text (so that the
 * kernel lets go of the file), says "pretending", sleeps. x86-64; static, not PIE; needs
 * CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/prctl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

extern const char __executable_start[], _end[], __start_after[], __stop_after[];

struct plan {
	uint64_t from, len; /* our own image */
	struct prctl_mm_map map;
	char done[32], failed[32];
	uint64_t pause[2]; /* struct timespec */
};

#define STAGE2 __attribute__((section("after"), noinline, used))

static inline __attribute__((always_inline)) long call(long n, long a, long b, long c, long d)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = 0;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return ret;
}

/* Runs from a copy in anonymous memory. */
STAGE2 static void stage2(struct plan *p)
{
	long err;

	call(SYS_munmap, (long)p->from, (long)p->len, 0, 0);
	err = call(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, (long)&p->map, sizeof(p->map));
	if (err) {
		call(SYS_write, 1, (long)p->failed, sizeof("{\"failed\":1}"), 0);
		call(SYS_exit_group, -err, 0, 0, 0);
	}
	call(SYS_write, 1, (long)p->done, sizeof("{\"pretending\":1}"), 0);
	for (;;)
		call(SYS_nanosleep, (long)p->pause, 0, 0, 0);
}

int main(int argc, char **argv)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct plan *p = (struct plan *)(page + 4096);
	int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	uint64_t at = (uint64_t)page;

	if (page == MAP_FAILED || fd < 0)
		return perror(argv[1]), 1;
	memcpy(page, __start_after, (size_t)(__stop_after - __start_after));
	p->from = (uint64_t)__executable_start & ~4095ull;
	p->len = (((uint64_t)_end + 4095) & ~4095ull) - p->from;
	p->map = (struct prctl_mm_map){ .start_code = at,
					.end_code = at + 4096,
					.start_data = at + 4096,
					.end_data = at + 8192,
					.start_brk = at + 16384,
					.brk = at + 16384,
					.start_stack = (uint64_t)&p,
					.arg_start = at,
					.arg_end = at,
					.env_start = at,
					.env_end = at,
					.exe_fd = (uint32_t)fd };
	strcpy(p->done, "{\"pretending\":1}\n");
	strcpy(p->failed, "{\"failed\":1}\n");
	p->pause[0] = 3600;
	((void (*)(struct plan *))(page + ((const char *)stage2 - __start_after)))(p);
	return 0;
}
