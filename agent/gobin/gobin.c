#include "gobin/gobin.h"
#include "gobin/buildinfo.h"
#include "gobin/exe.h"
#include "gobin/exits.h"
#include "gobin/field.h"
#include "gobin/gomap.h"
#include "gobin/gotype.h"
#include "gobin/insn.h"
#include "gobin/moduledata.h"
#include "gobin/names.h"

#define GO_MINOR_MIN 19
/* The largest function whose RETs are looked for. */
#define FUNC_MAX     (1u << 20)

struct gobin {
	struct exe exe;
	struct moduledata module;
	struct gotypes types;
	struct buildinfo build;
	struct gobin_info info;
	size_t dwarf_memory;
};

static const struct {
	const char *label, *text;
} whys[] = {
	[GOBIN_OK] = { "ok", "nothing is wrong" },
	[GOBIN_OPEN] = { "open", "the file could not be read" },
	[GOBIN_NOT_ELF] = { "not_elf", "this is not an ELF file (a script, perhaps: give the "
				       "program that it starts)" },
	[GOBIN_BITS] = { "32_bit", "this is a 32-bit program: only 64-bit ones can be traced" },
	[GOBIN_MACHINE] = { "machine", "this program is for another machine than this agent: run "
				       "the agent built for that machine" },
	[GOBIN_MALFORMED] = { "malformed", "the file's headers contradict each other or the file" },
	[GOBIN_TRUNCATED] = { "truncated", "the file is shorter than its headers say" },
	[GOBIN_NOT_GO] = { "not_go", "this is no Go program, or it is compressed (UPX): only plain "
				     "Go executables can be traced" },
	[GOBIN_GO_VERSION] = { "go_version", "this program was built with a Go before 1.19: build "
					     "it with a newer one" },
	[GOBIN_TOO_LARGE] = { "too_large", "a bound of time or memory was reached: the file is too "
					   "large, or made to look so" },
	[GOBIN_NO_MEMORY] = { "no_memory", "there was not enough memory" },
	[GOBIN_TIMEOUT] = { "timeout", "its executable could not be read in time: the file system "
				       "that it lies on does not answer" },
};
_Static_assert(ARRAY_SIZE(whys) == GOBIN_WHY_COUNT, "a reason without words");

const char *gobin_why_label(enum gobin_why why)
{
	return (unsigned)why < GOBIN_WHY_COUNT ? whys[why].label : "unknown";
}

const char *gobin_why_text(enum gobin_why why)
{
	return (unsigned)why < GOBIN_WHY_COUNT ? whys[why].text : "unknown";
}

const char *gobin_source_text(enum gobin_source s)
{
	static const char *const texts[] = { "not found", "type metadata", "DWARF",
					     "built-in table" };

	return (unsigned)s < ARRAY_SIZE(texts) ? texts[s] : "unknown";
}

static enum gobin_why why_of(int err)
{
	switch (err) {
	case -ENOMEM:
		return GOBIN_NO_MEMORY;
	case -EFBIG:
	case -E2BIG:
		return GOBIN_TOO_LARGE;
	case -ENODATA:
		return GOBIN_TRUNCATED;
	case -ENOENT:
		return GOBIN_NOT_GO;
	case -EBADMSG:
		return GOBIN_MALFORMED;
	default:
		return GOBIN_OPEN;
	}
}

/* String literals lie in the segment with the read-only data, which is not that of the types in a
 * PIE. */
static void find_literals(const struct gobin *g, struct gobin_info *info)
{
	const struct exe_segment *s = exe_segment(&g->exe, g->types.rodata);

	if (!g->types.rodata || !s || (s->allows & EXE_WRITE)) {
		s = NULL;
		for (size_t i = 0; i < g->exe.nsegments; i++)
			if (g->exe.segments[i].allows == EXE_READ &&
			    (!s || g->exe.segments[i].filesz > s->filesz))
				s = &g->exe.segments[i];
	}
	if (!s)
		return;
	info->ro_addr = s->addr;
	info->ro_offset = s->offset;
	info->ro_size = s->filesz;
}

static void costs(struct gobin *g)
{
	g->info.bytes_read = g->exe.bytes_read;
	/* The windows, three scan buffers at most, and what is kept. */
	g->info.peak_bytes =
		exe_memory() + (size_t)3 * 65536 + g->build.memory + g->dwarf_memory + sizeof(*g);
}

static int analyse(struct gobin *g, enum gobin_why *why)
{
	int err = buildinfo_read(&g->exe, &g->build), minor;

	if (err) {
		*why = why_of(err);
		return err;
	}
	minor = buildinfo_minor(g->build.version);
	if (minor >= 0 && minor < GO_MINOR_MIN) {
		*why = GOBIN_GO_VERSION;
		return -ENOTSUP;
	}
	err = moduledata_find(&g->exe, &g->module);
	if (err) {
		*why = g->exe.err ? why_of(g->exe.err) : why_of(err);
		if (err == -ENOENT && moduledata_is_old(&g->exe)) {
			*why = GOBIN_GO_VERSION;
			err = -ENOTSUP;
		}
		return err;
	}
	/* Without types there are still functions, and DWARF perhaps. */
	if (gotypes_find(&g->types, &g->exe, &g->module) != 0 && g->exe.err) {
		*why = why_of(g->exe.err);
		return g->exe.err;
	}
	g->info = (struct gobin_info){ .go_version = g->build.version,
				       .main_path = g->build.main_path,
				       .modules = g->build.modules,
				       .nmodules = g->build.nmodules,
				       .nfuncs = g->module.pclntab.nfunc,
				       .text = g->module.text,
				       .etext = g->module.etext,
				       .types = g->types.types,
				       .pie = g->exe.pie };
	find_literals(g, &g->info);
	costs(g);
	return 0;
}

int gobin_open(struct gobin **out, int fd, enum gobin_why *why)
{
	auto_gobin struct gobin *g = calloc(1, sizeof(*g));
	int err;

	if (!g) {
		(void)close(fd);
		*why = GOBIN_NO_MEMORY;
		return -ENOMEM;
	}
	err = exe_open(&g->exe, fd, why);
	if (!err)
		err = analyse(g, why);
	if (err)
		return err;
	*why = GOBIN_OK;
	*out = take(g);
	return 0;
}

void gobin_close(struct gobin **g)
{
	if (!*g)
		return;
	buildinfo_clear(&(*g)->build);
	exe_close(&(*g)->exe);
	free(*g);
	*g = NULL;
}

const struct gobin_info *gobin_info(const struct gobin *g)
{
	return &g->info;
}

/* ---- functions ---- */

struct found {
	struct gobin *g;
	const char *const *const *names;
	const struct names *wanted;
	const size_t *probe; /* of each name in the set */
	const size_t *rank;  /* its place among the alternatives */
	size_t *best;        /* rank of what out[] holds, SIZE_MAX: nothing */
	struct gobin_func *out;
};

static bool func_fill(struct gobin *g, const char *name, uint64_t entry, uint64_t end,
		      struct gobin_func *out)
{
	const struct exe_segment *s = exe_segment(&g->exe, entry);
	size_t n = end - entry < INSN_HEAD ? (size_t)(end - entry) : INSN_HEAD;
	struct gobin_func f = { .name = name, .entry = entry, .end = end };
	uint8_t code[INSN_HEAD];
	uint32_t enter = 0;

	if (!s || !(s->allows & EXE_EXEC) || entry < g->module.text || end > g->module.etext ||
	    entry >= end || !exe_read(&g->exe, entry, code, n))
		return false;
	f.place = insn_enter(g->exe.arm64, code, n, &enter, &f.emulated);
	f.enter = entry + enter;
	f.enter_offset = exe_offset(&g->exe, f.enter);
	*out = f;
	return true;
}

static void func_found(void *arg, size_t idx, uint64_t entry, uint64_t end)
{
	struct found *f = arg;
	struct gobin_func func, *out = &f->out[f->probe[idx]];
	size_t rank = f->rank[idx], *best = &f->best[f->probe[idx]];

	if (rank > *best || !func_fill(f->g, f->names[f->probe[idx]][rank], entry, end, &func))
		return;
	/* The same name twice: a function and its ABI0 wrapper, which has no stack check of its
	 * own. */
	if (rank == *best &&
	    (out->place == GOBIN_PLACE_CHECKED || func.place != GOBIN_PLACE_CHECKED))
		return;
	*out = func;
	*best = rank;
}

int gobin_funcs(struct gobin *g, const char *const *const *names, size_t n, struct gobin_func *out)
{
	auto_names struct names wanted = { 0 };
	auto_free size_t *index = NULL;
	struct found f = { .g = g, .names = names, .wanted = &wanted, .out = out };
	size_t all = 0;
	int err;

	for (size_t i = 0; i < n; i++)
		for (const char *const *name = names[i]; *name; name++)
			all++;
	index = calloc(2 * all + n + 1, sizeof(*index));
	if (!index || names_init(&wanted, all))
		return -ENOMEM;
	f.probe = index;
	f.rank = index + all;
	f.best = index + 2 * all;
	for (size_t i = 0; i < n; i++) {
		out[i] = (struct gobin_func){ 0 };
		f.best[i] = SIZE_MAX;
		for (size_t rank = 0; names[i][rank]; rank++) {
			size_t at = names_add(&wanted, str_of(names[i][rank]));

			index[at] = i;
			index[all + at] = rank;
		}
	}
	exe_budget(&g->exe);
	err = pclntab_find(&g->exe, &g->module.pclntab, g->module.text, &wanted, func_found, &f);
	costs(g);
	return err ? err : g->exe.err;
}

/* The whole function, in memory that is the caller's. */
static int func_code(struct gobin *g, const struct gobin_func *f, uint8_t **out, size_t *size)
{
	auto_free uint8_t *code = NULL;

	if (!f->name || f->end <= f->entry)
		return -EINVAL;
	if (f->end - f->entry > FUNC_MAX)
		return -E2BIG;
	*size = (size_t)(f->end - f->entry);
	code = malloc(*size);
	if (!code)
		return -ENOMEM;
	exe_budget(&g->exe);
	if (!exe_read(&g->exe, f->entry, code, *size))
		return g->exe.err ? g->exe.err : -EBADMSG;
	*out = take(code);
	return 0;
}

int gobin_rets(struct gobin *g, const struct gobin_func *f, uint64_t *offsets, size_t *n)
{
	auto_free uint8_t *code = NULL;
	size_t size;
	int err = func_code(g, f, &code, &size);

	if (err)
		return err;
	err = insn_rets(g->exe.arm64, code, (size_t)size, offsets, GOBIN_RETS_MAX, n);
	for (size_t i = 0; !err && i < *n; i++)
		offsets[i] = exe_offset(&g->exe, f->entry + offsets[i]);
	costs(g);
	return err;
}

int gobin_returned(struct gobin *g, const struct gobin_func *f, const struct gobin_func *callee,
		   uint32_t results, uint64_t *offsets, size_t *n)
{
	struct insn_call call = { f->entry, callee->entry, results };
	auto_free uint8_t *code = NULL;
	size_t size;
	int err = callee->name ? func_code(g, f, &code, &size) : -EINVAL;

	if (err)
		return err;
	err = insn_returned(g->exe.arm64, code, size, &call, offsets, GOBIN_RETS_MAX, n);
	for (size_t i = 0; !err && i < *n; i++)
		offsets[i] = exe_offset(&g->exe, f->entry + offsets[i]);
	costs(g);
	return err;
}

#define BARRIER(suffix) ((const char *const[]){ "runtime.gcWriteBarrier" suffix, NULL })
/* Up to Go 1.20 by register, then by the number of pointers (runtime/asm_amd64.s). */
const char *const *const gobin_barriers[GOBIN_BARRIERS] = {
	BARRIER(""),   BARRIER("CX"), BARRIER("DX"), BARRIER("BX"), BARRIER("BP"), BARRIER("SI"),
	BARRIER("R8"), BARRIER("R9"), BARRIER("1"),  BARRIER("2"),  BARRIER("3"),  BARRIER("4"),
	BARRIER("5"),  BARRIER("6"),  BARRIER("7"),  BARRIER("8")
};
#undef BARRIER

/* The RETs of arm64, and of what is too odd. */
static int exits_at_rets(struct gobin *g, const struct gobin_func *f, struct gobin_exit *out,
			 size_t *n)
{
	uint64_t offsets[GOBIN_RETS_MAX];
	int err = gobin_rets(g, f, offsets, n);

	for (size_t i = 0; !err && i < *n; i++)
		out[i] = (struct gobin_exit){ .offset = offsets[i], .ret = true };
	return err;
}

int gobin_exits(struct gobin *g, const struct gobin_func *f, size_t want,
		const struct gobin_func *barriers, struct gobin_exit *out, size_t *n)
{
	uint64_t entries[GOBIN_BARRIERS];
	struct exits_code code = { .addr = f->entry, .barriers = entries };
	auto_free uint8_t *bytes = NULL;
	int err = g->exe.arm64 ? -ENOTSUP : func_code(g, f, &bytes, &code.size);

	for (size_t i = 0; i < GOBIN_BARRIERS; i++)
		if (barriers[i].name)
			entries[code.nbarriers++] = barriers[i].entry;
	code.bytes = bytes;
	if (!err)
		err = exits_find(&code, want, out, GOBIN_RETS_MAX, n);
	if (err == -ENOTSUP || err == -E2BIG)
		return exits_at_rets(g, f, out, n);
	for (size_t i = 0; !err && i < *n; i++)
		out[i].offset = exe_offset(&g->exe, out[i].addr);
	costs(g);
	return err;
}

int gobin_refs(struct gobin *g, const struct gobin_func *f, struct gobin_ref *out, size_t max,
	       size_t *n)
{
	auto_free uint8_t *code = NULL;
	size_t size;
	int err = func_code(g, f, &code, &size);

	*n = 0;
	if (!err)
		err = insn_refs(g->exe.arm64, code, size, f->entry, out, max, n);
	costs(g);
	return err;
}

int gobin_fields(struct gobin *g, const struct gobin_want *want, size_t n, struct gobin_field *out)
{
	struct field_sources from = { &g->exe, &g->types, &g->module.pclntab, 0 };
	int err;

	exe_budget(&g->exe);
	err = field_find(&from, want, n, out);
	if (from.memory > g->dwarf_memory)
		g->dwarf_memory = from.memory;
	costs(g);
	return err;
}

int gobin_header_map(struct gobin *g, struct gobin_map *out)
{
	int err;

	if (!g->types.types)
		return -ENOENT;
	exe_budget(&g->exe);
	err = gomap_headers(&g->types, out);
	costs(g);
	return err;
}

int gobin_types(struct gobin *g, const char *const *types, size_t n, uint64_t *addr)
{
	auto_free struct gotype_want *want = calloc(n + 1, sizeof(*want));
	int err = 0;

	if (!want)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		addr[i] = 0;
		if (!gotype_split(str_of(types[i] + (types[i][0] == '*')), &want[i].package,
				  &want[i].name))
			return -EINVAL;
	}
	if (!g->types.types || !n)
		return 0;
	exe_budget(&g->exe);
	err = gotypes_lookup(&g->types, want, n);
	for (size_t i = 0; i < n && !err; i++)
		addr[i] = types[i][0] == '*' ? want[i].pointer : want[i].found;
	costs(g);
	return err;
}
