/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * go_header.bpf.h - one walk over a Go map[string][]string (http.Header) for the few keys that a
 * probe wants: the maps of Go <= 1.23 (buckets with overflow chains, and a second array while one
 * grows) and the swiss maps since (one group, or a directory of tables of groups). How a group is
 * laid out comes from the binary's own map type.
 *
 * Sources: runtime/map.go (hmap, bmap), internal/runtime/maps/{map,table,group}.go. */
#pragma once
#include "go.h"
#include "go_b3.bpf.h"

#define HEADER_OLD_GROUP 336 /* bucket: 8 tophash, 8 keys, 8 elems, overflow pointer */
/* Steps of a walk over more than one group: groups, and entries of a directory. Enough for 3,500
 * headers, mostly for 7,000. */
#define HEADER_STEPS     1200

/* What is looked for, and what was found: the slice {ptr, len} of the key's values; ptr 0: not
 * there. */
struct header_found {
	struct go_str agent, parent, state; /* User-Agent, Traceparent, Tracestate */
	struct go_str authority;            /* :authority, of gRPC's metadata */
	/* In and out: where these keys lie as literals, 0: not known yet. */
	__u64 agent_key, authority_key;
	__u64 interned; /* not 0: net/http's keys; once User-Agent's is known, no other literal is
			   of interest */
	__u64 h2_settings; /* 1: look for Http2-Settings as well, 2: it is there */
	__u64 ro_lo, ro_hi;
	__u64 unread;    /* not 0: a key that may be one of them could not be read */
	__u64 b3_wanted; /* not 0: the B3 headers as well; what follows counts only then */
	struct b3_values b3;
};

struct header_walk {
	struct header_found *found;
	const struct go_slot *slot;
	struct go_buf *buf; /* to read groups into */
	/* where the walk is */
	__u64 base, index, count, next; /* array of groups; next: old maps' overflow bucket */
	__u64 dir, tables, table, last; /* swiss maps; old maps: dir, tables are the array that the
					   map grows out of */
	__u64 failed;
};

/* Keys without regard to case: http.Header has them in canonical form, gRPC's metadata in lower
 * case. Capital letters stand in the first 8 bytes only. */
#define KEY_LOWER    0x2020202020202020ULL
#define KEY_USER_AGE 0x6567612d72657375ULL /* "user-age" */
#define KEY_TRACEPAR 0x7261706563617274ULL /* "tracepar" */
#define KEY_TRACESTA 0x6174736563617274ULL /* "tracesta" */
#define KEY_HTTP2_SE 0x65732d3270747468ULL /* "http2-se", "tti" of "ttings" */
#define KEY_AUTHORI  0x69726f687475613aULL /* ":authori" */
#define KEY_TY       0x7974
#define KEY_NT       0x746e
#define KEY_ENT      0x746e65
#define KEY_TE       0x6574
#define KEY_TTI      0x697474
#define KEY_B3       (0x3362 | (KEY_LOWER & ~0xffffULL))
#define KEY_X_B3_TRA 0x6172742d33622d78ULL /* "x-b3-tra" */
#define KEY_X_B3_SPA 0x6170732d33622d78ULL /* "x-b3-spa" */
#define KEY_X_B3_SAM 0x6d61732d33622d78ULL /* "x-b3-sam" */
#define KEY_X_B3_FLA 0x616c662d33622d78ULL /* "x-b3-fla" */
#define KEY_CEID     0x64696563
#define KEY_NID      0x64696e
#define KEY_PLED     0x64656c70
#define KEY_GS       0x7367

/* What is to be looked for in the headers of a process's requests. */
static __always_inline void header_want(struct header_found *f, const struct go_slot *s,
					__u64 agent_key)
{
	struct go_str none = {};

	f->agent = f->parent = f->state = f->authority = none;
	f->agent_key = agent_key;
	f->authority_key = 0;
	f->interned = 1;
	f->h2_settings = f->unread = 0;
	f->ro_lo = s->ro_lo;
	f->ro_hi = s->ro_hi;
	f->b3_wanted = s->inbound & INBOUND_B3;
	if (unlikely(f->b3_wanted))
		f->b3 = (struct b3_values){};
}

/* The same for headers that the program itself has set: their keys are literals, all of them of
 * interest. */
static __always_inline void header_want_own(struct header_found *f, const struct go_slot *s)
{
	header_want(f, s, 0);
	f->b3_wanted = 0;
	f->ro_lo = f->ro_hi = 0;
}

/* k: the first bytes of a key. */
GO_APART int header_b3(struct header_found *f, __u64 k0, __u64 k1, __u64 vals, __u64 nvals)
{
	struct go_str found = { vals, nvals };

	if (!f)
		return 0;
	if (k0 == KEY_B3)
		f->b3.single = found;
	else if (k0 == KEY_X_B3_TRA && k1 == KEY_CEID)
		f->b3.trace = found;
	else if (k0 == KEY_X_B3_SPA && k1 == KEY_NID)
		f->b3.span = found;
	else if (k0 == KEY_X_B3_SAM && k1 == KEY_PLED)
		f->b3.sampled = found;
	else if (k0 == KEY_X_B3_FLA && k1 == KEY_GS)
		f->b3.flags = found;
	return 0;
}

/* One full slot: its key and its []string. Not static, so that the verifier looks at it once and
 * not at each way to get here. */
GO_APART int header_slot(struct header_found *f, __u64 key, __u64 key_len, __u64 vals, __u64 nvals)
{
	struct go_str found = { vals, nvals };
	__u64 k[2] = {};

	if (!f)
		return 0;
	if (key == f->agent_key && key_len == 10) {
		f->agent = found;
		return 0;
	}
	if (key == f->authority_key && key_len == 10) {
		f->authority = found;
		return 0;
	}
	if (key_len - 10 > 1 && likely(!(key_len == 14 && f->h2_settings) &&
				       !(f->b3_wanted && (key_len == 2 || key_len == 12))))
		return 0;
	if (f->interned && f->agent_key && key - f->ro_lo < f->ro_hi - f->ro_lo)
		return 0;
	if (go_read(k, key_len == 14 ? 11 : cap(key_len, 12), key)) {
		f->unread = 1;
		return 0;
	}
	k[0] |= KEY_LOWER;
	if (k[0] == KEY_USER_AGE && k[1] == KEY_NT) {
		f->agent = found;
		if (key - f->ro_lo < f->ro_hi - f->ro_lo) /* else its memory may become another's */
			f->agent_key = key;
	} else if (k[0] == KEY_TRACEPAR && (k[1] | (KEY_LOWER & 0xffffff)) == KEY_ENT &&
		   key_len == 11) {
		f->parent = found;
	} else if (k[0] == KEY_TRACESTA && k[1] == KEY_TE) {
		f->state = found;
	} else if (k[0] == KEY_HTTP2_SE && k[1] == KEY_TTI && key_len == 14) {
		f->h2_settings = 2;
	} else if (k[0] == KEY_AUTHORI && k[1] == KEY_TY) {
		f->authority = found;
		if (key - f->ro_lo < f->ro_hi - f->ro_lo)
			f->authority_key = key;
	} else if (f->b3_wanted) {
		header_b3(f, k[0], k[1], vals, nvals);
	}
	return 0;
}

/* Reads the group (or old bucket) at `at` into buf and looks at its eight slots. The layout is
 * loaded anew for each slot, so that what the verifier learns about one does not multiply its work
 * for the next. */
static __always_inline int header_group(struct header_walk *w, __u64 at, int old)
{
	const volatile struct go_slot *s = w->slot;
	struct go_buf *buf = w->buf;
	struct go_str k, v;

	if (go_read_struct(buf, old ? HEADER_OLD_GROUP : s->map_group, at))
		return -1;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < 8; i++) {
		__u8 ctrl = buf->bytes[i];
		__u32 key = old ? 8 + 16 * i : s->map_key + i * s->map_key_stride;
		__u32 elem = old ? 8 + 8 * 16 + 24 * i : s->map_elem + i * s->map_elem_stride;

		if (old ? ctrl < 5 : ctrl & 0x80) /* empty, deleted or moved */
			continue;
		k = go_str(buf, key);
		v = go_str(buf, elem);
		header_slot(w->found, k.ptr, k.len, v.ptr, v.len);
	}
	return 0;
}

/* Goes on to the next table of the directory; neighbours may be the same table. 1: there is none.
 */
static __always_inline long header_table(struct header_walk *w)
{
	__u64 t[2];

	if (w->table >= w->tables)
		return 1;
	if (go_read(t, 8, w->dir + 8 * w->table++))
		return w->failed = 1;
	if (t[0] == w->last)
		return 0;
	w->last = t[0];
	if (go_read(t, 16, t[0] + 16)) /* groups: data, lengthMask */
		return w->failed = 1;
	w->base = t[0];
	w->index = 0;
	w->count = t[1] + 1;
	return 0;
}

static long header_step_swiss(__u32 i, struct header_walk *w)
{
	if (w->index >= w->count)
		return header_table(w);
	if (header_group(w, w->base + w->index++ * w->slot->map_group, 0))
		return w->failed = 1;
	return 0;
}

static long header_step_old(__u32 i, struct header_walk *w)
{
	__u64 at = w->next;

	if (!at) {
		if (w->index >= w->count) {
			if (!w->tables)
				return 1;
			w->base = w->dir;
			w->count = w->tables;
			w->tables = w->index = 0;
		}
		at = w->base + w->index++ * HEADER_OLD_GROUP;
	}
	if (header_group(w, at, 1))
		return w->failed = 1;
	w->next = *(const __u64 *)(w->buf->bytes + HEADER_OLD_GROUP - 8);
	return 0;
}

/* hmap: count 0, flags 8, B 9, buckets 16, oldbuckets 24. */
static __noinline int header_walk_old(struct header_walk *w, __u64 map)
{
	__u64 m[4];
	__u8 flags, log2;

	if (!w || go_read(m, sizeof(m), map))
		return -1;
	if (!m[0])
		return 0;
	flags = m[1];
	log2 = m[1] >> 8;
	if (log2 > 16)
		return -1;
	w->base = m[2];
	w->count = 1ULL << log2;
	w->dir = m[3];
	if (m[3]) /* growing, to twice its size or (flag 8) into the same */
		w->tables = flags & 8 || !log2 ? w->count : w->count / 2;
	if (bpf_loop(HEADER_STEPS, header_step_old, w, 0) == HEADER_STEPS)
		return -1;
	return w->failed ? -1 : 0;
}

/* Map: used 0, seed 8, dirPtr 16, dirLen 24. table: groups 16. */
static __noinline int header_walk_swiss(struct header_walk *w, __u64 map)
{
	__u64 m[4];

	if (!w || go_read(m, sizeof(m), map))
		return -1;
	if (!m[0])
		return 0;
	if (!m[3])
		return header_group(w, m[2], 0);
	w->dir = m[2];
	w->tables = m[3];
	if (bpf_loop(HEADER_STEPS, header_step_swiss, w, 0) == HEADER_STEPS)
		return -1;
	return w->failed ? -1 : 0;
}

/* Walks the header map at `map` (0: nil). 0, or -1 when it could not be read to its end; what was
 * found until then is right, for a key is in a map only once. */
static __always_inline int header_find(struct header_walk *w, __u64 map)
{
	if (!map)
		return 0;
	if (w->slot->map_kind == GO_MAP_SWISS)
		return header_walk_swiss(w, map);
	if (w->slot->map_kind == GO_MAP_OLD)
		return header_walk_old(w, map);
	return -1;
}
