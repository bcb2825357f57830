#include "gobin/pclntab.h"

#define CHUNK     65536u
#define NAMES_MAX (256u << 20)

int pclntab_header(struct exe *e, uint64_t addr, struct pclntab *out)
{
	struct {
		uint32_t magic;
		uint8_t zero[2], min_lc, ptr_size;
		uint64_t nfunc, nfiles, text, names, cutab, filetab, pctab, functab;
	} h;

	if ((addr & 7) || !exe_read(e, addr, &h, sizeof(h)) || h.zero[0] || h.zero[1] ||
	    h.ptr_size != 8 || (h.min_lc != 1 && h.min_lc != 4) || !h.nfunc || !h.names)
		return -EBADMSG;
	if (h.names >= h.cutab || h.cutab > h.filetab || h.filetab > h.pctab ||
	    h.pctab > h.functab || h.nfunc > UINT32_MAX || !exe_has(e, addr, h.functab) ||
	    !exe_has(e, addr + h.functab, (h.nfunc + 1) * 8))
		return -EBADMSG;
	if (h.nfunc > PCLNTAB_FUNCS_MAX || h.cutab - h.names > NAMES_MAX)
		return -E2BIG;
	*out = (struct pclntab){ .addr = addr,
				 .nfunc = h.nfunc,
				 .names = addr + h.names,
				 .names_size = h.cutab - h.names,
				 .cutab = addr + h.cutab,
				 .filetab = addr + h.filetab,
				 .pctab = addr + h.pctab,
				 .functab = addr + h.functab,
				 .text = h.text };
	return 0;
}

/* Names longer than a chunk are left out. */
int pclntab_names(struct exe *e, const struct pclntab *p, pclntab_name *fn, void *arg)
{
	auto_free char *buf = malloc(CHUNK);
	uint64_t at = 0;

	if (!buf)
		return -ENOMEM;
	while (at < p->names_size) {
		size_t n = p->names_size - at < CHUNK ? (size_t)(p->names_size - at) : CHUNK,
		       begin = 0;
		const char *end;

		if (!exe_read(e, p->names + at, buf, n))
			return e->err ? e->err : -EBADMSG;
		while ((end = memchr(buf + begin, 0, n - begin)) != NULL) {
			size_t len = (size_t)(end - buf) - begin;

			if (len && fn(arg, at + begin, buf + begin, len))
				return 0;
			begin += len + 1;
		}
		at += begin ? begin
			    : n; /* what is left of a cut name is read again with the next chunk */
	}
	return 0;
}

/* Wanted names that the program has: offset in the name table -> index in the set. */
struct hit {
	uint32_t at;
	uint32_t idx;
};

struct hits {
	const struct names *wanted;
	struct hit *list;
	size_t n, cap;
};

static bool hit_name(void *arg, uint64_t at, const char *name, size_t n)
{
	struct hits *h = arg;

	for (long i = names_find(h->wanted, name, n, -1); i >= 0;
	     i = names_find(h->wanted, name, n, i)) {
		if (h->n == h->cap)
			return true; /* the linker writes each name once: a hostile table */
		h->list[h->n++] = (struct hit){ (uint32_t)at, (uint32_t)i };
	}
	return false;
}

static size_t hit_slot(uint32_t at)
{
	return (at * 0x9e3779b1u) >> 16;
}

struct funcs_pass {
	const struct pclntab *p;
	uint64_t text;
	const struct hits *hits;
	uint64_t filter[1024]; /* bit of hit_slot() */
	pclntab_found *found;
	void *arg;
};

static void func_check(const struct funcs_pass *f, const uint32_t pair[3], uint32_t name)
{
	size_t slot = hit_slot(name);

	if (!(f->filter[slot / 64] & 1ull << slot % 64))
		return;
	for (size_t i = 0; i < f->hits->n; i++)
		if (f->hits->list[i].at == name && pair[2] > pair[0])
			f->found(f->arg, f->hits->list[i].idx, f->text + pair[0],
				 f->text + pair[2]);
}

static int funcs_pass(struct exe *e, const struct funcs_pass *f)
{
	auto_free uint32_t *pairs = malloc(CHUNK + 8);
	const uint64_t per = CHUNK / 8;

	if (!pairs)
		return -ENOMEM;
	for (uint64_t from = 0; from < f->p->nfunc; from += per) {
		uint64_t n = f->p->nfunc - from < per ? f->p->nfunc - from : per;

		if (!exe_read(e, f->p->functab + from * 8, pairs, (size_t)(n + 1) * 8 - 4))
			return e->err ? e->err : -EBADMSG;
		for (uint64_t i = 0; i < n; i++)
			func_check(f, &pairs[2 * i],
				   exe_u32(e, f->p->functab + pairs[2 * i + 1] + 4));
		if (e->err)
			return e->err;
	}
	return 0;
}

int pclntab_find(struct exe *e, const struct pclntab *p, uint64_t text, const struct names *wanted,
		 pclntab_found *found, void *arg)
{
	const size_t cap = 2 * wanted->n + 16;
	auto_free struct hit *list = calloc(cap, sizeof(*list));
	struct hits hits = { wanted, list, 0, cap };
	struct funcs_pass pass = {
		.p = p, .text = text, .hits = &hits, .found = found, .arg = arg
	};
	int err;

	if (!list)
		return -ENOMEM;
	err = pclntab_names(e, p, hit_name, &hits);
	if (err || !hits.n)
		return err;
	for (size_t i = 0; i < hits.n; i++)
		pass.filter[hit_slot(list[i].at) / 64] |= 1ull << hit_slot(list[i].at) % 64;
	return funcs_pass(e, &pass);
}
