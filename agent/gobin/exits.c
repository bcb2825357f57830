#include "gobin/ways.h"

#define LOOPS_MAX 64 /* so many jumps are tried for whether they lie in a loop */

static bool all_end(const struct ways *f, uint32_t k)
{
	uint32_t next[2];

	if (f->insns[k].kind == RETURN)
		return true;
	ways_next(f, k, next);
	if (next[0] == NONE && next[1] == NONE)
		return false;
	return (next[0] == NONE || f->insns[next[0]].ends) &&
	       (next[1] == NONE || f->insns[next[1]].ends);
}

/* Backwards until nothing new is found: what is in a loop never is. */
static void find_ending(struct ways *f)
{
	bool more = true;

	for (int pass = 0; more && pass < 64; pass++) {
		more = false;
		for (uint32_t k = f->n; k-- > 0;) {
			if (f->insns[k].ends || !all_end(f, k))
				continue;
			f->insns[k].ends = more = true;
			f->order[f->norder++] = k;
		}
	}
}

/* ---- the choice ---- */

/* Makes k a place for the ways `from`, if the results are known there. */
static bool choose(struct ways *f, uint32_t k, unsigned from)
{
	struct insn *i = &f->insns[k];
	struct gobin_exit *place = &f->places[k];

	if (!i->emulated)
		return false;
	*place = (struct gobin_exit){ 0 };
	if (!ways_follow(f, k, from, place))
		return false;
	place->exit.when = GO_ALWAYS;
	if (i->kind == BRANCH && from != 3)
		place->exit.when = from == 2 ? i->cc : i->cc ^ 1;
	i->chosen = true;
	return true;
}

/* True: control may come back to k. */
static bool in_loop(const struct ways *f, uint32_t k)
{
	auto_free bool *seen = calloc(f->n, sizeof(*seen));
	uint32_t n = 0, next[2];

	if (!seen)
		return true;
	f->stack[n++] = k;
	while (n) {
		ways_next(f, f->stack[--n], next);
		for (int side = 0; side < 2; side++) {
			if (next[side] == k)
				return true;
			if (next[side] == NONE || seen[next[side]])
				continue;
			seen[next[side]] = true;
			f->stack[n++] = next[side];
		}
	}
	return false;
}

/* Bits of the sides from which an open way leads to a RET. */
static unsigned open_sides(const struct ways *f, uint32_t k)
{
	uint32_t next[2];
	unsigned from = 0;

	ways_next(f, k, next);
	for (int side = 0; side < 2; side++)
		if (next[side] != NONE && f->insns[next[side]].ends && f->insns[next[side]].open)
			from |= 1u << side;
	return from;
}

/* A place for these sides would be passed as well on ways that have one further down. */
static bool is_mixed(const struct ways *f, uint32_t k, unsigned from)
{
	uint32_t next[2];

	ways_next(f, k, next);
	return (from & 1 && f->insns[next[0]].mixed) || (from & 2 && f->insns[next[1]].mixed);
}

static void choose_one(struct ways *f, uint32_t k)
{
	struct insn *i = &f->insns[k];
	unsigned from = open_sides(f, k);

	i->open = from != 0;
	i->mixed = is_mixed(f, k, from);
	if (!from)
		return;
	if (!i->mixed && choose(f, k, from)) {
		i->open = false;
		return;
	}
	if (i->kind != BRANCH)
		return;
	for (unsigned side = 1; from == 3 && !i->covered && side < 3; side++)
		if (!is_mixed(f, k, side) && choose(f, k, side))
			i->covered = (uint8_t)side;
	i->mixed = i->mixed || i->covered || from != 3;
}

/* From the RETs upwards: the last place that will do on each way. */
static void choose_inside(struct ways *f)
{
	for (uint32_t o = 0; o < f->norder; o++) {
		struct insn *i = &f->insns[f->order[o]];

		i->mixed = false;
		i->covered = 0;
		if (i->kind == RETURN) {
			i->open = !i->chosen;
			continue;
		}
		i->chosen = false;
		choose_one(f, f->order[o]);
	}
}

/* The RETs of all open ways from k on. */
static void choose_returns(struct ways *f, uint32_t k)
{
	uint32_t n = 0, next[2];

	f->stack[n++] = k;
	while (n) {
		struct insn *i = &f->insns[f->stack[n - 1]];

		ways_next(f, f->stack[--n], next);
		if (!i->open)
			continue;
		i->open = false; /* seen */
		if (i->kind == RETURN)
			i->chosen = true;
		for (int side = 0; side < 2; side++)
			if (next[side] != NONE && !(i->covered >> side & 1))
				f->stack[n++] = next[side];
	}
}

/* Ways that come to their end without a place: the branch that leads there will do, unless it is
 * passed again and again; else the RET. True: a RET was taken, the choice must be made anew. */
static bool choose_border(struct ways *f, int *loops)
{
	bool anew = false;

	for (uint32_t k = 0; k < f->n; k++) {
		struct insn *i = &f->insns[k];
		uint32_t next[2];
		unsigned from;

		if (i->ends && k != 0)
			continue;
		from = i->ends ? (i->open ? 3 : 0) : open_sides(f, k);
		if (!from)
			continue;
		if (!i->ends && i->kind == BRANCH && ++*loops <= LOOPS_MAX && !in_loop(f, k) &&
		    !is_mixed(f, k, from) && choose(f, k, from))
			continue;
		anew = true;
		if (i->ends) {
			choose_returns(f, k);
			continue;
		}
		ways_next(f, k, next);
		for (int side = 0; side < 2; side++)
			if (from >> side & 1)
				choose_returns(f, next[side]);
	}
	return anew;
}

static int collect(const struct ways *f, struct gobin_exit *out, size_t max, size_t *n)
{
	*n = 0;
	for (uint32_t k = 0; k < f->n; k++) {
		const struct insn *i = &f->insns[k];

		if (!i->chosen)
			continue;
		if (*n == max)
			return -E2BIG;
		out[*n] = i->kind == RETURN ? (struct gobin_exit){ .ret = true } : f->places[k];
		out[*n].addr = f->code->addr + i->at;
		out[(*n)++].offset = i->at;
	}
	return 0;
}

static int find(struct ways *f, struct gobin_exit *out, size_t max, size_t *n)
{
	int err = ways_read(f), loops = 0;
	bool anew = true;

	if (err)
		return err;
	find_ending(f);
	for (int round = 0; anew && round < 64; round++) {
		for (uint32_t k = 0; k < f->n; k++)
			if (!f->insns[k].ends)
				f->insns[k].chosen = false;
		choose_inside(f);
		loops = 0;
		anew = choose_border(f, &loops);
	}
	return anew ? -ENOTSUP : collect(f, out, max, n);
}

int exits_find(const struct exits_code *code, size_t want, struct gobin_exit *out, size_t max,
	       size_t *n)
{
	size_t most = code->size < INSNS_MAX ? code->size + 1 : INSNS_MAX + 1;
	auto_free struct insn *insns = calloc(most, sizeof(*insns));
	auto_free uint32_t *order = calloc(most, sizeof(*order));
	auto_free uint32_t *stack = calloc(2 * most, sizeof(*stack));
	auto_free struct gobin_exit *places = calloc(most, sizeof(*places));
	struct ways f = { .code = code,
			  .insns = insns,
			  .order = order,
			  .stack = stack,
			  .want = want,
			  .places = places };

	if (!insns || !order || !stack || !places)
		return -ENOMEM;
	if (want > GO_RESULTS_MAX ||
	    !ZYAN_SUCCESS(
		    ZydisDecoderInit(&f.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)))
		return -ENOTSUP;
	return find(&f, out, max, n);
}
