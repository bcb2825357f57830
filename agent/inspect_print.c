#include "base/base.h"
#include "bpf/event.h"
#include "gobin/gobin.h"
#include "inspect.h"
#include "trace/plan.h"

#include <inttypes.h>
#include <jansson.h>

static const char *place_label(enum gobin_place p)
{
	static const char *const labels[] = { [GOBIN_PLACE_CHECKED] = "checked",
					      [GOBIN_PLACE_ENTRY] = "entry",
					      [GOBIN_PLACE_REFUSED] = "refused" };

	return (unsigned)p < ARRAY_SIZE(labels) ? labels[p] : "unknown";
}

static const char *map_label(uint8_t kind)
{
	return kind == GO_MAP_OLD ? "buckets" : kind == GO_MAP_SWISS ? "swiss" : "unknown";
}

/* At how many places the end of a probe's function is hooked, or only at how many RETs of it. */
static size_t leaves(const struct plan *p, size_t lib, size_t probe, bool rets)
{
	size_t n = 0;

	for (size_t i = 0; i < p->nplaces; i++)
		n += p->places[i].lib == lib && p->places[i].probe == (probe | COOKIE_LEAVE) &&
		     !(rets && p->places[i].addr);
	return n;
}

/* ---- text ---- */

/* Strings of the file may hold anything: a terminal sees printable ASCII and UTF-8 only. */
static void put(FILE *f, const char *s)
{
	for (; *s; s++)
		(void)fputc((unsigned char)*s < 0x20 || *s == 0x7f ? '?' : *s, f);
}

static void put_or_unknown(FILE *f, const char *label, const char *s)
{
	(void)fprintf(f, "  %-13s", label);
	put(f, *s ? s : "unknown");
	(void)fputc('\n', f);
}

/* Whether it is turned on shows only when the program runs. */
static void text_sdks(FILE *f, const struct plan *p)
{
	for (size_t i = 0; i < p->nlibs; i++) {
		const struct plan_lib *l = &p->libs[i];

		if (!l->lib->sdk || !l->parts)
			continue;
		(void)fprintf(f, "  %-13s%s ", "tracing SDK", l->lib->sdk->name);
		put(f, l->version[0] ? l->version : "of unknown version");
		(void)fprintf(f, "%s\n",
			      !l->lib->sdk->spans ? ""
			      : p->slot.sdk.span  ? ", its spans can be parents"
						  : ", its spans cannot be read");
	}
}

static void text_program(FILE *f, const struct inspect *in)
{
	const struct gobin_info *i = gobin_info(in->g);

	put(f, in->name);
	if (in->pid)
		(void)fprintf(f, " (process %d)", in->pid);
	(void)fputc('\n', f);
	put_or_unknown(f, "Go", i->go_version);
	put_or_unknown(f, "main package", i->main_path);
	(void)fprintf(f, "  %-13s%zu%s\n", "modules", i->nmodules,
		      in->modules || !i->nmodules ? "" : " (--modules lists them)");
	for (size_t k = 0; in->modules && k < i->nmodules; k++) {
		(void)fputs("    ", f);
		put(f, i->modules[k].path);
		(void)fputc(' ', f);
		put(f, i->modules[k].version);
		(void)fputc('\n', f);
	}
	(void)fprintf(f, "  %-13s%" PRIu64 ", at 0x%" PRIx64 " to 0x%" PRIx64 "%s\n", "functions",
		      i->nfuncs, i->text, i->etext, i->pie ? ", moved by a load bias (PIE)" : "");
	(void)fprintf(f, "  %-13s%s\n", "header maps", map_label(in->plan->slot.map_kind));
	text_sdks(f, in->plan);
	(void)fprintf(f, "  %-13s%.1f ms, %zu KiB read, %zu KiB of memory\n", "analysis",
		      in->seconds * 1e3, i->bytes_read / 1024, i->peak_bytes / 1024);
}

static void text_parts(FILE *f, const struct plan_lib *l)
{
	char why[512];

	for (size_t k = 0; k < l->lib->nparts; k++) {
		const struct go_part *part = &l->lib->parts[k];

		if (l->parts >> k & 1) {
			(void)fprintf(f, "  + %s\n", part->name);
			continue;
		}
		(void)fprintf(f, "  - %s: %s\n", part->name, plan_missing(l, k, why, sizeof(why)));
		if (part->lost)
			(void)fprintf(f, "      not had: %s\n", part->lost);
	}
}

static void text_functions(FILE *f, const struct plan *p, size_t lib)
{
	const struct plan_lib *l = &p->libs[lib];

	(void)fprintf(f, "  functions: * will be hooked; address, where a probe enters\n");
	for (size_t k = 0; k < l->lib->nprobes; k++) {
		const struct gobin_func *fn = &l->funcs[k];
		size_t ends = leaves(p, lib, k, false), rets = leaves(p, lib, k, true);

		if (!fn->name) {
			(void)fprintf(f, "      not found    %s\n", l->lib->probes[k].symbols[0]);
			continue;
		}
		(void)fprintf(f, "    %c 0x%-8" PRIx64, l->probes >> k & 1 ? '*' : ' ', fn->entry);
		if (fn->place == GOBIN_PLACE_REFUSED)
			(void)fputs("  refused: unknown bytes   ", f);
		else
			(void)fprintf(f, "  +%-2" PRIu64 " %s%-12s", fn->enter - fn->entry,
				      fn->place == GOBIN_PLACE_CHECKED ? "behind check, "
								       : "entry, ",
				      fn->emulated ? "emulated" : "single step");
		(void)fprintf(f, "  %s", fn->name);
		if (rets && l->lib->probes[k].returned)
			(void)fprintf(f, ", where %s has returned", l->callees[k].name);
		else if (ends > rets)
			(void)fprintf(f, " (and %zu ends, %zu of them returns)", ends, rets);
		else if (rets)
			(void)fprintf(f, " (and %zu returns)", rets);
		(void)fputc('\n', f);
	}
}

/* The alternative that was found; all of them when none was. */
static struct str field_type(const struct go_field *field, const struct gobin_field *found)
{
	const char *at = field->type;
	uint8_t skip = found->source == GOBIN_NOWHERE ? 0 : found->alternative;

	for (; skip && strchr(at, '|'); skip--)
		at = strchr(at, '|') + 1;
	return (struct str){ at, found->source == GOBIN_NOWHERE ? strlen(at) : strcspn(at, "|") };
}

/* Parts share fields: one line each. */
static bool told_before(const struct plan_lib *l, size_t k)
{
	const struct go_field *fields = l->lib->fields;
	struct str type = field_type(&fields[k], &l->fields[k]);

	for (size_t i = 0; i < k; i++) {
		struct str before = field_type(&fields[i], &l->fields[i]);

		if (before.n == type.n && memcmp(before.p, type.p, type.n) == 0 &&
		    strcmp(fields[i].field, fields[k].field) == 0 &&
		    l->fields[i].offset == l->fields[k].offset)
			return true;
	}
	return false;
}

static void text_fields(FILE *f, const struct plan_lib *l)
{
	(void)fprintf(f, "  fields: offset, where it is known from\n");
	for (size_t k = 0; k < l->lib->nfields; k++) {
		const struct go_field *field = &l->lib->fields[k];
		struct str type = field_type(field, &l->fields[k]);

		if (told_before(l, k))
			continue;
		if (l->fields[k].source == GOBIN_NOWHERE)
			(void)fprintf(f, "        -  %-14s", gobin_source_text(GOBIN_NOWHERE));
		else
			(void)fprintf(f, "    %5" PRIu32 "  %-14s", l->fields[k].offset,
				      gobin_source_text(l->fields[k].source));
		(void)fprintf(f, "  %.*s%s%s\n", (int)type.n, type.p,
			      *field->field ? "." : " (size)", field->field);
	}
}

static size_t parts_whole(const struct plan_lib *l)
{
	size_t n = 0;

	for (size_t k = 0; k < l->lib->nparts; k++)
		n += l->parts >> k & 1;
	return n;
}

/* Most programs have none: the names say all. */
static void text_absent_sdks(FILE *f, const struct plan *p)
{
	const char *before = "\ntracing SDKs that are not in the binary: ";

	for (size_t i = 0; i < p->nlibs; i++) {
		if (!plan_sdk_absent(&p->libs[i]))
			continue;
		(void)fprintf(f, "%s%s", before, p->libs[i].lib->sdk->name);
		before = ", ";
	}
	if (*before == ',')
		(void)fputc('\n', f);
}

void inspect_text(FILE *f, const struct inspect *in)
{
	size_t any = 0;

	text_program(f, in);
	for (size_t i = 0; i < in->plan->nlibs; i++) {
		const struct plan_lib *l = &in->plan->libs[i];

		if (plan_sdk_absent(l))
			continue;
		any += parts_whole(l);
		(void)fprintf(f,
			      "\n%s: %zu of %zu parts can be traced (one that the program "
			      "does not use is no loss)\n",
			      l->lib->name, parts_whole(l), l->lib->nparts);
		text_parts(f, l);
		text_functions(f, in->plan, i);
		text_fields(f, l);
	}
	text_absent_sdks(f, in->plan);
	inspect_runtime_text(f, in);
	if (!any)
		(void)fputs("\nNothing in this program can be traced: it uses none of the "
			    "libraries that spoor knows.\n",
			    f);
}

/* ---- JSON ---- */

/* A string of the file; bytes that are no UTF-8 become '?'. */
static json_t *json_text(const char *s)
{
	json_t *j = json_string(s);
	char *copy;

	if (j)
		return j;
	copy = strdup(s);
	if (!copy)
		return NULL;
	for (char *p = copy; *p; p++)
		if (*p & 0x80)
			*p = '?';
	j = json_string(copy);
	free(copy);
	return j;
}

static json_t *json_address(uint64_t v)
{
	return json_sprintf("0x%" PRIx64, v);
}

static json_t *json_program(const struct inspect *in)
{
	const struct gobin_info *i = gobin_info(in->g);
	json_t *root = json_object(), *modules = json_array();

	for (size_t k = 0; k < i->nmodules; k++)
		json_array_append_new(modules,
				      json_pack("{s:o, s:o}", "path", json_text(i->modules[k].path),
						"version", json_text(i->modules[k].version)));
	json_object_set_new(root, "file", json_text(in->name));
	json_object_set_new(root, "pid", in->pid ? json_integer(in->pid) : json_null());
	json_object_set_new(root, "go_version", json_text(i->go_version));
	json_object_set_new(root, "main_path", json_text(i->main_path));
	json_object_set_new(root, "modules", modules);
	json_object_set_new(root, "pie", json_boolean(i->pie));
	json_object_set_new(root, "functions", json_integer((json_int_t)i->nfuncs));
	json_object_set_new(root, "text", json_address(i->text));
	json_object_set_new(root, "etext", json_address(i->etext));
	json_object_set_new(root, "header_maps", json_string(map_label(in->plan->slot.map_kind)));
	json_object_set_new(root, "seconds", json_real(in->seconds));
	json_object_set_new(root, "bytes_read", json_integer((json_int_t)i->bytes_read));
	json_object_set_new(root, "peak_bytes", json_integer((json_int_t)i->peak_bytes));
	return root;
}

static json_t *json_parts(const struct plan_lib *l)
{
	json_t *list = json_array();
	char why[512];

	for (size_t k = 0; k < l->lib->nparts; k++) {
		const struct go_part *part = &l->lib->parts[k];
		bool whole = l->parts >> k & 1;

		json_array_append_new(list,
				      json_pack("{s:s, s:b, s:s?, s:s?}", "name", part->name,
						"whole", whole, "missing",
						whole ? NULL : plan_missing(l, k, why, sizeof(why)),
						"lost", whole ? NULL : part->lost));
	}
	return list;
}

static json_t *json_functions(const struct plan *p, size_t lib)
{
	const struct plan_lib *l = &p->libs[lib];
	json_t *list = json_array();

	for (size_t k = 0; k < l->lib->nprobes; k++) {
		const struct gobin_func *fn = &l->funcs[k];
		json_t *one =
			json_pack("{s:s, s:s, s:b, s:b}", "probe", l->lib->probes[k].name,
				  "function", fn->name ? fn->name : l->lib->probes[k].symbols[0],
				  "found", fn->name != NULL, "hooked", (int)(l->probes >> k & 1));

		if (fn->name) {
			json_object_set_new(one, "address", json_address(fn->entry));
			json_object_set_new(one, "enter", json_address(fn->enter));
			json_object_set_new(one, "enter_offset",
					    json_integer((json_int_t)fn->enter_offset));
			json_object_set_new(one, "place", json_string(place_label(fn->place)));
			json_object_set_new(one, "emulated", json_boolean(fn->emulated));
			json_object_set_new(one, "returns",
					    json_integer((json_int_t)leaves(p, lib, k, true)));
			json_object_set_new(one, "ends",
					    json_integer((json_int_t)leaves(p, lib, k, false)));
		}
		json_array_append_new(list, one);
	}
	return list;
}

static json_t *json_fields(const struct plan_lib *l)
{
	json_t *list = json_array();

	for (size_t k = 0; k < l->lib->nfields; k++) {
		const struct gobin_field *field = &l->fields[k];
		struct str type = field_type(&l->lib->fields[k], field);
		json_t *one = json_pack("{s:s#, s:s, s:s}", "type", type.p, (int)type.n, "field",
					l->lib->fields[k].field, "source",
					gobin_source_text(field->source));

		json_object_set_new(one, *l->lib->fields[k].field ? "offset" : "size",
				    field->source == GOBIN_NOWHERE ? json_null()
								   : json_integer(field->offset));
		json_array_append_new(list, one);
	}
	return list;
}

static json_t *json_sdks(const struct plan *p)
{
	json_t *list = json_array();

	for (size_t i = 0; i < p->nlibs; i++)
		if (p->libs[i].lib->sdk && p->libs[i].parts)
			json_array_append_new(
				list, json_pack("{s:s, s:o, s:b}", "name",
						p->libs[i].lib->sdk->name, "version",
						json_text(p->libs[i].version), "spans_are_read",
						p->libs[i].lib->sdk->spans && p->slot.sdk.span));
	return list;
}

int inspect_json(FILE *f, const struct inspect *in)
{
	json_t *root = json_program(in), *libs = json_array();
	int err;

	for (size_t i = 0; i < in->plan->nlibs; i++) {
		const struct plan_lib *l = &in->plan->libs[i];
		json_t *one = json_pack("{s:s, s:o, s:o, s:o}", "name", l->lib->name, "parts",
					json_parts(l), "functions", json_functions(in->plan, i),
					"fields", json_fields(l));

		json_array_append_new(libs, one);
	}
	json_object_set_new(root, "sdks", json_sdks(in->plan));
	json_object_set_new(root, "runtime_metrics", inspect_runtime_json(in));
	json_object_set_new(root, "libraries", libs);
	/* jansson passes failures on as NULL: an object without its last key is not whole. */
	err = root && json_object_get(root, "libraries") && json_dumpf(root, f, JSON_INDENT(2)) == 0
		      ? 0
		      : -ENOMEM;
	json_decref(root);
	if (!err)
		(void)fputc('\n', f);
	return err;
}
