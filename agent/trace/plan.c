#include "trace/plan.h"

#include "gobin/gobin.h"
#include <stdio.h>

/* Everything is one block: the plan, its libraries, then functions, fields and states of all. */
struct sizes {
	size_t libs, probes, fields, places;
	bool exits; /* a library wants cheap ends */
};

static struct sizes measure(const struct lib *const *libs, size_t n)
{
	struct sizes s = { .libs = n };

	for (size_t i = 0; i < n; i++) {
		s.probes += libs[i]->nprobes;
		s.fields += libs[i]->nfields;
		for (size_t k = 0; k < libs[i]->nprobes; k++)
			s.places += 1 + (go_probe_leave(&libs[i]->probes[k]) ? GOBIN_RETS_MAX : 0);
		for (size_t k = 0; k < libs[i]->nprobes; k++)
			s.exits = s.exits || libs[i]->probes[k].results;
	}
	return s;
}

static struct plan *new_plan(const struct lib *const *libs, const struct sizes *s)
{
	size_t at[5], size = sizeof(struct plan);
	size_t bytes[] = { s->libs * sizeof(struct plan_lib),
			   (2 * s->probes + GOBIN_BARRIERS) * sizeof(struct gobin_func),
			   s->fields * sizeof(struct gobin_field),
			   s->places * sizeof(struct plan_place),
			   s->probes * sizeof(enum plan_probe) };
	struct gobin_field *fields;
	struct gobin_func *funcs;
	enum plan_probe *states;
	struct plan *p;

	for (size_t i = 0; i < ARRAY_SIZE(bytes); i++) {
		at[i] = size = (size + 15) & ~(size_t)15;
		size += bytes[i];
	}
	p = calloc(1, size);
	if (!p)
		return NULL;
	p->libs = (void *)((char *)p + at[0]);
	p->nlibs = s->libs;
	funcs = (void *)((char *)p + at[1]);
	fields = (void *)((char *)p + at[2]);
	p->places = (void *)((char *)p + at[3]);
	states = (void *)((char *)p + at[4]);
	for (size_t i = 0; i < s->libs; i++) {
		p->libs[i] = (struct plan_lib){
			.lib = libs[i],
			.funcs = funcs,
			.callees = funcs + s->probes,
			.fields = fields,
			.states = states,
		};
		funcs += libs[i]->nprobes;
		fields += libs[i]->nfields;
		states += libs[i]->nprobes;
	}
	return p;
}

/* The binary has some function of it. One without probes, as tests have them, is taken to be there.
 */
static bool is_used(const struct plan_lib *l)
{
	for (size_t k = 0; k < l->lib->nprobes; k++)
		if (l->funcs[k].name)
			return true;
	return l->lib->nprobes == 0;
}

/* All functions of all libraries in one pass over the binary's table, all fields in another. */
static int resolve(struct plan *p, struct gobin *g, const struct sizes *s)
{
	static const char *const nothing[] = { NULL };
	auto_free const char *const **names =
		calloc(2 * s->probes + GOBIN_BARRIERS, sizeof(*names));
	auto_free struct gobin_want *want = calloc(s->fields + 1, sizeof(*want));
	auto_free struct gobin_field *all = calloc(s->fields + 1, sizeof(*all));
	struct gobin_field *found = all;
	size_t nnames = 0, nwant = 0;
	int err = 0;

	if (!names || !want || !all)
		return -ENOMEM;
	for (size_t i = 0; i < p->nlibs; i++)
		for (size_t k = 0; k < p->libs[i].lib->nprobes; k++, nnames++) {
			const struct go_probe *probe = &p->libs[i].lib->probes[k];

			names[nnames] = probe->symbols;
			names[s->probes + nnames] = probe->callees ? probe->callees : nothing;
		}
	nnames += s->probes;
	for (size_t i = 0; s->exits && i < GOBIN_BARRIERS; i++)
		names[nnames++] = gobin_barriers[i];
	if (nnames)
		err = gobin_funcs(g, names, nnames, p->libs[0].funcs);
	for (size_t i = 0; i < p->nlibs && !err; i++) {
		const struct lib *lib = p->libs[i].lib;

		/* Types that are not there cost a pass over all that are. */
		for (size_t k = 0; k < lib->nfields && is_used(&p->libs[i]); k++)
			want[nwant++] =
				(struct gobin_want){ lib->fields[k].type, lib->fields[k].field };
	}
	if (nwant && !err)
		err = gobin_fields(g, want, nwant, found);
	for (size_t i = 0; i < p->nlibs && !err; i++) {
		size_t n = is_used(&p->libs[i]) ? p->libs[i].lib->nfields : 0;

		memcpy(p->libs[i].fields, found, n * sizeof(*found));
		found += n;
	}
	return err;
}

bool plan_has_field(const struct plan_lib *l, size_t i)
{
	const struct gobin_field *f = &l->fields[i];
	bool any = !l->lib->fields[i].field[0] || l->lib->alone >> i & 1;

	return f->source != GOBIN_NOWHERE &&
	       f->offset <= (any ? GO_ABSENT - 1 : GO_STRUCT_MAX - 16);
}

/* What can be said without looking for RETs. */
static enum plan_probe probe_state(const struct go_probe *probe, const struct gobin_func *func)
{
	if (!func->name)
		return PLAN_PROBE_NO_FUNCTION;
	if (probe->enter && func->place == GOBIN_PLACE_REFUSED)
		return PLAN_PROBE_NO_PLACE;
	return PLAN_PROBE_FOUND;
}

/* Places where a function ends. */
struct ends {
	struct gobin_exit list[GOBIN_RETS_MAX];
	size_t n;
};

static void judge_parts(struct plan_lib *l)
{
	l->parts = l->probes = 0;
	for (size_t i = 0; i < l->lib->nparts; i++) {
		const struct go_part *part = &l->lib->parts[i];
		bool whole = !(part->feature & ~l->features);

		for (size_t k = 0; k < l->lib->nprobes; k++)
			if (part->probes >> k & 1 && l->states[k] != PLAN_PROBE_FOUND)
				whole = false;
		for (size_t k = 0; k < l->lib->nfields; k++)
			if (part->fields >> k & 1 && !plan_has_field(l, k))
				whole = false;
		if (!whole)
			continue;
		l->parts |= 1u << i;
		l->probes |= part->probes;
	}
}

/* Where one function ends, or what it calls has returned. 0 or -errno. */
static int find_end(struct gobin *g, const struct plan_lib *l, size_t k,
		    const struct gobin_func *barriers, struct ends *e)
{
	const struct go_probe *probe = &l->lib->probes[k];
	const struct gobin_func *func = &l->funcs[k];
	uint64_t rets[GOBIN_RETS_MAX];
	int err;

	if (probe->results)
		return gobin_exits(g, func, probe->results, barriers, e->list, &e->n);
	if (probe->leave)
		err = gobin_rets(g, func, rets, &e->n);
	else
		err = gobin_returned(g, func, &l->callees[k], probe->kept, rets, &e->n);
	for (size_t i = 0; !err && i < e->n; i++)
		e->list[i] = (struct gobin_exit){ .offset = rets[i], .ret = true };
	return err;
}

/* Only probes that will be attached are disassembled. False: one of them has no end. */
static bool find_ends(struct plan_lib *l, struct gobin *g, const struct gobin_func *barriers,
		      struct ends *ends)
{
	bool all = true;

	for (size_t k = 0; k < l->lib->nprobes; k++) {
		struct ends *e = &ends[k];

		if (!(l->probes >> k & 1) || !go_probe_leave(&l->lib->probes[k]) || e->n)
			continue;
		if (find_end(g, l, k, barriers, e) || !e->n || e->n > GOBIN_RETS_MAX) {
			e->n = 0;
			l->states[k] =
				l->lib->probes[k].leave ? PLAN_PROBE_NO_END : PLAN_PROBE_NO_RETURN;
			all = false;
		}
	}
	return all;
}

static void add_leave(struct plan *p, size_t lib, size_t probe, const struct gobin_exit *e)
{
	struct plan_place place = { .offset = e->offset,
				    .lib = (uint8_t)lib,
				    .probe = (uint8_t)(probe | COOKIE_LEAVE),
				    .trial = p->libs[lib].lib->probes[probe].trial,
				    .addr = e->ret ? 0 : e->addr,
				    .exit = e->exit };

	for (int i = 0; i < GO_RESULTS_MAX; i++)
		place.addresses |= (uint8_t)(e->constant_is_address[i] << i);
	p->places[p->nplaces++] = place;
}

/* Parts, then their places: from the last probe to the first, so that a begin that is seen has its
 * end. */
static int plan_lib(struct plan *p, size_t i, struct gobin *g, const struct gobin_func *barriers)
{
	struct plan_lib *l = &p->libs[i];
	auto_free struct ends *ends = calloc(l->lib->nprobes + 1, sizeof(*ends));

	if (!ends)
		return -ENOMEM;
	for (size_t k = 0; k < l->lib->nprobes; k++)
		l->states[k] = probe_state(&l->lib->probes[k], &l->funcs[k]);
	do
		judge_parts(l);
	while (!find_ends(l, g, barriers, ends));
	for (size_t k = l->lib->nprobes; k-- > 0;) {
		const struct go_probe *probe = &l->lib->probes[k];

		if (!(l->probes >> k & 1))
			continue;
		for (size_t r = 0; r < ends[k].n; r++)
			add_leave(p, i, k, &ends[k].list[r]);
		if (probe->enter)
			p->places[p->nplaces++] =
				(struct plan_place){ .offset = l->funcs[k].enter_offset,
						     .lib = (uint8_t)i,
						     .probe = (uint8_t)k };
	}
	return 0;
}

/* A library whose tables are too long is a bug of that library, found by the first test that loads
 * it. */
static bool fits(const struct lib *lib)
{
	return lib->nprobes <= LIB_PROBES_MAX && lib->nfields <= GO_FIELDS_MAX && lib->nparts <= 32;
}

/* The version of the first of its modules that the binary names. */
static void sdk_version(struct plan_lib *l, const struct gobin_info *info)
{
	for (const char *const *m = l->lib->sdk->modules; *m && !l->version[0]; m++)
		for (size_t i = 0; i < info->nmodules && !l->version[0]; i++)
			if (strcmp(info->modules[i].path, *m) == 0)
				(void)snprintf(l->version, sizeof(l->version), "%s",
					       info->modules[i].version);
}

static int plan_sdk(struct plan *p, size_t i, struct gobin *g)
{
	uint64_t types[LIB_SDK_TYPES_MAX] = { 0 };
	const struct lib_sdk *sdk = p->libs[i].lib->sdk;
	size_t n = 0;
	int err;

	if (!sdk || !p->libs[i].parts)
		return 0;
	sdk_version(&p->libs[i], gobin_info(g));
	if (!sdk->spans || p->slot.sdk.span)
		return 0;
	while (n < LIB_SDK_TYPES_MAX && sdk->types[n])
		n++;
	err = gobin_types(g, sdk->types, n, types);
	if (!err)
		sdk->spans(p->libs[i].fields, types, &p->slot.sdk);
	return err;
}

int plan_make_for(struct plan **out, struct gobin *g, const struct lib *const *libs, size_t n,
		  uint32_t features)
{
	const struct gobin_info *info = gobin_info(g);
	struct sizes s = measure(libs, n);
	auto_plan struct plan *p = NULL;
	struct gobin_map map = { 0 };
	int err;

	for (size_t i = 0; i < n; i++)
		if (!fits(libs[i]))
			return -EINVAL;
	p = n <= LIBS_MAX ? new_plan(libs, &s) : NULL;
	if (!p)
		return n <= LIBS_MAX ? -ENOMEM : -EINVAL;
	err = n ? resolve(p, g, &s) : 0;
	if (err)
		return err;
	for (size_t i = 0; i < n && !err; i++) {
		p->libs[i].features = features;
		err = plan_lib(p, i, g, p->libs[0].funcs + 2 * s.probes);
		for (size_t k = 0; k < libs[i]->nparts; k++)
			if (p->libs[i].parts >> k & 1)
				p->features |= libs[i]->parts[k].feature;
	}
	for (size_t i = 0; i < n && !err; i++)
		err = plan_sdk(p, i, g);
	if (err)
		return err;
	if (gobin_header_map(g, &map) == 0 && map.kind != GO_MAP_NONE) {
		p->slot.map_kind = map.kind;
		p->slot.map_group = map.group;
		p->slot.map_key = map.key;
		p->slot.map_key_stride = map.key_stride;
		p->slot.map_elem = map.elem;
		p->slot.map_elem_stride = map.elem_stride;
	}
	p->slot.types = info->types;
	if (info->ro_size) {
		p->slot.ro_lo = info->ro_addr;
		p->slot.ro_hi = info->ro_addr + info->ro_size;
	}
	*out = take(p);
	return 0;
}

int plan_make(struct plan **out, struct gobin *g, uint32_t features)
{
	return plan_make_for(out, g, __start_libs, lib_count(), features);
}

void plan_free(struct plan **p)
{
	free(take(*p));
}

bool plan_sdk_absent(const struct plan_lib *p)
{
	for (size_t k = 0; k < p->lib->nprobes; k++)
		if (p->funcs[k].name)
			return false;
	return p->lib->sdk && !p->version[0] && !p->parts;
}

enum plan_serves plan_serves(const struct plan_lib *p)
{
	enum plan_serves serves = PLAN_SERVES_NOTHING;

	for (size_t i = 0; i < p->lib->nparts; i++) {
		const struct go_part *part = &p->lib->parts[i];
		bool there = part->serves && p->funcs;

		if (there && p->parts >> i & 1)
			return PLAN_SERVES_SEEN;
		for (size_t k = 0; k < p->lib->nprobes && there; k++)
			there = !(part->probes >> k & 1) || p->funcs[k].name;
		if (there)
			serves = PLAN_SERVES_UNSEEN;
	}
	return serves;
}

bool plan_asks(const struct plan_lib *p)
{
	for (size_t i = 0; i < p->lib->nparts; i++)
		if (p->lib->parts[i].asks && p->parts >> i & 1)
			return true;
	return false;
}

static const char *feature_name(uint32_t feature)
{
	if (feature & FEATURE_PROPAGATION)
		return "propagation";
	return feature & FEATURE_WRITE ? "writing into programs (propagation)" : "a feature";
}

const char *plan_missing(const struct plan_lib *p, size_t part, char *buf, size_t size)
{
	static const char *const texts[] = {
		[PLAN_PROBE_NO_FUNCTION] = "is not in the binary",
		[PLAN_PROBE_NO_PLACE] =
			"begins with bytes that are not known to be safe for a probe",
		[PLAN_PROBE_NO_END] = "could not be disassembled to its ends",
		[PLAN_PROBE_NO_RETURN] = "has no place where what it calls has just returned",
	};
	const struct go_part *want = &p->lib->parts[part];

	if (want->feature & ~p->features) {
		(void)snprintf(buf, size, "%s is off", feature_name(want->feature & ~p->features));
		return buf;
	}
	for (size_t k = 0; k < p->lib->nprobes; k++) {
		const struct gobin_func *f = &p->funcs[k];

		if (!(want->probes >> k & 1) || p->states[k] == PLAN_PROBE_FOUND)
			continue;
		if (p->states[k] == PLAN_PROBE_NO_RETURN && !p->callees[k].name)
			(void)snprintf(buf, size, "function %s %s", p->lib->probes[k].callees[0],
				       texts[PLAN_PROBE_NO_FUNCTION]);
		else
			(void)snprintf(buf, size, "function %s %s",
				       f->name ? f->name : p->lib->probes[k].symbols[0],
				       texts[p->states[k]]);
		return buf;
	}
	for (size_t k = 0; k < p->lib->nfields; k++) {
		const struct go_field *f = &p->lib->fields[k];

		if (!(want->fields >> k & 1) || plan_has_field(p, k))
			continue;
		(void)snprintf(buf, size,
			       !f->field[0] ? "the size of %s%s is not known"
			       : p->fields[k].source == GOBIN_NOWHERE
				       ? "field %s.%s has no known offset"
				       : "field %s.%s lies too far into its struct",
			       f->type, f->field);
		return buf;
	}
	if (size)
		buf[0] = 0;
	return buf;
}
