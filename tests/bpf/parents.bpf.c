// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* parents.bpf.c - calls the functions of parent.bpf.h as tests/unit/parents.c says. */
#include "tests/bpf/parents.h"
#include "parent.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct parents_call);
} calls SEC(".maps");

_Static_assert(sizeof(struct live_op) == sizeof(struct parents_op), "the test looks into it");

static __always_inline long call(struct parents_call *c, const struct go_g *g)
{
	struct entered *entered = (struct entered *)&c->entered;
	struct go_random random;

	switch (c->what) {
	case PARENTS_LEND:
		return go_lend(&c->ev, &c->slot, c->data, c->how);
	case PARENTS_UNLEND:
		return go_unlend(&c->ev, &c->slot, c->how);
	case PARENTS_ENTER:
		return go_enter(&c->ev, g, entered);
	case PARENTS_LEAVE:
		return go_leave(&c->ev, g, entered);
	case PARENTS_PARENT:
		return go_parent(&c->ev, &c->slot, g, c->itab, c->data);
	case PARENTS_COVER:
		return go_cover(&c->ev, c->itab, c->data);
	case PARENTS_IDENTIFY:
		random_seed(&random);
		go_identify(&c->ev, &c->slot, &random);
		return 0;
	default:
		return -1;
	}
}

SEC("raw_tp")
int parents(void *ctx)
{
	__u32 zero = 0;
	struct parents_call *c = bpf_map_lookup_elem(&calls, &zero);
	struct go_g g;

	if (!c)
		return 0;
	g.goid = c->goid;
	g.parent = c->parent;
	g.depth = c->depth;
	c->result = call(c, &g);
	return 0;
}
