#include "gobin_rig.h"

Test(gobin_refused, what_is_no_readable_file_is_refused_with_its_errno)
{
	enum gobin_why why = GOBIN_OK;
	struct gobin *g = NULL;

	cr_assert_eq(gobin_open(&g, open("/", O_RDONLY | O_CLOEXEC), &why), -EISDIR);
	cr_assert_eq(why, GOBIN_OPEN);
	cr_assert_eq(gobin_open(&g, -1, &why), -EBADF);
	cr_assert_eq(why, GOBIN_OPEN);
	cr_assert_eq(g, NULL);
}

Test(gobin_refused, programs_that_are_not_go_are_refused)
{
	cr_assert_eq(bin_why(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), GOBIN_NOT_GO);
	cr_assert_eq(bin_why(open(SOURCE_DIR "/CMakeLists.txt", O_RDONLY | O_CLOEXEC)),
		     GOBIN_NOT_ELF);
	cr_assert_eq(bin_why(open("/dev/null", O_RDONLY | O_CLOEXEC)), GOBIN_OPEN);
	cr_assert_eq(bin_why(memfd_create("empty", MFD_CLOEXEC)), GOBIN_NOT_ELF);
}

Test(gobin_refused, a_file_that_is_cut_anywhere_is_refused_or_understood_in_part)
{
	struct copy c = bin_copy("go1.26");
	static const size_t lengths[] = { 3, 4, 63, 64, 100, 4096, 1 << 20, 3 << 20, 5 << 20 };

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		int fd = memfd_create("cut", MFD_CLOEXEC);
		enum gobin_why why;

		cr_assert_eq(write(fd, c.p, lengths[i]), (ssize_t)lengths[i]);
		why = bin_why(fd);
		cr_assert_eq(why, lengths[i] < 4 ? GOBIN_NOT_ELF : GOBIN_TRUNCATED, "%zu: %s",
			     lengths[i], gobin_why_label(why));
	}
}

Test(gobin_refused, a_file_that_gets_shorter_while_it_is_read_is_an_error_and_no_crash)
{
	struct copy c = bin_copy("go1.26");
	auto_gobin struct gobin *g = bin_open_fd(dup(c.fd));
	struct gobin_func funcs[NAMES];

	cr_assert_eq(munmap(c.p, c.n), 0);
	cr_assert_eq(ftruncate(c.fd, 8192), 0);
	cr_assert_lt(gobin_funcs(g, names, NAMES, funcs), 0);
}

static double seconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

Test(gobin_refused, a_sparse_file_of_four_terabytes_costs_a_bounded_time)
{
	Elf64_Ehdr eh = { .e_ident = ELFMAG "\2\1\1",
			  .e_type = ET_EXEC,
			  .e_phoff = sizeof(eh),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = 3 };
	const uint64_t size = 1ull << 42; /* the largest that ext4 takes is 16 TiB less a page */
	Elf64_Phdr ph[3] = {
		{ .p_type = PT_LOAD,
		  .p_flags = PF_X | PF_R,
		  .p_vaddr = 0x400000,
		  .p_filesz = 4096,
		  .p_memsz = 4096 },
		{ .p_type = PT_LOAD,
		  .p_flags = PF_W | PF_R,
		  .p_vaddr = 0x800000,
		  .p_filesz = size / 2,
		  .p_memsz = size / 2 },
		{ .p_type = PT_LOAD,
		  .p_flags = PF_R,
		  .p_vaddr = size,
		  .p_filesz = size / 2,
		  .p_memsz = size },
	};
	char path[] = BUILD_DIR "/sparse-XXXXXX";
	int fd = mkstemp(path);
	double begin = seconds();
	enum gobin_why why;

#ifdef __aarch64__
	eh.e_machine = EM_AARCH64;
#else
	eh.e_machine = EM_X86_64;
#endif
	(void)unlink(path);
	cr_assert_eq(ftruncate(fd, (off_t)size), 0);
	cr_assert_eq(pwrite(fd, &eh, sizeof(eh), 0), sizeof(eh));
	cr_assert_eq(pwrite(fd, ph, sizeof(ph), sizeof(eh)), sizeof(ph));
	why = bin_why(fd);
	cr_assert_eq(why, GOBIN_TOO_LARGE, "%s", gobin_why_label(why));
	cr_assert_lt(seconds() - begin, 5.0);
}

/* A writable segment full of one word, behind an executable one. */
static int full_of(uint64_t word, size_t size)
{
	Elf64_Ehdr eh = { .e_ident = ELFMAG "\2\1\1",
			  .e_type = ET_EXEC,
			  .e_phoff = sizeof(eh),
			  .e_phentsize = sizeof(Elf64_Phdr),
			  .e_phnum = 2 };
	Elf64_Phdr ph[2] = {
		{ .p_type = PT_LOAD,
		  .p_flags = PF_X | PF_R,
		  .p_vaddr = 0x400000,
		  .p_filesz = 4096,
		  .p_memsz = 4096 },
		{ .p_type = PT_LOAD,
		  .p_flags = PF_W | PF_R,
		  .p_offset = 4096,
		  .p_vaddr = 0x800000,
		  .p_filesz = size,
		  .p_memsz = size },
	};
	int fd = memfd_create("full", MFD_CLOEXEC);
	uint64_t *p;

#ifdef __aarch64__
	eh.e_machine = EM_AARCH64;
#else
	eh.e_machine = EM_X86_64;
#endif
	cr_assert_eq(ftruncate(fd, (off_t)(size + 4096)), 0);
	p = mmap(NULL, size + 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(p, MAP_FAILED);
	for (size_t i = 512; i < size / 8 + 512; i++)
		p[i] = word;
	memcpy(p, &eh, sizeof(eh));
	memcpy((uint8_t *)p + sizeof(eh), ph, sizeof(ph));
	(void)munmap(p, size + 4096);
	return fd;
}

Test(gobin_refused, data_that_looks_like_pointers_everywhere_costs_a_bounded_time)
{
	/* A number, an address in the segment itself, and a string header of eight bytes at every
	 * word. */
	static const uint64_t words[] = { 1, 0x900000, 8, 0x0101010101010101 };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		double begin = seconds();

		cr_assert_eq(bin_why(full_of(words[i], 48 << 20)), GOBIN_NOT_GO);
		cr_assert_lt(seconds() - begin, 5.0, "%f", seconds() - begin);
	}
}

Test(gobin_refused, crafted_files_get_their_reason)
{
	static const struct {
		const char *file;
		enum gobin_why why;
		bool types; /* it has them */
	} crafted[] = {
		{ "go119", GOBIN_OK, true },
		{ "go123_pie", GOBIN_OK, true },
		{ "go126", GOBIN_OK, true },
		{ "go126_lld", GOBIN_OK, true },
		{ "go127", GOBIN_OK, true },
		{ "go127_lld", GOBIN_OK, true },
		{ "no_sections", GOBIN_OK, true },
		{ "dwarf", GOBIN_OK, true },
		{ "go117", GOBIN_GO_VERSION, false },
		{ "no_moduledata", GOBIN_OK, false },
		{ "bits32", GOBIN_BITS, false },
		{ "machine", GOBIN_MACHINE, false },
		{ "nfunc_huge", GOBIN_NOT_GO, false },
		{ "links_huge", GOBIN_OK, false },
		{ "types_everywhere", GOBIN_OK, false },
		{ "phnum_huge", GOBIN_MALFORMED, false },
		{ "segment_huge", GOBIN_MALFORMED, false },
		{ "overlap", GOBIN_MALFORMED, false },
		{ "truncated", GOBIN_TRUNCATED, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(crafted); i++) {
		char path[512];
		struct gobin *g = NULL;
		enum gobin_why why = GOBIN_OK;
		struct gobin_field f;
		struct gobin_func funcs[NAMES];
		int err;

		(void)snprintf(path, sizeof(path), SOURCE_DIR "/tests/fuzz/corpus/gobin_elf/%s",
			       crafted[i].file);
		err = gobin_open(&g, open(path, O_RDONLY | O_CLOEXEC), &why);
		cr_assert_eq(err == 0, g != NULL);
		cr_assert_eq(why, crafted[i].why, "%s: %s", crafted[i].file, gobin_why_label(why));
		if (!g)
			continue;
		cr_assert_eq(gobin_fields(g, &want[4], 1, &f), 0);
		cr_assert_eq(f.source, crafted[i].types ? GOBIN_TYPES : GOBIN_NOWHERE, "%s",
			     crafted[i].file);
		cr_assert_eq(gobin_funcs(g, names, NAMES, funcs), 0);
		cr_assert_str_eq(funcs[SERVE].name, serve[1], "%s", crafted[i].file);
		gobin_close(&g);
	}
}

Test(gobin_refused, every_reason_has_a_label_and_a_sentence)
{
	for (int i = 0; i < GOBIN_WHY_COUNT; i++) {
		cr_assert_gt(strlen(gobin_why_text((enum gobin_why)i)), 10);
		cr_assert_gt(strlen(gobin_why_label((enum gobin_why)i)), 1);
	}
	cr_assert_str_eq(gobin_why_label(GOBIN_WHY_COUNT), "unknown");
	cr_assert_str_eq(gobin_source_text(GOBIN_DWARF), "DWARF");
}
