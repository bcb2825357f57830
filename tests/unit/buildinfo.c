#include "gobin/buildinfo.h"

#include "tests/elf_image.h"
#include <criterion/criterion.h>
#include <sys/mman.h>

static const char sentinel[] = "0123456789abcdef";

/* An executable with one writable segment that holds the bytes. */
static void file_with(struct exe *e, const void *bytes, size_t n)
{
	struct elf_image h = elf_image(64, 4096, 0x500000, n, n);
	int fd = memfd_create("buildinfo", MFD_CLOEXEC);
	enum gobin_why why;

	cr_assert_eq(pwrite(fd, &h, sizeof(h), 0), sizeof(h));
	cr_assert_eq(pwrite(fd, bytes, n, 4096), (ssize_t)n);
	cr_assert_eq(exe_open(e, fd, &why), 0);
}

/* Version and module lines as the linker writes them; lines longer than 127 bytes have two bytes of
 * length. */
static size_t inline_info(uint8_t *out, const char *version, const char *lines)
{
	size_t at = 32, n = strlen(lines) + 32;

	memset(out, 0, 32);
	memcpy(out, "\xff Go buildinf:\x08\x02", 16);
	out[at++] = (uint8_t)strlen(version);
	memcpy(out + at, version, strlen(version));
	at += strlen(version);
	out[at++] = (uint8_t)(n & 127) | 128;
	out[at++] = (uint8_t)(n >> 7);
	memcpy(out + at, sentinel, 16);
	memcpy(out + at + 16, lines, strlen(lines));
	memcpy(out + at + 16 + strlen(lines), sentinel, 16);
	return at + n;
}

Test(buildinfo, module_lines_become_modules_and_replacements_give_their_version)
{
	uint8_t bytes[1024];
	size_t n = inline_info(
		bytes, "go1.24.1 X:none",
		"path\texample.com/cmd\nmod\texample.com\tv1.0.0\th1:a=\ndep\texample.com/a\t"
		"v0.0.0-20240101000000-0123456789ab\th1:b=\ndep\texample.com/"
		"b\tv1.0.0\n=>\texample.com/fork\tv1.9.0\th1:c=\n"
		"dep\texample.com/c\tv1.0.0\n=>\t../c\t\nbuild\tCGO_ENABLED=0\n");
	struct buildinfo b = { 0 };
	struct exe e;

	file_with(&e, bytes, n);
	cr_assert_eq(buildinfo_read(&e, &b), 0);
	cr_assert_str_eq(b.version, "go1.24.1 X:none");
	cr_assert_str_eq(b.main_path, "example.com/cmd");
	cr_assert_eq(b.nmodules, 4);
	cr_assert_str_eq(b.modules[1].version, "v0.0.0-20240101000000-0123456789ab");
	cr_assert_str_eq(b.modules[2].path, "example.com/b");
	cr_assert_str_eq(b.modules[2].version, "v1.9.0");
	cr_assert_str_eq(b.modules[3].version, "");
	buildinfo_clear(&b);
	exe_close(&e);
}

Test(buildinfo, lines_that_make_no_sense_are_left_out)
{
	uint8_t bytes[512];
	size_t n = inline_info(bytes, "devel go1.27-abcdef",
			       "=>\tnobody\tv1\n\n\nmod\ndep\t\t\nwhat\tis\tthis\npath\n");
	struct buildinfo b = { 0 };
	struct exe e;

	file_with(&e, bytes, n);
	cr_assert_eq(buildinfo_read(&e, &b), 0);
	cr_assert_str_eq(b.main_path, "");
	cr_assert_eq(b.nmodules, 1);
	cr_assert_str_eq(b.modules[0].path, "");
	buildinfo_clear(&b);
	exe_close(&e);
}

Test(buildinfo, a_length_beyond_the_file_gives_nothing)
{
	uint8_t bytes[64] = "\xff Go buildinf:\x08\x02";
	struct buildinfo b = { 0 };
	struct exe e;

	memset(bytes + 32, 0xff, 5);
	file_with(&e, bytes, sizeof(bytes));
	cr_assert_eq(buildinfo_read(&e, &b), 0);
	cr_assert_str_eq(b.version, "");
	cr_assert_eq(b.nmodules, 0);
	buildinfo_clear(&b);
	exe_close(&e);
}

Test(buildinfo, minor_versions_are_read_from_every_spelling)
{
	cr_assert_eq(buildinfo_minor("go1.19"), 19);
	cr_assert_eq(buildinfo_minor("go1.26.8 X:nodwarf5"), 26);
	cr_assert_eq(buildinfo_minor("devel go1.28-0123abc Tue"), 28);
	cr_assert_eq(buildinfo_minor("go1.25-20250209-RC00 cl/724970549"), 25);
	cr_assert_eq(buildinfo_minor("go1.18rc1"), 18);
	cr_assert_eq(buildinfo_minor(""), -1);
	cr_assert_eq(buildinfo_minor("devel +abc"), -1);
	cr_assert_eq(buildinfo_minor("go1.x"), -1);
}
