/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 * ctx_type.bpf.h - where an implementation of context.Context holds the context it was made from,
 * found in the program's own type metadata the first time an itab is seen.
 *
 * Right, or unknown: the context.Context that it embeds is its parent, for its methods are that
 * one's (in the struct itself, else in a struct that it embeds, as Go promotes them); else the only
 * field of that type that it has. Two of the same rank, none, or something embedded that hides what
 * it has (a pointer, another interface): unknown, the walk ends there.
 *
 * Sources: internal/abi/type.go (Type, StructType, StructField, Name), internal/abi/iface.go. */
#pragma once
#include "go.h"
#include "live.h"

#define ITAB_INTER 0 /* *interfacetype, *Type */

#define TYPE_KIND     23 /* lower five bits */
#define TYPE_ELEM     48 /* of a pointer */
#define TYPE_FIELDS   56 /* of a struct: {ptr, len} */
#define KIND_POINTER  22
#define KIND_STRUCT   25
#define NAME_EMBEDDED 0x08

#define TYPE_VALUE_SIZE 48 /* of context.valueCtx */

#define TYPE_NESTED 4  /* embedded structs that are looked into */
#define TYPE_STEPS  64 /* fields that are looked at, in all of them */
#define TYPE_AT_MAX 4096

struct go_struct_field {
	__u64 name, type, at;
};

struct type_walk {
	__u64 inter;
	__u64 fields, n, base; /* of the struct that is being looked at: fields left, its offset */
	__u64 nested[TYPE_NESTED]; /* embedded structs, looked into later */
	__u32 nested_at[TYPE_NESTED];
	__u32 head, tail;            /* of these; head 0: the outermost struct is looked at */
	__u32 embedded, embedded_at; /* how many contexts, 1 + offset of the last */
	__u32 named, named_at;       /* the same of those that are not embedded, outermost only */
	__u32 hidden; /* something embedded is not a struct: it may have a context's methods */
	__u32 unread; /* something of it is on a page that the program has not touched yet */
};

/* The fields of the struct type t. 0 or -1. */
static __always_inline int type_open(struct type_walk *w, __u64 t, __u64 base)
{
	struct go_str fields;
	__u8 kind;

	if (go_read(&kind, 1, t + TYPE_KIND) || go_read(&fields, sizeof(fields), t + TYPE_FIELDS)) {
		w->unread = 1;
		return -1;
	}
	if ((kind & 31) != KIND_STRUCT)
		return -1;
	w->fields = fields.ptr;
	w->n = fields.len;
	w->base = base;
	return 0;
}

static long type_step(__u32 i, struct type_walk *w)
{
	struct go_struct_field f;
	__u8 flags;
	__u32 at;

	if (!w->n) {
		at = w->head;
		if ((!at && w->embedded) || at >= w->tail || at >= TYPE_NESTED)
			return 1;
		w->head = at + 1;
		if (type_open(w, w->nested[at & (TYPE_NESTED - 1)],
			      w->nested_at[at & (TYPE_NESTED - 1)]))
			w->hidden = 1;
		return 0;
	}
	if (go_read(&f, sizeof(f), w->fields) || go_read(&flags, 1, f.name)) {
		w->unread = 1;
		return 1;
	}
	w->fields += sizeof(f);
	w->n--;
	f.at += w->base;
	if (f.type == w->inter && f.at < TYPE_AT_MAX) {
		if (flags & NAME_EMBEDDED) {
			w->embedded++;
			w->embedded_at = 1 + f.at;
		} else if (!w->head) {
			w->named++;
			w->named_at = 1 + f.at;
		}
	} else if (flags & NAME_EMBEDDED) {
		at = w->tail;
		if (at < TYPE_NESTED) {
			w->nested[at & (TYPE_NESTED - 1)] = f.type;
			w->nested_at[at & (TYPE_NESTED - 1)] = f.at;
			w->tail = at + 1;
		} else {
			w->hidden = 1;
		}
	}
	return 0;
}

/* Where the parent is in what the walk has seen: 1 + offset, 0: unknown. */
static __always_inline __u32 type_parent(const struct type_walk *w)
{
	if (w->embedded)
		return w->embedded == 1 && !(w->head && w->hidden) ? w->embedded_at : 0;
	return w->named == 1 && !w->hidden ? w->named_at : 0;
}

/* Puts into ctx_types what the itab k->id is. inter: of the itab by which the walk began, 0: this
 * is it. 0, or not 0: it is no itab of a context, it cannot be read, or there is no room. */
GO_APART int ctx_type_learn(const struct op_key *k, __u64 inter)
{
	struct type_walk w = {};
	struct ctx_type found = {};
	__u64 itab[2], type, fields = 0;

	if (!k || go_read(itab, sizeof(itab), k->id + ITAB_INTER))
		return -1;
	if (inter && itab[0] != inter)
		return -1;
	w.inter = found.inter = itab[0];
	type = itab[1];
	/* From here on itab is room to read into: the stack is short. */
	if (go_read(itab, 1, type + TYPE_KIND))
		return -1;
	if ((*(const __u8 *)itab & 31) == KIND_POINTER && go_read(&type, 8, type + TYPE_ELEM))
		return -1;
	if (go_read(itab, 8, type))
		return -1;
	if (!type_open(&w, type, 0)) {
		fields = w.n;
		if (bpf_loop(TYPE_STEPS, type_step, &w, 0) < TYPE_STEPS)
			found.step = type_parent(&w);
	}
	if (w.unread) /* next time, perhaps */
		return -1;
	found.value = found.step == 1 && fields == 3 && itab[0] == TYPE_VALUE_SIZE;
	return bpf_map_update_elem(&ctx_types, k, &found, BPF_ANY);
}
