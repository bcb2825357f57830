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

/* Cheap, and nearly always the end of it: slices whose length is their capacity, ascending pointers
 * (zeros where the loader writes them). A long array of one number passes the first test at each of
 * its words, so both are needed. */
static bool looks_like(const uint64_t *w, bool relocated)
{
	for (int i = W_NAMES; i <= W_FTAB; i += 3)
		if (!w[i + 1] || w[i + 1] != w[i + 2])
			return false;
	if (relocated)
		return !(w[W_HEADER] | w[W_NAMES] | w[W_CUTAB] | w[W_FILETAB] | w[W_PCTAB] |
			 w[W_PCLNTABLE] | w[W_FTAB]);
	return w[W_HEADER] < w[W_NAMES] && w[W_NAMES] < w[W_CUTAB] && w[W_CUTAB] <= w[W_FILETAB] &&
	       w[W_FILETAB] <= w[W_PCTAB] && w[W_PCTAB] <= w[W_PCLNTABLE] &&
	       w[W_PCLNTABLE] == w[W_FTAB];
}

static int accept(struct exe *e, uint64_t addr, struct moduledata *out)
{
	struct moduledata m = { .addr = addr };
	const struct exe_segment *text, *etext;
	struct pclntab *p = &m.pclntab;
	int err;

	err = pclntab_header(e, exe_ptr(e, addr), p);
	if (err)
		return err;
	for (int i = 0; i < MODULEDATA_WORDS; i++)
		m.word[i] = exe_ptr(e, addr + 8 * (uint64_t)i);
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

/* From its end to its begin: in a PIE megabytes of relocated read-only data stand before what we
 * look for. */
static int find_in(struct exe *e, const struct exe_segment *s, uint64_t *buf,
		   struct moduledata *out)
{
	uint64_t skip = -s->addr & 7,
		 chunks = s->filesz > skip ? (s->filesz - skip + CHUNK - 1) / CHUNK : 0;

	while (chunks--) {
		uint64_t at = skip + chunks * CHUNK, left = s->filesz - at;
		size_t n = left < CHUNK + W_HEAD * 8 ? (size_t)left : CHUNK + W_HEAD * 8;
		int err;

		if (!exe_read(e, s->addr + at, buf, n))
			return e->err ? e->err : -EBADMSG;
		for (size_t i = 0; i + W_HEAD <= n / 8 && i < CHUNK / 8; i++) {
			if (!looks_like(&buf[i], e->nrela))
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
	for (size_t i = e->nsegments; i > 0; i--) {
		int err;

		if (!(e->segments[i - 1].allows & EXE_WRITE))
			continue;
		err = find_in(e, &e->segments[i - 1], buf, out);
		if (err != -ENOENT)
			return err;
	}
	return -ENOENT;
}

/* ---- without moduledata: sections, then magic ---- */

#define MAGIC_118 0xfffffff0u
#define MAGIC_120 0xfffffff1u

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

static uint64_t text_section(struct exe *e)
{
	struct exe_section s;

	for (size_t i = 0; exe_section(e, i, &s) == 0; i++)
		if (strcmp(s.name, ".text") == 0)
			return s.addr;
	return 0;
}

/* The function table alone: functions can be found with it, types can not. */
static int accept_pclntab(struct exe *e, uint64_t addr, struct moduledata *out)
{
	struct moduledata m = { 0 };
	const struct exe_segment *s;
	int err = pclntab_header(e, addr, &m.pclntab);

	if (err)
		return err;
	m.text = m.pclntab.text ? m.pclntab.text : text_section(e);
	m.etext = m.text + exe_u32(e, m.pclntab.functab + m.pclntab.nfunc * 8);
	s = exe_segment(e, m.text);
	if (!s || !(s->allows & EXE_EXEC) || m.etext <= m.text || m.etext - s->addr > s->filesz)
		return -EBADMSG;
	*out = m;
	return 0;
}

static int find_by_section(struct exe *e, struct moduledata *out)
{
	struct exe_section s;

	for (size_t i = 0; exe_section(e, i, &s) == 0; i++)
		if (ends_with(s.name, "gopclntab") && accept_pclntab(e, s.addr, out) == 0)
			return 0;
	return e->err ? e->err : -ENOENT;
}

static int find_by_magic(struct exe *e, struct moduledata *out)
{
	auto_free uint64_t *buf = malloc(CHUNK);

	if (!buf)
		return -ENOMEM;
	for (size_t i = 0; i < e->nsegments; i++) {
		const struct exe_segment *s = &e->segments[i];

		for (uint64_t at = -s->addr & 7; at < s->filesz; at += CHUNK) {
			size_t n = s->filesz - at < CHUNK ? (size_t)(s->filesz - at) : CHUNK;

			if (s->allows & EXE_EXEC || !exe_read(e, s->addr + at, buf, n))
				break;
			for (size_t j = 0; j < n / 8; j++)
				if (((uint32_t)buf[j] == MAGIC_118 ||
				     (uint32_t)buf[j] == MAGIC_120) &&
				    accept_pclntab(e, s->addr + at + 8 * j, out) == 0)
					return 0;
		}
	}
	return e->err ? e->err : -ENOENT;
}

int moduledata_find(struct exe *e, struct moduledata *out)
{
	int err = find(e, out);

	/* lld leaves zeros where the loader writes pointers: once more, through the relocations. */
	if (err == -ENOENT && exe_relocate(e) == 0)
		err = find(e, out);
	if (err == -ENOENT)
		err = find_by_section(e, out);
	if (err == -ENOENT)
		err = find_by_magic(e, out);
	return err;
}

bool moduledata_is_old(struct exe *e)
{
	struct exe_section s;
	uint32_t magic;

	for (size_t i = 0; exe_section(e, i, &s) == 0; i++) {
		magic = ends_with(s.name, "gopclntab") ? exe_u32(e, s.addr) : 0;
		if (magic == 0xfffffffbu || magic == 0xfffffffau) /* Go 1.2, Go 1.16 */
			return true;
	}
	return false;
}
