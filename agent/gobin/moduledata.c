#include "gobin/moduledata.h"

/* The words at the head of runtime.moduledata (runtime/symtab.go), the same from Go 1.18 on. */
enum {
	W_HEADER = 0,
	W_NAMES = 1, /* slices: pointer, length, capacity */
	W_CUTAB = 4,
	W_FILETAB = 7,
	W_PCTAB = 10,
	W_PCLNTABLE = 13,
	W_FTAB = 16,
	W_MINPC = 20,
	W_MAXPC = 21,
	W_TEXT = 22,
	W_ETEXT = 23,
	W_HEAD = 24,
};

#define CHUNK 65536u

/* Slices whose length is their capacity: cheap, and nearly always the end of it. */
static bool looks_like(const uint64_t *w)
{
	for (int i = W_NAMES; i <= W_FTAB; i += 3)
		if (!w[i + 1] || w[i + 1] != w[i + 2])
			return false;
	return true;
}

static int accept(struct exe *e, uint64_t addr, struct moduledata *out)
{
	struct moduledata m = { .addr = addr };
	const struct exe_segment *text, *etext;
	struct pclntab *p = &m.pclntab;
	int err;

	for (int i = 0; i < MODULEDATA_WORDS; i++)
		m.word[i] = exe_ptr(e, addr + 8 * (uint64_t)i);
	err = pclntab_header(e, m.word[W_HEADER], p);
	if (err)
		return err;
	if (m.word[W_NAMES] != p->names || m.word[W_CUTAB] != p->cutab ||
	    m.word[W_FILETAB] != p->filetab || m.word[W_PCTAB] != p->pctab ||
	    m.word[W_PCLNTABLE] != p->functab || m.word[W_FTAB] != p->functab ||
	    m.word[W_FTAB + 1] != p->nfunc + 1)
		return -EBADMSG;
	m.text = m.word[W_TEXT];
	m.etext = m.word[W_ETEXT];
	text = exe_segment(e, m.text);
	etext = exe_segment(e, m.etext - 1);
	if (m.text >= m.etext || !text || text != etext || !(text->allows & EXE_EXEC))
		return -EBADMSG;
	*out = m;
	return 0;
}

static int find_in(struct exe *e, const struct exe_segment *s, uint64_t *buf,
		   struct moduledata *out)
{
	uint64_t skip = -s->addr & 7;

	for (uint64_t at = skip; at + W_HEAD * 8 <= s->filesz; at += CHUNK) {
		uint64_t left = s->filesz - at;
		size_t n = left < CHUNK + W_HEAD * 8 ? (size_t)left : CHUNK + W_HEAD * 8;
		int err;

		if (!exe_read(e, s->addr + at, buf, n))
			return e->err ? e->err : -EBADMSG;
		for (size_t i = 0; i + W_HEAD <= n / 8 && i < CHUNK / 8; i++) {
			if (!looks_like(&buf[i]))
				continue;
			err = accept(e, s->addr + at + 8 * i, out);
			if (err != -EBADMSG)
				return err;
			if (e->err)
				return e->err;
		}
	}
	return -ENOENT;
}

static int find(struct exe *e, struct moduledata *out)
{
	auto_free uint64_t *buf = malloc(CHUNK + W_HEAD * 8);

	if (!buf)
		return -ENOMEM;
	for (size_t i = 0; i < e->nsegments; i++) {
		int err;

		if (!(e->segments[i].allows & EXE_WRITE))
			continue;
		err = find_in(e, &e->segments[i], buf, out);
		if (err != -ENOENT)
			return err;
	}
	return -ENOENT;
}

int moduledata_find(struct exe *e, struct moduledata *out)
{
	int err = find(e, out);

	/* lld leaves zeros where the loader writes pointers: once more, through the relocations. */
	if (err == -ENOENT && exe_relocate(e) == 0)
		err = find(e, out);
	return err;
}
