/* Spans of the program's own SDK as parents. */
#include "parents_rig.h"

TestSuite(parents_sdk, .init = open_object, .fini = close_object);

static const struct type any = { .kind = 20 }, span_type = { .kind = 22 },
			 none_type = { .kind = 25 }, other_type = { .kind = 22 };
/* context.valueCtx as it is: {Context; key, val any}. */
static const struct type real_value = {
	.size = 48,
	.kind = 25,
	.fields = (const struct field[]){ { &embedded, &context_inter, 0 },
					  { &plain, &any, 16 },
					  { &plain, &any, 32 } },
	.nfields = 3,
};
static const struct type real_value_ptr = POINTER(real_value);
static const struct itab real_value_itab = { &context_inter, &real_value_ptr };

/* sdk/trace.recordingSpan: what is read of it. */
struct sdk_span {
	uint64_t kind;
	uint8_t trace_id[16], span_id[8];
	uint64_t flags;
};

struct value {
	struct iface up;
	const void *key_type, *key, *val_type;
	const void *val;
};

static struct iface with_span(struct value *v, struct iface up, const struct type *type,
			      const struct sdk_span *span)
{
	*v = (struct value){ .up = up, .val_type = type, .val = span };
	return (struct iface){ &real_value_itab, v };
}

static struct parents_call call_with_span(struct iface ctx, bool leave_it)
{
	struct parents_call c = call_of(PARENTS_PARENT, 0, 50);

	c.ev.flags = 0;
	c.itab = (uintptr_t)ctx.itab;
	c.data = (uintptr_t)ctx.data;
	c.slot.sdk = (struct go_sdk){ .span = (uintptr_t)&span_type,
				      .none = (uintptr_t)&none_type,
				      .span_at = offsetof(struct sdk_span, trace_id),
				      .none_at = offsetof(struct sdk_span, trace_id),
				      .kind_at = offsetof(struct sdk_span, kind),
				      .leave = leave_it };
	run(&c);
	return c;
}

static const struct sdk_span internal = { 1, { 9, 0, 1 }, { 99 }, 1 },
			     client = { 3, { 9 }, { 98 }, 1 };

Test(parents_sdk, a_span_of_the_sdks_that_is_nearer_than_the_operation_is_the_parent)
{
	struct ctx a, b;
	struct value v;
	struct iface own = with(&a, &cancel_itab, root);
	struct iface inner = with_span(&v, own, &span_type, &internal);
	struct parents_call got;

	lend(7, 50, own, LEND_SELF);
	got = call_with_span(with(&b, &timer_itab, inner), true);
	cr_assert_eq(got.ev.parent_id[0], 99);
	cr_assert(memcmp(got.ev.trace_id, internal.trace_id, 16) == 0);
	cr_assert_eq(got.ev.flags, EVENT_LOCAL | EVENT_SAMPLED);
	cr_assert_eq(got.ev.sdk, SDK_PARENT, "it is not one of this very call");
	/* Without an SDK in the process the same memory is a value like any other. */
	cr_assert_eq(parent(50, 0, inner), 7);
}

Test(parents_sdk, an_operation_that_is_nearer_than_the_span_is_the_parent)
{
	struct ctx a;
	struct value v;
	struct iface below = with_span(&v, root, &span_type, &internal);
	struct iface own = with(&a, &cancel_itab, below);

	lend(7, 50, own, LEND_SELF);
	cr_assert_eq(call_with_span(own, true).ev.parent_id[0], 7);
	cr_assert_eq(call_with_span(own, true).ev.sdk, 0);
}

Test(parents_sdk, values_of_other_types_are_stepped_over)
{
	struct value far, near;
	struct iface up = with_span(&far, root, &span_type, &internal);

	cr_assert_eq(
		call_with_span(with_span(&near, up, &other_type, &client), true).ev.parent_id[0],
		99);
}

Test(parents_sdk, a_call_below_a_clients_span_is_left_to_the_sdk_where_it_may_be)
{
	struct value v;
	struct iface ctx = with_span(&v, root, &span_type, &client);
	struct parents_call got = call_with_span(ctx, true);

	cr_assert_eq(got.ev.sdk, SDK_PARENT | SDK_LEFT);
	got.what = PARENTS_IDENTIFY;
	run(&got);
	cr_assert_eq(got.ev.span_id[0], 98, "it has the ids of that span");
	cr_assert_eq(call_with_span(ctx, false).ev.sdk, SDK_PARENT);
}

Test(parents_sdk, below_a_span_that_the_sdk_samples_out_nothing_is_sampled)
{
	static const struct sdk_span out = { 0, { 9 }, { 97 }, 0 };
	struct value v;
	struct parents_call got = call_with_span(with_span(&v, root, &none_type, &out), true);

	cr_assert_eq(got.ev.parent_id[0], 97);
	cr_assert_eq(got.ev.flags, EVENT_LOCAL);
	got.what = PARENTS_IDENTIFY;
	run(&got);
	cr_assert_not(got.ev.flags & EVENT_SAMPLED);
}

Test(parents_sdk, a_call_of_ours_below_the_span_is_nearer_than_the_span)
{
	struct value v;
	struct iface ctx = with_span(&v, root, &span_type, &internal);
	struct parents_call outer = call_with_span(ctx, true);

	outer.what = PARENTS_ENTER;
	outer.depth = 500;
	outer.ev.span_id[0] = 55;
	run(&outer);
	cr_assert_eq(call_with_span(ctx, true).ev.parent_id[0], 55);
	leave(&outer);
	cr_assert_eq(call_with_span(ctx, true).ev.parent_id[0], 99);
}
