#include "base/footprint.h"

#include <malloc.h>
#include <stdio.h>
#include <sys/mman.h>

/* A block of so many bytes has pages of its own, which are used only when they are written. */
#define LARGE_BYTES (48 << 10)

void footprint_setup(void)
{
	(void)mallopt(M_ARENA_MAX, 1);
	(void)mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
	(void)mallopt(M_TRIM_THRESHOLD, 4 * LARGE_BYTES);
}

void footprint_trim(void)
{
	(void)malloc_trim(0);
}

struct mapping {
	uintptr_t begin, end;
	bool code; /* of a file, private, read-only */
};

/* proc_pid_smaps(5): "begin-end perms offset device inode path". */
static bool parse_head(const char *line, struct mapping *out)
{
	char *p, perms[5], inode[24];
	uintptr_t begin = strtoul(line, &p, 16), end;

	if (*p != '-')
		return false;
	end = strtoul(p + 1, &p, 16);
	if (sscanf(p, " %4s %*s %*s %23s", perms, inode) != 2)
		return false;
	*out = (struct mapping){ begin, end,
				 perms[1] == '-' && perms[3] == 'p' && strcmp(inode, "0") != 0 };
	return true;
}

/* A mapping of which a page has ever been written is left alone: relocated data, and code with
 * somebody's breakpoint in it. */
static void forget_code(FILE *smaps)
{
	static const char written[] = "Anonymous:";
	struct mapping m = { 0 };
	char line[512];

	while (fgets(line, sizeof(line), smaps)) {
		if (parse_head(line, &m) || !m.code)
			continue;
		if (strncmp(line, written, strlen(written)) == 0 &&
		    strtoul(line + strlen(written), NULL, 10) == 0)
			/* NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel tells numbers */
			(void)madvise((void *)m.begin, m.end - m.begin, MADV_DONTNEED);
	}
}

int footprint_settle(void)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");

	footprint_trim();
	if (!smaps)
		return -errno;
	forget_code(smaps);
	(void)fclose(smaps);
	return 0;
}
