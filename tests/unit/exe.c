#include "gobin/exe.h"

#include "tests/elf_image.h"
#include <criterion/criterion.h>
#include <sys/mman.h>

static struct elf_image image(void)
{
	return elf_image(20000, 0x5000, 0x500000, 100, 5000);
}

/* 30000 bytes whose value is their offset in it, behind the headers. */
static int file_of(const struct elf_image *h)
{
	int fd = memfd_create("exe", MFD_CLOEXEC);
	static uint8_t bytes[30000];

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7 >> 3);
	memcpy(bytes, h, sizeof(*h));
	cr_assert_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	return fd;
}

static enum gobin_why refused(const struct elf_image *h)
{
	enum gobin_why why = GOBIN_OK;
	struct exe e;

	cr_assert_lt(exe_open(&e, file_of(h), &why), 0);
	exe_close(&e);
	return why;
}

Test(exe, reads_stay_within_the_file_part_of_one_segment)
{
	struct elf_image h = image();
	enum gobin_why why;
	uint8_t buf[16];
	struct exe e;

	cr_assert_eq(exe_open(&e, file_of(&h), &why), 0);
	cr_assert(exe_has(&e, 0x400000, 20000));
	cr_assert_not(exe_has(&e, 0x400000, 20001));
	cr_assert_not(exe_has(&e, 0x400001, UINT64_MAX));
	cr_assert(exe_read(&e, 0x400000 + 4090, buf, 16));
	for (size_t i = 0; i < 16; i++)
		cr_assert_eq(buf[i], (uint8_t)((4090 + i) * 7 >> 3), "across two windows");
	cr_assert(exe_read(&e, 0x500000 + 99, buf, 1));
	memset(buf, 1, sizeof(buf));
	cr_assert_not(exe_read(&e, 0x500000 + 99, buf, 2));
	cr_assert_eq(buf[0], 0);
	cr_assert_eq(exe_u64(&e, 0x500000 + 4000), 0, "in memory, not in the file");
	cr_assert_neq(exe_segment(&e, 0x500000 + 4000), NULL);
	cr_assert_eq(exe_offset(&e, 0x500000 + 4000), 0);
	cr_assert_eq(exe_offset(&e, 0x500010), 0x5010);
	cr_assert_eq(exe_segment(&e, 0x300000), NULL);
	cr_assert_eq(e.err, 0);
	exe_close(&e);
}

Test(exe, the_cache_gives_the_same_bytes_as_the_file_in_any_order)
{
	struct elf_image h = image();
	enum gobin_why why;
	struct exe e;

	h.ph[0].p_filesz = h.ph[0].p_memsz = 0x4f00;
	cr_assert_eq(exe_open(&e, file_of(&h), &why), 0);
	for (uint32_t i = 0, at = 7; i < 20000; i++, at = (at * 48271u + 11) % 0x4f00)
		if (at >= sizeof(h))
			cr_assert_eq(exe_u8(&e, 0x400000 + at), (uint8_t)(at * 7 >> 3));
	cr_assert_leq(e.bytes_read, 64 + 30000);
	exe_close(&e);
}

Test(exe, a_call_may_not_read_more_than_its_allowance)
{
	struct elf_image h = image();
	static uint8_t buf[16000];
	enum gobin_why why;
	struct exe e;

	cr_assert_eq(exe_open(&e, file_of(&h), &why), 0);
	e.left = 20000;
	cr_assert(exe_read(&e, 0x400000, buf, sizeof(buf)));
	cr_assert_not(exe_read(&e, 0x400000, buf, sizeof(buf)));
	cr_assert_eq(e.err, -EFBIG);
	exe_budget(&e);
	cr_assert_eq(e.err, 0);
	cr_assert(exe_read(&e, 0x400000, buf, sizeof(buf)));
	exe_close(&e);
}

Test(exe, headers_that_contradict_each_other_are_refused)
{
	struct elf_image h = image();

	h.ph[1].p_vaddr = 0x400000;
	cr_assert_eq(refused(&h), GOBIN_MALFORMED, "overlap");
	h = image();
	h.ph[1].p_memsz = 50;
	cr_assert_eq(refused(&h), GOBIN_MALFORMED, "more in the file than in memory");
	h = image();
	h.ph[1].p_vaddr = UINT64_MAX - 0xfff;
	cr_assert_eq(refused(&h), GOBIN_MALFORMED, "around the end of the address space");
	h = image();
	h.ph[1].p_vaddr += 8;
	cr_assert_eq(refused(&h), GOBIN_MALFORMED, "cannot be mapped");
	h = image();
	h.ph[0].p_flags = PF_R;
	cr_assert_eq(refused(&h), GOBIN_MALFORMED, "nothing to execute");
	h = image();
	h.ph[1].p_filesz = h.ph[1].p_memsz = 1 << 20;
	cr_assert_eq(refused(&h), GOBIN_TRUNCATED);
	h = image();
	h.eh.e_phoff = 29990;
	cr_assert_eq(refused(&h), GOBIN_TRUNCATED);
	h = image();
	h.eh.e_phnum = 0;
	cr_assert_eq(refused(&h), GOBIN_MALFORMED);
	h = image();
	h.eh.e_ident[EI_CLASS] = ELFCLASS32;
	cr_assert_eq(refused(&h), GOBIN_BITS);
	h = image();
	h.eh.e_ident[EI_DATA] = ELFDATA2MSB;
	cr_assert_eq(refused(&h), GOBIN_MACHINE);
	h = image();
	h.eh.e_machine = EM_S390;
	cr_assert_eq(refused(&h), GOBIN_MACHINE);
	h = image();
	h.eh.e_type = ET_REL;
	cr_assert_eq(refused(&h), GOBIN_NOT_GO);
}

Test(exe, section_headers_outside_of_the_file_are_as_good_as_none)
{
	struct elf_image h = image();
	struct exe_section s;
	enum gobin_why why;
	struct exe e;

	h.eh.e_shentsize = sizeof(Elf64_Shdr);
	h.eh.e_shoff = 29000;
	h.eh.e_shnum = 100;
	cr_assert_eq(exe_open(&e, file_of(&h), &why), 0);
	cr_assert_eq(exe_section(&e, 0, &s), -ENOENT);
	exe_close(&e);
}
