#include "gobin/gotype.h"

/* struct abi.Type, 48 bytes, the head of every descriptor. */
struct rtype {
	uint64_t size, ptrdata;
	uint32_t hash;
	uint8_t tflag, align, field_align, kind;
	uint64_t equal, gcdata;
	uint32_t str, ptr_to_this;
};

#define TFLAG_UNCOMMON 1u
#define TFLAG_STAR     2u /* the string has a '*' in front that is not the type's */
#define TFLAG_NAMED    4u
#define KIND_LAST      26u
#define FIELDS_MAX     4096u
#define FIELD_SIZE     24u
#define NAME_MAX_LEN   512u

enum { KIND_CHAN = 18, KIND_FUNC = 19 };

static bool inside(const struct gotypes *ts, uint64_t addr)
{
	return addr >= ts->types && addr < ts->etypes;
}

bool gotype_read(const struct gotypes *ts, uint64_t addr, struct gotype *out)
{
	struct rtype r;

	if ((addr & 7) || !inside(ts, addr) || !exe_read(ts->exe, addr, &r, sizeof(r)))
		return false;
	if (!(r.kind & 31) || (r.kind & 31) > KIND_LAST || r.size > 1ull << 47 ||
	    r.ptrdata > r.size || (r.ptrdata & 7) || !r.align || r.align > 8 ||
	    (r.align & (r.align - 1)) || r.align != r.field_align)
		return false;
	if (!r.str || r.str >= ts->etypes - ts->types || r.ptr_to_this >= ts->etypes - ts->types)
		return false;
	*out = (struct gotype){ addr, r.size, r.tflag, r.kind & 31, r.str };
	return true;
}

/* A name: flag byte, varint length, bytes. Returns the length; the first cap - 1 bytes are copied.
 */
static size_t name_read(struct exe *e, uint64_t addr, char *buf, size_t cap)
{
	uint64_t at = addr + 1;
	size_t n = 0, some;

	buf[0] = 0;
	for (unsigned shift = 0;; shift += 7) {
		uint8_t b;

		if (shift > 21 || !exe_read(e, at++, &b, 1))
			return 0;
		n |= (size_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			break;
	}
	some = n < cap - 1 ? n : cap - 1;
	if (!exe_read(e, at, buf, some))
		return 0;
	buf[some] = 0;
	return n;
}

size_t gotype_string(const struct gotypes *ts, const struct gotype *t, char *buf, size_t cap)
{
	size_t n = name_read(ts->exe, ts->types + t->str, buf, cap);

	if (!(t->tflag & TFLAG_STAR) || !n)
		return n;
	memmove(buf, buf + 1, strlen(buf));
	return n - 1;
}

/* Bytes of a descriptor before its uncommon part. Those of maps differ: gotypes.map_size. */
static uint32_t base_size(const struct gotypes *ts, uint8_t kind)
{
	switch (kind) {
	case GOTYPE_ARRAY:
		return 72;
	case KIND_CHAN:
		return 64;
	case KIND_FUNC:
	case GOTYPE_PTR:
	case GOTYPE_SLICE:
		return 56;
	case GOTYPE_INTERFACE:
	case GOTYPE_STRUCT:
		return 80;
	case GOTYPE_MAP:
		return ts->map_size;
	default:
		return 48;
	}
}

uint64_t gotype_extent(const struct gotypes *ts, const struct gotype *t)
{
	struct exe *e = ts->exe;
	uint64_t n = base_size(ts, t->kind), count;

	if (!n)
		return 0;
	if (t->tflag & TFLAG_UNCOMMON) {
		n += 16 + 16ull * exe_u16(e, t->addr + n + 4);
	}
	switch (t->kind) {
	case KIND_FUNC:
		return n + 8ull * (exe_u16(e, t->addr + 48) + (exe_u16(e, t->addr + 50) & 0x7fffu));
	case GOTYPE_STRUCT:
		count = exe_u64(e, t->addr + 64);
		return count > FIELDS_MAX ? 0 : n + FIELD_SIZE * count;
	case GOTYPE_INTERFACE:
		count = exe_u64(e, t->addr + 64);
		return count > FIELDS_MAX ? 0 : n + 8 * count;
	default:
		return n;
	}
}

/* The part of a type's string behind the last '.' outside of brackets: "Request" of "http.Request",
 * "T[a.b]" of "x.T[a.b]". */
static size_t last_dot(const char *p, size_t n)
{
	int depth = 0;

	for (size_t i = n; i > 0; i--) {
		depth += (p[i - 1] == ']') - (p[i - 1] == '[');
		if (p[i - 1] == '.' && depth == 0)
			return i - 1;
	}
	return n;
}

bool gotype_split(struct str full, struct str *package, struct str *name)
{
	size_t dot = last_dot(full.p, full.n);

	if (dot >= full.n || !dot || dot + 1 == full.n)
		return false;
	*package = (struct str){ full.p, dot };
	*name = (struct str){ full.p + dot + 1, full.n - dot - 1 };
	return true;
}

static uint32_t map_size_of(const struct gotypes *ts, const struct gotype *t);

bool gotype_is(const struct gotypes *ts, const struct gotype *t, struct str package,
	       struct str name)
{
	char buf[NAME_MAX_LEN];
	uint32_t base = base_size(ts, t->kind), path;
	size_t n, dot;

	if (t->kind == GOTYPE_MAP && !base)
		base = map_size_of(ts, t);
	if (!(t->tflag & TFLAG_NAMED) || !(t->tflag & TFLAG_UNCOMMON) || !base)
		return false;
	n = gotype_string(ts, t, buf, sizeof(buf));
	if (n >= sizeof(buf) - 1)
		return false;
	dot = last_dot(buf, n);
	if (dot >= n || n - dot - 1 != name.n || memcmp(buf + dot + 1, name.p, name.n) != 0)
		return false;
	path = exe_u32(ts->exe, t->addr + base);
	if (!path || path >= ts->etypes - ts->types)
		return false;
	n = name_read(ts->exe, ts->types + path, buf, sizeof(buf));
	return n < sizeof(buf) && n == package.n && memcmp(buf, package.p, n) == 0;
}

int gotype_field(const struct gotypes *ts, const struct gotype *t, size_t idx,
		 struct gotype_field *out)
{
	struct exe *e = ts->exe;
	uint64_t at, n;

	if (t->kind != GOTYPE_STRUCT)
		return -ENOENT;
	at = exe_ptr(e, t->addr + 56);
	n = exe_u64(e, t->addr + 64);
	if (n > FIELDS_MAX || n != exe_u64(e, t->addr + 72) ||
	    (n && !exe_has(e, at, n * FIELD_SIZE)))
		return -EBADMSG;
	if (idx >= n)
		return -ENOENT;
	at += idx * FIELD_SIZE;
	if (name_read(e, exe_ptr(e, at), out->name, sizeof(out->name)) >= sizeof(out->name))
		out->name[0] = 0;
	out->type = exe_ptr(e, at + 8);
	out->offset = exe_u64(e, at + 16);
	return out->offset <= t->size && inside(ts, out->type) ? 0 : -EBADMSG;
}

bool gotype_sound(const struct gotypes *ts, const struct gotype *t)
{
	struct gotype_field f;
	struct gotype last = { 0 };
	uint64_t end = 0;
	int err;

	for (size_t i = 0; (err = gotype_field(ts, t, i, &f)) == 0; i++) {
		/* Every field's own type would cost a read each: the order, and the last one's end,
		 * tell the same. */
		if (f.offset < end)
			return false;
		end = f.offset;
		last.addr = f.type;
	}
	if (err != -ENOENT || !last.addr)
		return err == -ENOENT;
	return gotype_read(ts, last.addr, &last) && end + last.size <= t->size &&
	       t->size - end - last.size <= 8;
}

/* ---- where the types are ---- */

static bool links_ok(const struct gotypes *ts, uint64_t at, uint64_t n, uint64_t cap)
{
	struct gotype t;

	if (!n || n != cap || n > 4u << 20 || (at & 3) || !exe_has(ts->exe, at, n * 4))
		return false;
	for (uint64_t i = 0; i < n; i += 1 + n / 32)
		if (!gotype_read(ts, ts->types + exe_u32(ts->exe, at + 4 * i), &t))
			return false;
	return true;
}

/* Old maps have a bucket at 64 whose first field is "topbits", swiss ones a group that begins with
 * "ctrl". */
static uint32_t map_size_of(const struct gotypes *ts, const struct gotype *t)
{
	struct gotype group;
	struct gotype_field f;

	if (!gotype_read(ts, exe_ptr(ts->exe, t->addr + 64), &group) ||
	    gotype_field(ts, &group, 0, &f) != 0)
		return 0;
	return strcmp(f.name, "ctrl") == 0 ? 112 : 88;
}

/* Walks a few hundred descriptors past the first map: with a wrong size of map descriptors the next
 * one is nonsense. */
static bool row_ok(struct gotypes *ts, uint32_t map_size)
{
	struct gotype t;
	size_t maps = 0, n = 0;

	ts->map_size = map_size;
	for (uint64_t at = ts->row; at < ts->row_end && maps < 16; n++) {
		uint64_t extent = gotype_read(ts, at, &t) ? gotype_extent(ts, &t) : 0;

		if (!extent)
			return false;
		maps += t.kind == GOTYPE_MAP;
		at += (extent + 7) & ~7ull;
		if (at > ts->row_end)
			return false;
	}
	return n > 0;
}

/* Go 1.27: types, typedesclen, etypes, itaboffset, itabsize, rodata. */
static bool try_row(struct gotypes *ts, const uint64_t *w)
{
	static const uint32_t sizes[] = { 136, 144, 128, 112 };
	uint64_t all = ts->etypes - ts->types;

	if (w[2] != ts->etypes || w[1] <= 8 || w[1] >= all || w[3] >= all || w[3] < w[1] ||
	    w[4] > all - w[3])
		return false;
	ts->row = ts->types + 8;
	ts->row_end = ts->types + w[1];
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (row_ok(ts, sizes[i]))
			return true;
	ts->row = ts->row_end = 0;
	ts->map_size = 0;
	return false;
}

/* Up to Go 1.26: types, etypes, rodata, gofunc, two or three slices, typelinks. */
static bool try_links(struct gotypes *ts, const uint64_t *w, size_t n)
{
	for (size_t i = 2; i + 3 <= n && i < 14; i++)
		if (links_ok(ts, w[i], w[i + 1], w[i + 2])) {
			ts->links = w[i];
			ts->nlinks = w[i + 1];
			return true;
		}
	return false;
}

int gotypes_find(struct gotypes *out, struct exe *e, const struct moduledata *m)
{
	/* types stands behind the bounds of text, data and bss (up to word 33), two more in newer
	 * versions: slide over it. */
	for (size_t k = 28; m->addr && k + 8 < MODULEDATA_WORDS; k++) {
		const uint64_t *w = &m->word[k];

		for (size_t end = 1; end <= 2; end++) {
			struct gotypes ts = { .exe = e, .types = w[0], .etypes = w[end] };

			if (!w[0] || (w[0] & 7) || w[end] <= w[0] + 48 ||
			    w[end] - w[0] > 1ull << 31 || !exe_has(e, w[0], w[end] - w[0]))
				continue;
			if (end == 2 ? try_row(&ts, w) : try_links(&ts, w, MODULEDATA_WORDS - k)) {
				ts.rodata = w[end == 2 ? 5 : 2];
				*out = ts;
				return 0;
			}
		}
	}
	return -ENOENT;
}
