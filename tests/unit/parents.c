/* Rule 1: from a context to its parent. */
#include "parents_rig.h"

TestSuite(parents, .init = open_object, .fini = close_object);

/* ---- rule 1 ---- */

Test(parents, a_context_leads_to_the_operation_that_lends_it_from_any_goroutine)
{
	struct ctx a, b, c;
	struct iface own = with(&a, &cancel_itab, root), up = with(&b, &timer_itab, own);
	struct parents_call got;

	lend(7, 1, own, LEND_SELF);
	cr_expect_eq(parent(50, 0, own), 7);
	cr_expect_eq(parent(50, 0, up), 7);
	cr_expect_eq(parent(50, 0, with(&c, &without_itab, up)), 7, "a struct in the interface");
	got = begin(50, 0, 0, up);
	cr_expect_eq(got.ev.trace_id[0], 7);
	cr_expect_eq(got.ev.trace_id[15], 7);
	cr_expect(got.ev.flags & SAMPLED);
	cr_expect_not(got.ev.flags & EVENT_STARTED);
	cr_expect_eq(parent(50, 0, root), 0);
	cr_expect_eq(parent(50, 0, (struct iface){ 0 }), 0);
}

Test(parents, an_operation_that_has_ended_lends_no_more_and_leaves_nothing)
{
	struct ctx a;
	struct iface own = with(&a, &cancel_itab, root);

	lend(7, 1, own, LEND_SELF);
	cr_expect_not(unlend(1, 0));
	cr_expect_eq(parent(50, 0, own), 0);
	cr_expect_eq(parent(1, 0, root), 0);
	cr_expect_eq(entries("live"), 0);
	cr_expect_eq(entries("contexts"), 0);
}

Test(parents, twenty_and_sixty_levels_of_values_are_walked_a_hundred_are_not)
{
	static struct ctx levels[100];
	struct ctx a;
	struct iface at = with(&a, &cancel_itab, root);

	lend(7, 1, at, LEND_SELF);
	for (int i = 0; i < 100; i++) {
		at = with(&levels[i], &value_itab, at);
		if (i == 20 || i == 60)
			cr_expect_eq(parent(50, 0, at), 7, "level %d", i);
	}
	cr_expect_eq(counted(COUNTER_reads_contexts), 0);
	cr_expect_eq(parent(50, 0, at), 0);
	cr_expect_eq(counted(COUNTER_reads_contexts), 1);
}

Test(parents, a_context_that_is_its_own_ancestor_ends_in_no_parent)
{
	struct ctx a, b;
	struct iface x = with(&a, &value_itab, root), y = with(&b, &value_itab, x);

	a.at[0] = x;
	cr_expect_eq(parent(50, 0, x), 0);
	a.at[0] = y;
	cr_expect_eq(parent(50, 0, x), 0);
	cr_expect_eq(counted(COUNTER_reads_contexts), 2);
}

Test(parents, memory_that_is_not_what_it_should_be_ends_the_walk)
{
	struct ctx a, b;
	struct iface own = with(&a, &cancel_itab, root), at = with(&b, &value_itab, own);
	const struct type other_ctx = STRUCT({ &embedded, &other_inter, 0 });
	const struct itab other = { &other_inter, &other_ctx };
	const struct itab nowhere = { &context_inter, (void *)8 };

	lend(7, 1, own, LEND_SELF);
	cr_expect_eq(parent(50, 0, at), 7);
	b.at[0] = (struct iface){ (void *)0x10, own.data };
	cr_expect_eq(parent(50, 0, at), 7, "the pointer is what counts");
	b.at[0] = (struct iface){ &value_itab, (void *)0x10 };
	cr_expect_eq(parent(50, 0, at), 0);
	b.at[0] = (struct iface){ &nowhere, &b };
	cr_expect_eq(parent(50, 0, at), 0);
	b.at[0] = (struct iface){ NULL, NULL };
	cr_expect_eq(parent(50, 0, at), 0);
	cr_expect_eq(parent(50, 0, (struct iface){ (void *)0x123456789abcdef0, own.data }), 7);
	cr_expect_eq(parent(50, 0, (struct iface){ (void *)~0ULL, (void *)~0ULL }), 0);
	/* An itab of another interface than the one that the walk began with. */
	struct ctx c;
	struct iface foreign = with(&c, &other, own);

	b.at[0] = foreign;
	cr_expect_eq(parent(50, 0, at), 0);
	/* Also when it is known from a walk that began with it. */
	cr_expect_eq(parent(50, 0, foreign), 7);
	cr_expect_eq(parent(50, 0, at), 0);
}

/* What a type of that shape gives, whose context is the n-th iface in it. */
static uint8_t walked(const struct type *shape, size_t n, bool pointer)
{
	/* Static: what has been learnt of an itab is not forgotten. */
	static struct type pointers[32];
	static struct itab itabs[32];
	static size_t used;
	struct ctx a, b = { 0 };
	struct iface own = with(&a, &cancel_itab, root);

	cr_assert_lt(used, 32);
	pointers[used] = (struct type)POINTER(*shape);
	itabs[used] = (struct itab){ &context_inter, pointer ? &pointers[used] : shape };
	lend(7, 1, own, LEND_SELF);
	b.at[n] = own;
	return parent(50, 0, (struct iface){ &itabs[used++], &b });
}

Test(parents, custom_contexts_embed_or_wrap_at_any_offset)
{
	const struct type mutex = STRUCT({ &plain, &word, 0 }), other = { .kind = 20 };
	const struct type second = STRUCT({ &plain, &word, 0 }, { &embedded, &context_inter, 16 });
	const struct type behind_mutex =
		STRUCT({ &embedded, &mutex, 0 }, { &embedded, &context_inter, 32 });
	const struct type nested = STRUCT({ &plain, &word, 0 }, { &embedded, &timer_ctx, 48 });
	const struct type named = STRUCT({ &plain, &word, 0 }, { &plain, &context_inter, 64 });
	const struct type both =
		STRUCT({ &plain, &context_inter, 0 }, { &embedded, &context_inter, 16 });
	const struct type named_beside =
		STRUCT({ &embedded, &mutex, 0 }, { &plain, &context_inter, 16 });
	const struct type embeds_deeper =
		STRUCT({ &plain, &context_inter, 0 }, { &embedded, &value_ctx, 16 });
	const struct type deeper_behind_other =
		STRUCT({ &embedded, &other, 0 }, { &embedded, &context_inter, 16 });

	cr_expect_eq(walked(&second, 1, true), 7);
	cr_expect_eq(walked(&second, 1, false), 7);
	cr_expect_eq(walked(&behind_mutex, 2, true), 7);
	cr_expect_eq(walked(&nested, 3, true), 7);
	cr_expect_eq(walked(&named, 4, true), 7);
	cr_expect_eq(walked(&named, 4, false), 7);
	cr_expect_eq(walked(&both, 1, true), 7, "what it embeds is what it is");
	cr_expect_eq(walked(&both, 0, true), 0);
	cr_expect_eq(walked(&named_beside, 1, true), 7);
	cr_expect_eq(walked(&embeds_deeper, 1, true), 7);
	cr_expect_eq(walked(&embeds_deeper, 0, true), 0);
	cr_expect_eq(walked(&deeper_behind_other, 1, true), 7);
}

Test(parents, a_custom_context_that_could_have_two_parents_has_none)
{
	const struct type other = { .kind = 20 }, pointer = POINTER(value_ctx);
	const struct type two =
		STRUCT({ &plain, &context_inter, 0 }, { &plain, &context_inter, 16 });
	const struct type two_embedded =
		STRUCT({ &embedded, &context_inter, 0 }, { &embedded, &context_inter, 16 });
	const struct type two_nested =
		STRUCT({ &embedded, &value_ctx, 0 }, { &embedded, &timer_ctx, 32 });
	const struct type hidden_pointer =
		STRUCT({ &embedded, &pointer, 0 }, { &plain, &context_inter, 16 });
	const struct type hidden_inter =
		STRUCT({ &embedded, &other, 0 }, { &plain, &context_inter, 16 });
	const struct type hidden_nested =
		STRUCT({ &embedded, &pointer, 0 }, { &embedded, &value_ctx, 16 });
	const struct type many =
		STRUCT({ &embedded, &word, 0 }, { &embedded, &word, 0 }, { &embedded, &word, 0 },
		       { &embedded, &word, 0 }, { &embedded, &value_ctx, 16 });
	const struct type none = STRUCT({ &plain, &word, 0 });

	cr_expect_eq(walked(&two, 0, true), 0);
	cr_expect_eq(walked(&two, 1, true), 0);
	cr_expect_eq(walked(&two_embedded, 0, true), 0);
	cr_expect_eq(walked(&two_nested, 0, true), 0);
	cr_expect_eq(walked(&hidden_pointer, 1, true), 0);
	cr_expect_eq(walked(&hidden_inter, 1, true), 0);
	cr_expect_eq(walked(&hidden_nested, 1, true), 0);
	cr_expect_eq(walked(&many, 1, true), 0);
	cr_expect_eq(walked(&none, 0, true), 0);
}

Test(parents, a_type_with_more_fields_than_are_looked_at_ends_the_walk)
{
	static struct field fields[100];
	struct type huge = { .kind = 25, .fields = fields, .nfields = 100 };
	struct type lying = { .kind = 25, .fields = fields, .nfields = UINT64_MAX };
	struct type nowhere = { .kind = 25, .fields = (void *)8, .nfields = 1 };
	/* A struct that embeds itself, as no compiler makes it. */
	struct field self_field = { &embedded, NULL, 0 };
	struct type self = { .kind = 25, .fields = &self_field, .nfields = 1 };

	for (int i = 0; i < 100; i++)
		fields[i] = (struct field){ &plain, &word, 8 };
	fields[0].type = &context_inter;
	fields[0].at = 0;
	self_field.type = &self;
	cr_expect_eq(walked(&huge, 0, true), 0);
	cr_expect_eq(walked(&lying, 0, true), 0);
	cr_expect_eq(walked(&nowhere, 0, true), 0);
	cr_expect_eq(walked(&self, 0, true), 0);
	fields[0].at = 1 << 20;
	huge.nfields = 2;
	cr_expect_eq(walked(&huge, 0, true), 0, "an offset that no context has");
}

/* ---- connections of HTTP/1 ---- */

Test(parents, a_connection_is_registered_once_and_each_request_is_told_apart)
{
	struct ctx c, r1, r2, d1, d2;
	struct iface conn = with(&c, &cancel_itab, root), one = with(&r1, &cancel_itab, conn),
		     two = with(&r2, &cancel_itab, conn), made_of_one = with(&d1, &value_itab, one),
		     made_of_two = with(&d2, &value_itab, two);

	lend(11, 1, one, LEND_CONN);
	cr_expect_eq(parent(50, 0, one), 11);
	cr_expect_eq(parent(50, 0, made_of_one), 11);
	cr_expect_not(unlend(1, 1));
	cr_expect_eq(parent(50, 0, made_of_one), 0, "between two requests");
	lend(12, 1, two, LEND_CONN);
	cr_expect_eq(parent(50, 0, made_of_two), 12);
	cr_expect_eq(parent(50, 0, made_of_one), 0, "a context of the request before");
	cr_expect_eq(parent(50, 0, conn), 0, "the connection's own is nobody's");
	cr_expect_eq(parent(51, 1, made_of_one), 0, "known to be over: no inference either");
	cr_expect_eq(parent(1, 0, made_of_one), 12, "but the goroutine serves another one");
	cr_expect_eq(entries("contexts"), 1);
	cr_expect_eq(entries("live"), 1);
	(void)unlend(1, 1);
	(void)unlend(1, 0);
	cr_expect_eq(entries("contexts"), 0);
	cr_expect_eq(entries("live"), 0);
}

Test(parents, what_an_unseen_end_left_behind_is_nobodys_parent)
{
	struct ctx a, b;
	struct iface old = with(&a, &cancel_itab, root), fresh = with(&b, &cancel_itab, root);

	lend(11, 1, old, LEND_SELF);
	lend(12, 1, fresh, LEND_SELF);
	cr_expect_eq(parent(50, 0, old), 0);
	cr_expect_eq(parent(50, 0, fresh), 12);
}
