#include "bpf/event.h"
#include "go_bins.h"
#include <criterion/parameterized.h>
#include <elf.h>
#include <time.h>

/* The fields that the agent reads of every server, and what they are in each Go version (read in
 * its sources, compared with DWARF). */
static const struct gobin_want want[] = {
	{ "runtime.g", "goid" },
	{ "runtime.g", "parentGoid" },
	{ "net/http.Request", "Method" },
	{ "net/http.Request", "Pattern" },
	{ "net/http.Request", "ctx" },
	{ "net/http.response", "status" },
	{ "net/http.response", "written" },
	{ "net/http/internal/http2.responseWriterState|net/http.http2responseWriterState",
	  "status" },
	{ "net/http.Request", "" },
};
#define WANTS  ARRAY_SIZE(want)
#define ABSENT UINT32_MAX

struct version {
	const char *bin, *go;
	uint32_t offset[WANTS];
	struct gobin_map map;
	bool emulated;
};

#define OLD   GO_MAP_OLD, 336, 8, 16, 136, 24
#define SWISS GO_MAP_SWISS, 328, 8, 40, 24, 40

static const struct version versions[] = {
	{ "go1.19", "go1.19.", { 152, ABSENT, 0, ABSENT, 232, 120, 104, 80, 248 }, { OLD }, false },
	{ "go1.19.pie",
	  "go1.19.",
	  { 152, ABSENT, 0, ABSENT, 232, 120, 104, 80, 248 },
	  { OLD },
	  false },
	{ "go1.21", "go1.21.", { 152, 272, 0, ABSENT, 232, 120, 104, 72, 248 }, { OLD }, true },
	{ "go1.22", "go1.22.", { 152, 272, 0, ABSENT, 232, 120, 104, 72, 288 }, { OLD }, true },
	{ "go1.23", "go1.23.", { 160, 280, 0, 232, 248, 120, 104, 72, 304 }, { OLD }, true },
	{ "go1.23.cgo", "go1.23.", { 160, 280, 0, 232, 248, 120, 104, 72, 304 }, { OLD }, true },
	{ "go1.26", "go1.26.", { 152, 280, 0, 232, 248, 120, 104, 72, 304 }, { SWISS }, true },
	{ "go1.26.dw", "go1.26.", { 152, 280, 0, 232, 248, 120, 104, 72, 304 }, { SWISS }, true },
	{ "go1.26.pie", "go1.26.", { 152, 280, 0, 232, 248, 120, 104, 72, 304 }, { SWISS }, true },
	{ "go1.26.trim", "go1.26.", { 152, 280, 0, 232, 248, 120, 104, 72, 304 }, { SWISS }, true },
	{ "go1.26.lld", "go1.26.", { 152, 280, 0, 232, 248, 120, 104, 72, 304 }, { SWISS }, true },
	{ "go1.27", "go1.27.", { 152, 280, 0, 232, 248, 128, 112, 240, 304 }, { SWISS }, true },
	{ "go1.27.pie", "go1.27.", { 152, 280, 0, 232, 248, 128, 112, 240, 304 }, { SWISS }, true },
	{ "go1.27.lld", "go1.27.", { 152, 280, 0, 232, 248, 128, 112, 240, 304 }, { SWISS }, true },
};

static const char *const serve[] = { "net/http.absent", "net/http.serverHandler.ServeHTTP",
				     "main.main", NULL };
static const char *const finish[] = { "net/http.(*response).finishRequest", NULL };
static const char *const func1[] = { "net/http.(*conn).serve.func1", NULL };
static const char *const absent[] = { "net/http.absent", "net/http.serverHandler.ServeHTT", NULL };
static const char *const ends[] = { "main.ends", NULL };
static const char *const *const names[] = { serve, finish, func1, absent, ends };
enum { SERVE, FINISH, FUNC1, NOT_THERE, ENDS, NAMES };

static void expect(struct gobin *g, const struct version *v)
{
	struct gobin_field fields[WANTS];
	struct gobin_func funcs[NAMES];
	struct gobin_map map = { 0 };

	cr_assert_eq(strncmp(gobin_info(g)->go_version, v->go, strlen(v->go)), 0, "%s",
		     gobin_info(g)->go_version);
	cr_assert_eq(gobin_fields(g, want, WANTS, fields), 0);
	for (size_t i = 0; i < WANTS; i++) {
		cr_assert_eq(fields[i].source, v->offset[i] == ABSENT ? GOBIN_NOWHERE : GOBIN_TYPES,
			     "%s.%s", want[i].type, want[i].field);
		cr_assert(v->offset[i] == ABSENT || fields[i].offset == v->offset[i], "%s.%s: %u",
			  want[i].type, want[i].field, fields[i].offset);
	}
	cr_assert_eq(gobin_header_map(g, &map), 0);
	cr_assert(map.kind == v->map.kind && map.group == v->map.group && map.key == v->map.key &&
		  map.key_stride == v->map.key_stride && map.elem == v->map.elem &&
		  map.elem_stride == v->map.elem_stride);
	cr_assert_eq(gobin_funcs(g, names, NAMES, funcs), 0);
	cr_assert_eq(funcs[NOT_THERE].name, NULL);
	for (size_t i = 0; i < NOT_THERE; i++) {
		cr_assert_eq(funcs[i].place, GOBIN_PLACE_CHECKED);
		cr_assert_eq(funcs[i].emulated, v->emulated);
		cr_assert(funcs[i].entry >= gobin_info(g)->text &&
			  funcs[i].end <= gobin_info(g)->etext);
	}
	cr_assert_str_eq(funcs[SERVE].name, serve[1]);
}

Test(gobin, fields_maps_and_functions_are_right_in_every_go_version)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		auto_gobin struct gobin *g = bin_open(versions[i].bin);

		cr_log_info("%s", versions[i].bin);
		expect(g, &versions[i]);
		cr_assert_eq(gobin_info(g)->pie, strstr(versions[i].bin, ".pie") ||
							 strstr(versions[i].bin, ".cgo") ||
							 strstr(versions[i].bin, ".lld"));
	}
}

static const struct version *version(const char *bin)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (strcmp(versions[i].bin, bin) == 0)
			return &versions[i];
	cr_assert_fail("%s", bin);
	return NULL;
}

Test(gobin, an_enter_place_is_the_push_behind_the_stack_check)
{
	auto_gobin struct gobin *g = bin_open("go1.26.pie");
	struct copy c = bin_copy("go1.26.pie");
	struct gobin_func funcs[NAMES];

	cr_assert_eq(gobin_funcs(g, names, NAMES, funcs), 0);
	for (size_t i = 0; i < NOT_THERE; i++) {
		const uint8_t *at = c.p + funcs[i].enter_offset;

		cr_assert_eq(*at, 0x55);
		cr_assert_gt(funcs[i].enter, funcs[i].entry);
		cr_assert(at[-2] == 0x76 || at[-6] == 0x0f, "a jump stands before it");
	}
}

Test(gobin, every_return_of_a_function_is_found)
{
	auto_gobin struct gobin *g = bin_open("go1.26");
	struct copy c = bin_copy("go1.26");
	uint64_t rets[GOBIN_RETS_MAX];
	struct gobin_func funcs[NAMES];
	size_t n = GOBIN_RETS_MAX;

	cr_assert_eq(gobin_funcs(g, names, NAMES, funcs), 0);
	cr_assert_eq(gobin_rets(g, &funcs[ENDS], rets, &n), 0);
	cr_assert_eq(n, 3, "%zu", n);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(c.p[rets[i]], 0xc3);
	funcs[0].name = NULL;
	cr_assert_eq(gobin_rets(g, &funcs[0], rets, &n), -EINVAL);
}

Test(gobin, of_a_function_and_its_assembly_wrapper_the_one_with_a_stack_check_is_taken)
{
	static const char *const goexit[] = { "runtime.goexit1", NULL };
	static const char *const *const one[] = { goexit };
	auto_gobin struct gobin *g = bin_open("go1.26");
	struct gobin_func f;

	cr_assert_eq(gobin_funcs(g, one, 1, &f), 0);
	cr_assert_eq(f.place, GOBIN_PLACE_CHECKED);
}

Test(gobin, a_leaf_without_a_stack_check_is_entered_at_its_first_instruction)
{
	static const char *const leaf[] = {
		"runtime.procyield.abi0", "runtime.publicationBarrier.abi0",
		"runtime.procyield",      "runtime.memhash32",
		"runtime.memmove",        NULL
	};
	static const char *const *const one[] = { leaf };
	auto_gobin struct gobin *g = bin_open("go1.26");
	struct gobin_func f;

	cr_assert_eq(gobin_funcs(g, one, 1, &f), 0);
	cr_assert_neq(f.name, NULL);
	cr_assert_eq(f.place, GOBIN_PLACE_ENTRY);
	cr_assert_eq(f.enter, f.entry);
}

Test(gobin, section_headers_are_not_needed)
{
	struct copy c = bin_copy("go1.26");
	Elf64_Ehdr *eh = (void *)c.p;

	memset(c.p + eh->e_shoff, 0, (size_t)eh->e_shnum * eh->e_shentsize);
	eh->e_shoff = eh->e_shnum = eh->e_shstrndx = 0;
	auto_gobin struct gobin *g = bin_open_fd(c.fd);
	expect(g, version("go1.26"));
}

/* Where the loader writes pointers lld leaves zeros, other linkers the final value. */
static void zero_relocated(struct copy *c)
{
	const Elf64_Ehdr *eh = (void *)c->p;
	const Elf64_Phdr *ph = (void *)(c->p + eh->e_phoff);
	const Elf64_Shdr *sh = (void *)(c->p + eh->e_shoff);
	size_t zeroed = 0;

	for (size_t i = 0; i < eh->e_shnum; i++)
		for (size_t k = 0;
		     sh[i].sh_type == SHT_RELA && k < sh[i].sh_size / sizeof(Elf64_Rela); k++) {
			const Elf64_Rela *r = (void *)(c->p + sh[i].sh_offset + k * sizeof(*r));

			for (size_t s = 0;
			     s < eh->e_phnum && ELF64_R_TYPE(r->r_info) == R_X86_64_RELATIVE; s++)
				if (ph[s].p_type == PT_LOAD &&
				    r->r_offset - ph[s].p_vaddr < ph[s].p_filesz) {
					memset(c->p + ph[s].p_offset +
						       (r->r_offset - ph[s].p_vaddr),
					       0, 8);
					zeroed++;
				}
		}
	cr_assert_gt(zeroed, 10000);
}

Test(gobin, pointers_that_the_linker_left_to_the_loader_are_read_from_the_relocations)
{
	struct copy c = bin_copy("go1.23.cgo");

	zero_relocated(&c);
	auto_gobin struct gobin *g = bin_open_fd(c.fd);
	expect(g, version("go1.23.cgo"));
}

static const struct gobin_module *module(const struct gobin_info *info, const char *path)
{
	for (size_t i = 0; i < info->nmodules; i++)
		if (strcmp(info->modules[i].path, path) == 0)
			return &info->modules[i];
	return NULL;
}

Test(gobin, modules_keep_their_path_and_take_the_version_of_what_replaces_them)
{
	auto_gobin struct gobin *g = bin_open("go1.26");
	const struct gobin_info *info = gobin_info(g);

	cr_assert_str_eq(info->main_path, "example.com/prog");
	cr_assert_eq(info->nmodules, 3);
	cr_assert_str_eq(module(info, "example.com/prog")->version, "(devel)");
	cr_assert_str_eq(module(info, "example.com/dep.go")->version, "(devel)", "%s",
			 module(info, "example.com/dep.go")->version);
	cr_assert_neq(module(info, "example.com/odd/v3"), NULL);
}

static uint8_t *find(const struct copy *c, const char *bytes, size_t n)
{
	uint8_t *at = memmem(c->p, c->n, bytes, n);

	cr_assert_neq(at, NULL);
	return at;
}

/* The last one: the text of the check for it in cmd/go's packages may stand in the read-only data.
 */
static uint8_t *buildinfo(const struct copy *c)
{
	static const char magic[] = "\xff Go buildinf:\x08";
	uint8_t *at = find(c, magic, sizeof(magic) - 1), *next;

	while ((next = memmem(at + 1, c->n - (size_t)(at + 1 - c->p), magic, sizeof(magic) - 1)) !=
	       NULL)
		at = next;
	return at;
}

Test(gobin, without_build_info_the_version_comes_from_the_runtime)
{
	static const char *const bins[] = { "go1.19", "go1.23.cgo", "go1.26", "go1.27.pie" };

	for (size_t i = 0; i < ARRAY_SIZE(bins); i++) {
		struct copy c = bin_copy(bins[i]);

		memset(buildinfo(&c), 0, 32);
		auto_gobin struct gobin *g = bin_open_fd(c.fd);
		expect(g, version(bins[i]));
		cr_assert_eq(gobin_info(g)->nmodules, 0);
		cr_assert_str_eq(gobin_info(g)->main_path, "");
	}
}

Test(gobin, a_go_before_1_19_is_refused_with_that_reason)
{
	struct copy c = bin_copy("go1.26");
	uint8_t *at = buildinfo(&c) + 33;

	cr_assert_eq(memcmp(at, "go1.26.", 7), 0);
	memcpy(at, "go1.18.", 7);
	cr_assert_eq(bin_why(c.fd), GOBIN_GO_VERSION);
}

Test(gobin, a_type_that_is_only_copied_is_found_in_debug_information)
{
	static const struct gobin_want by_value[] = { { "main.byValue", "third" },
						      { "main.byValue", "" },
						      { "main.byValue", "nothing" },
						      { "main.unused", "knows" },
						      { "main.absent|main.byValue", "second" } };
	auto_gobin struct gobin *with = bin_open("go1.26.dw"), *stripped = bin_open("go1.26");
	struct gobin_field f[5];

	cr_assert_eq(gobin_fields(stripped, by_value, 5, f), 0);
	for (size_t i = 0; i < 5; i++)
		cr_assert_eq(f[i].source, GOBIN_NOWHERE);
	cr_assert_eq(gobin_fields(with, by_value, 5, f), 0);
	cr_assert_eq(f[0].source, GOBIN_DWARF);
	cr_assert_eq(f[0].offset, 24);
	cr_assert_eq(f[1].source, GOBIN_DWARF);
	cr_assert_eq(f[1].offset, 32);
	cr_assert_eq(f[2].source, GOBIN_NOWHERE);
	cr_assert_eq(f[3].source, GOBIN_NOWHERE);
	cr_assert_eq(f[4].source, GOBIN_DWARF);
	cr_assert_eq(f[4].offset, 8);
	cr_assert_eq(f[4].alternative, 1);
}

Test(gobin, packages_are_found_whose_name_is_not_in_their_path)
{
	static const struct gobin_want odd[] = {
		{ "example.com/dep.go.Thing", "Last" },
		{ "example.com/dep.go.Thing", "Inner.B" },
		{ "example.com/odd/v3.Thing", "Last" },
		{ "example.com/odd/v3.Thing", "Last.not" },
		{ "example.com/nobody/v3.Thing", "Last" },
		{ "example.com/odd/v3.Thing", "none|Odd" },
		{ "vendor/golang.org/x/net/http2/hpack.HeaderField", "Value" },
	};
	static const char *const bins[] = { "go1.21", "go1.26", "go1.27" };
	static const char *const touch[] = { "example.com/dep%2ego.(*Thing).Touch", NULL };
	static const char *const *const one[] = { touch };

	for (size_t i = 0; i < ARRAY_SIZE(bins); i++) {
		auto_gobin struct gobin *g = bin_open(bins[i]);
		struct gobin_field f[7];
		struct gobin_func func;

		cr_assert_eq(gobin_fields(g, odd, 7, f), 0);
		cr_assert_eq(f[0].offset, 24);
		cr_assert_eq(f[1].offset, 20);
		cr_assert_eq(f[2].offset, 40);
		cr_assert_eq(f[3].source, GOBIN_NOWHERE);
		cr_assert_eq(f[4].source, GOBIN_NOWHERE);
		cr_assert_eq(f[5].offset, 24);
		cr_assert(f[6].source == GOBIN_TYPES && f[6].offset == 16);
		cr_assert_eq(gobin_funcs(g, one, 1, &func), 0);
		cr_assert_neq(func.name, NULL);
	}
}

Test(gobin, literals_lie_in_the_read_only_segment_that_is_told)
{
	static const char *const bins[] = { "go1.19.pie", "go1.23.cgo", "go1.26", "go1.27.pie" };

	for (size_t i = 0; i < ARRAY_SIZE(bins); i++) {
		auto_gobin struct gobin *g = bin_open(bins[i]);
		const struct gobin_info *info = gobin_info(g);
		struct copy c = bin_copy(bins[i]);

		cr_assert_neq(memmem(c.p + info->ro_offset, info->ro_size, "/hello", 6), NULL);
	}
}

Test(gobin, analysis_reads_less_than_the_file_and_holds_little_memory)
{
	auto_gobin struct gobin *g = bin_open("go1.26.pie");
	struct copy c = bin_copy("go1.26.pie");

	expect(g, version("go1.26.pie"));
	cr_assert_lt(gobin_info(g)->bytes_read, c.n / 2);
	cr_assert_lt(gobin_info(g)->peak_bytes, 4u << 20);
}

Test(gobin, answers_are_the_same_each_time)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i += 3) {
		auto_gobin struct gobin *a = bin_open(versions[i].bin),
					*b = bin_open(versions[i].bin);
		struct gobin_func fa[NAMES], fb[NAMES];

		expect(a, &versions[i]);
		cr_assert_eq(gobin_funcs(a, names, NAMES, fa), 0);
		cr_assert_eq(gobin_funcs(b, names, NAMES, fb), 0);
		for (size_t k = 0; k < NAMES; k++)
			cr_assert(fa[k].name == fb[k].name && fa[k].entry == fb[k].entry &&
				  fa[k].end == fb[k].end && fa[k].enter == fb[k].enter &&
				  fa[k].enter_offset == fb[k].enter_offset);
	}
}

/* ---- what is refused ---- */

Test(gobin, what_is_no_readable_file_is_refused_with_its_errno)
{
	enum gobin_why why = GOBIN_OK;
	struct gobin *g = NULL;

	cr_assert_eq(gobin_open(&g, open("/", O_RDONLY | O_CLOEXEC), &why), -EISDIR);
	cr_assert_eq(why, GOBIN_OPEN);
	cr_assert_eq(gobin_open(&g, -1, &why), -EBADF);
	cr_assert_eq(why, GOBIN_OPEN);
	cr_assert_eq(g, NULL);
}

Test(gobin, programs_that_are_not_go_are_refused)
{
	cr_assert_eq(bin_why(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), GOBIN_NOT_GO);
	cr_assert_eq(bin_why(open(SOURCE_DIR "/CMakeLists.txt", O_RDONLY | O_CLOEXEC)),
		     GOBIN_NOT_ELF);
	cr_assert_eq(bin_why(open("/dev/null", O_RDONLY | O_CLOEXEC)), GOBIN_OPEN);
	cr_assert_eq(bin_why(memfd_create("empty", MFD_CLOEXEC)), GOBIN_NOT_ELF);
}

Test(gobin, a_file_that_is_cut_anywhere_is_refused_or_understood_in_part)
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

Test(gobin, a_file_that_gets_shorter_while_it_is_read_is_an_error_and_no_crash)
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

Test(gobin, a_sparse_file_of_four_terabytes_costs_a_bounded_time)
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
	char path[] = "/tmp/spoor-sparse-XXXXXX";
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

Test(gobin, data_that_looks_like_pointers_everywhere_costs_a_bounded_time)
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

Test(gobin, crafted_files_get_their_reason)
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

Test(gobin, every_reason_has_a_label_and_a_sentence)
{
	for (int i = 0; i < GOBIN_WHY_COUNT; i++) {
		cr_assert_gt(strlen(gobin_why_text((enum gobin_why)i)), 10);
		cr_assert_gt(strlen(gobin_why_label((enum gobin_why)i)), 1);
	}
	cr_assert_str_eq(gobin_why_label(GOBIN_WHY_COUNT), "unknown");
	cr_assert_str_eq(gobin_source_text(GOBIN_DWARF), "DWARF");
}
