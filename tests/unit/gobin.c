#include "gobin_rig.h"

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
