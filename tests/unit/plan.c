/* Plans for the `go` tools of this machine: real Go programs of several versions. */
#include "trace/plan.h"

#include "gobin/gobin.h"
#include <criterion/criterion.h>
#include <fcntl.h>
#include <glob.h>

static const char *const main_symbols[] = { "runtime.no_such_function", "runtime.main",
					    "runtime.gcStart", NULL };
static const char *const close_symbols[] = { "os.(*File).Close", NULL };
static const char *const missing_symbols[] = { "no/such.(*Thing).Call", "no/such.Call", NULL };

enum { PROBE_MAIN, PROBE_CLOSE, PROBE_MISSING, PROBE_FEATURE };
static const struct go_probe probes[] = {
	{ .name = "main", .symbols = main_symbols, .enter = "enter_main" },
	{ .name = "close",
	  .symbols = close_symbols,
	  .enter = "enter_close",
	  .leave = "leave_close" },
	{ .name = "missing", .symbols = missing_symbols, .enter = "enter_missing" },
	{ .name = "feature", .symbols = close_symbols, .enter = "enter_feature" },
};

enum { FIELD_GOID, FIELD_PATH, FIELD_MISSING, FIELD_SIZE };
static const struct go_field fields[] = {
	{ "runtime.g", "goid" },
	{ "no/such.Cmd|os/exec.Cmd", "Path" },
	{ "os/exec.Cmd", "NoSuchField" },
	{ "no/such.Type", "" },
};

enum {
	PART_MAIN,
	PART_CLOSE,
	PART_FUNCTION_MISSING,
	PART_FIELD_MISSING,
	PART_SIZE_MISSING,
	PART_OF_FEATURE
};
static const struct go_part parts[] = {
	[PART_MAIN] = { .name = "main",
			.probes = 1u << PROBE_MAIN,
			.fields = 1u << FIELD_GOID,
			.lost = "nothing",
			.feature = 0 },
	[PART_CLOSE] = { .name = "close",
			 .probes = 1u << PROBE_CLOSE,
			 .fields = 1u << FIELD_PATH | 1u << FIELD_GOID,
			 .lost = "nothing",
			 .feature = 0 },
	[PART_FUNCTION_MISSING] = { .name = "missing",
				    .probes = 1u << PROBE_MAIN | 1u << PROBE_MISSING,
				    .fields = 0,
				    .lost = "nothing",
				    .feature = 0 },
	[PART_FIELD_MISSING] = { .name = "field",
				 .probes = 1u << PROBE_MAIN,
				 .fields = 1u << FIELD_MISSING,
				 .lost = "nothing",
				 .feature = 0 },
	[PART_SIZE_MISSING] = { .name = "size",
				.probes = 1u << PROBE_MAIN,
				.fields = 1u << FIELD_SIZE,
				.lost = "nothing",
				.feature = 0 },
	[PART_OF_FEATURE] = { .name = "feature",
			      .probes = 1u << PROBE_FEATURE,
			      .fields = 0,
			      .lost = "nothing",
			      .feature = FEATURE_PROPAGATION },
};

static const struct lib whole = {
	.name = "whole",
	.probes = probes,
	.nprobes = ARRAY_SIZE(probes),
	.fields = fields,
	.nfields = ARRAY_SIZE(fields),
	.parts = parts,
	.nparts = ARRAY_SIZE(parts),
};

static const struct lib none = {
	.name = "none",
	.probes = probes + PROBE_MISSING,
	.nprobes = 1,
	.parts = (const struct go_part[]){ { .name = "none", .probes = 1, .lost = "everything" } },
	.nparts = 1,
};

/* Library "whole" as an SDK: what it is told of its types it hands on. */
static void spans(const struct gobin_field *found, const uint64_t *types, struct go_sdk *out)
{
	out->span = types[0];
	out->none = types[1];
	out->span_at = (uint16_t)found[FIELD_GOID].offset;
}

static const struct lib_sdk toy_sdk = {
	.name = "Toy",
	.modules = (const char *const[]){ "no/such", NULL },
	.types = (const char *const[]){ "*os/exec.Cmd", "os/exec.Cmd", NULL },
	.spans = spans,
};
static const struct lib an_sdk = {
	.name = "an_sdk",
	.probes = probes,
	.nprobes = 1,
	.fields = fields,
	.nfields = 1,
	.parts = parts,
	.nparts = 1,
	.sdk = &toy_sdk,
};
/* Nothing of it is in the program. */
static const struct lib no_sdk = {
	.name = "no_sdk",
	.probes = probes + PROBE_MISSING,
	.nprobes = 1,
	.fields = fields,
	.nfields = 1,
	.parts = (const struct go_part[]){ { .name = "none", .probes = 1, .lost = "everything" } },
	.nparts = 1,
	.sdk = &toy_sdk,
};

static const struct lib too_long = { .name = "too_long", .nfields = GO_FIELDS_MAX + 1 };

static const struct lib *const libs[] = { &none, &whole };

static struct gobin *open_binary(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum gobin_why why = GOBIN_OK;
	struct gobin *g = NULL;

	cr_assert_geq(fd, 0, "%s", path);
	cr_assert_eq(gobin_open(&g, fd, &why), 0, "%s: %s", path, gobin_why_text(why));
	return g;
}

static struct plan *plan_with(const char *path, uint32_t features)
{
	struct gobin *g = open_binary(path);
	struct plan *p = NULL;

	cr_assert_eq(plan_make_for(&p, g, libs, ARRAY_SIZE(libs), features), 0, "%s", path);
	gobin_close(&g);
	return p;
}

static struct plan *plan_of(const char *path)
{
	return plan_with(path, 0);
}

static void for_each_binary(void (*check)(const char *path, const struct plan *p))
{
	glob_t found = { 0 };

	(void)glob("/usr/lib/go-1.*/bin/go", 0, NULL, &found);
	(void)glob("/usr/local/go/bin/go", GLOB_APPEND, NULL, &found);
	cr_assert_gt(found.gl_pathc, 0, "no go tool is installed");
	for (size_t i = 0; i < found.gl_pathc; i++) {
		struct plan *p = plan_of(found.gl_pathv[i]);

		check(found.gl_pathv[i], p);
		plan_free(&p);
		cr_assert_null(p);
	}
	globfree(&found);
}

static void check_parts(const char *path, const struct plan *p)
{
	cr_assert_eq(p->nlibs, 2);
	cr_assert_eq(p->libs[0].lib, &none);
	cr_assert_eq(p->libs[0].parts, 0, "%s", path);
	cr_assert_eq(p->libs[0].probes, 0);
	cr_assert_eq(p->libs[1].parts, 1u << PART_MAIN | 1u << PART_CLOSE, "%s: %x", path,
		     p->libs[1].parts);
	cr_assert_eq(p->libs[1].probes, 1u << PROBE_MAIN | 1u << PROBE_CLOSE);
	cr_assert_str_eq(p->libs[1].funcs[PROBE_MAIN].name, "runtime.main",
			 "the first alternative that exists");
}

Test(plan, a_part_is_whole_when_all_its_functions_and_fields_are_there)
{
	for_each_binary(check_parts);
}

static void check_feature(const char *path, const struct plan *off)
{
	struct plan *on = plan_with(path, FEATURE_PROPAGATION);
	char why[128];

	cr_assert_eq(off->libs[1].probes >> PROBE_FEATURE & 1, 0);
	cr_assert_eq(off->features, 0);
	cr_assert_str_eq(plan_missing(&off->libs[1], PART_OF_FEATURE, why, sizeof(why)),
			 "propagation is off");
	cr_assert_eq(on->libs[1].probes, off->libs[1].probes | 1u << PROBE_FEATURE);
	cr_assert_eq(on->nplaces, off->nplaces + 1);
	cr_assert_eq(on->features, FEATURE_PROPAGATION);
	cr_assert_str_empty(plan_missing(&on->libs[1], PART_OF_FEATURE, why, sizeof(why)));
	plan_free(&on);
}

Test(plan, a_part_of_a_feature_is_attached_only_while_the_feature_is_on)
{
	for_each_binary(check_feature);
}

/* The byte that an x86 RET begins with. */
static uint8_t byte_at(const char *path, uint64_t offset)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t byte = 0;

	cr_assert_eq(pread(fd, &byte, 1, (off_t)offset), 1);
	return byte;
}

static void check_places(const char *path, const struct plan *p)
{
	size_t last = p->nplaces - 1;

	cr_assert_geq(p->nplaces, 3);
	for (size_t i = 0; i < p->nplaces; i++)
		cr_assert_eq(p->places[i].lib, 1);
	cr_assert_eq(p->places[last].probe, PROBE_MAIN);
	cr_assert_eq(p->places[last].offset, p->libs[1].funcs[PROBE_MAIN].enter_offset);
	cr_assert_eq(p->places[last - 1].probe, PROBE_CLOSE);
	cr_assert_eq(p->places[last - 1].offset, p->libs[1].funcs[PROBE_CLOSE].enter_offset);
	for (size_t i = 0; i + 1 < last; i++) {
		cr_assert_eq(p->places[i].probe, PROBE_CLOSE | COOKIE_LEAVE);
		cr_assert_eq(byte_at(path, p->places[i].offset), 0xc3, "%s: place %zu is no RET",
			     path, i);
	}
}

Test(plan, ends_are_attached_before_begins_and_later_probes_before_earlier_ones)
{
	for_each_binary(check_places);
}

static void check_shared(const char *path, const struct plan *p)
{
	cr_assert_neq(p->slot.map_kind, GO_MAP_NONE, "%s", path);
	cr_assert_gt(p->slot.ro_hi, p->slot.ro_lo, "%s", path);
	cr_assert_eq(p->slot.generation, 0, "that is the attacher's");
}

Test(plan, what_all_libraries_share_is_resolved)
{
	for_each_binary(check_shared);
}

static void check_reasons(const char *path, const struct plan *p)
{
	const struct plan_lib *l = &p->libs[1];
	char text[128];

	(void)path;
	cr_assert_str_eq(plan_missing(l, PART_MAIN, text, sizeof(text)), "");
	cr_assert_str_eq(plan_missing(l, PART_FUNCTION_MISSING, text, sizeof(text)),
			 "function no/such.(*Thing).Call is not in the binary");
	cr_assert_str_eq(plan_missing(l, PART_FIELD_MISSING, text, sizeof(text)),
			 "field os/exec.Cmd.NoSuchField has no known offset");
	cr_assert_str_eq(plan_missing(l, PART_SIZE_MISSING, text, sizeof(text)),
			 "the size of no/such.Type is not known");
}

Test(plan, what_is_missing_is_said_in_words)
{
	for_each_binary(check_reasons);
}

Test(plan, a_library_whose_tables_are_too_long_is_refused)
{
	const struct lib *const bad[] = { &whole, &too_long };
	struct gobin *g = NULL;
	struct plan *p = NULL;
	glob_t found = { 0 };

	cr_assert_eq(glob("/usr/lib/go-1.*/bin/go", 0, NULL, &found), 0);
	g = open_binary(found.gl_pathv[0]);
	cr_assert_eq(plan_make_for(&p, g, bad, 2, 0), -EINVAL);
	cr_assert_null(p);
	gobin_close(&g);
	globfree(&found);
}

Test(plan, a_field_that_lies_beyond_what_probes_read_is_as_good_as_none)
{
	struct gobin_field found[ARRAY_SIZE(fields)] = {
		[FIELD_GOID] = { .source = GOBIN_TYPES, .offset = GO_STRUCT_MAX - 16 },
		[FIELD_PATH] = { .source = GOBIN_TYPES, .offset = GO_STRUCT_MAX - 15 },
		[FIELD_SIZE] = { .source = GOBIN_TYPES, .offset = 4096 },
	};
	enum plan_probe states[ARRAY_SIZE(probes)] = { PLAN_PROBE_FOUND };
	struct gobin_func funcs[ARRAY_SIZE(probes)] = { 0 };
	const struct plan_lib p = {
		.lib = &whole, .funcs = funcs, .states = states, .fields = found
	};
	char why[128];

	cr_assert(plan_has_field(&p, FIELD_GOID));
	cr_assert_not(plan_has_field(&p, FIELD_PATH));
	cr_assert_not(plan_has_field(&p, FIELD_MISSING));
	cr_assert(plan_has_field(&p, FIELD_SIZE), "a size is none of its fields");
	cr_assert_str_eq(plan_missing(&p, PART_CLOSE, why, sizeof(why)),
			 "field no/such.Cmd|os/exec.Cmd.Path lies too far into its struct");
}

Test(plan, of_an_sdk_the_probes_learn_the_types_of_its_spans_in_that_binary)
{
	const struct lib *const some[] = { &none, &an_sdk }, *const others[] = { &no_sdk };
	glob_t found = { 0 };

	(void)glob("/usr/lib/go-1.*/bin/go", 0, NULL, &found);
	(void)glob("/usr/local/go/bin/go", GLOB_APPEND, NULL, &found);
	cr_assert_gt(found.gl_pathc, 0, "no go tool is installed");
	for (size_t i = 0; i < found.gl_pathc; i++) {
		auto_gobin struct gobin *g = open_binary(found.gl_pathv[i]);
		auto_plan struct plan *with = NULL, *without = NULL;
		uint64_t types[2], goid;

		cr_assert_eq(plan_make_for(&with, g, some, 2, 0), 0);
		cr_assert_eq(plan_make_for(&without, g, others, 1, 0), 0);
		cr_assert_eq(gobin_types(g, toy_sdk.types, 2, types), 0);
		goid = with->libs[1].fields[0].offset;
		cr_assert(types[0] && types[1] && types[0] != types[1] && goid);
		cr_assert_eq(with->slot.sdk.span, types[0], "%s", found.gl_pathv[i]);
		cr_assert_eq(with->slot.sdk.none, types[1], "%s", found.gl_pathv[i]);
		cr_assert_eq(with->slot.sdk.span_at, goid);
		cr_assert_eq(without->slot.sdk.span, 0, "%s", found.gl_pathv[i]);
		cr_assert(plan_sdk_absent(&without->libs[0]), "nothing of it is there");
		cr_assert_not(plan_sdk_absent(&with->libs[1]));
		cr_assert_not(plan_sdk_absent(&with->libs[0]), "none, but what lacks is told");
	}
	globfree(&found);
}
