/* Rules 2 and 3, sampling, bounds. */
#include "parents_rig.h"

TestSuite(parents_rules, .init = open_object, .fini = close_object);

/* ---- rule 2 ---- */

Test(parents_rules, without_a_context_the_same_goroutines_operation_is_the_parent)
{
	struct ctx a, b, hidden;
	struct iface own = with(&a, &cancel_itab, root);

	lend(7, 1, own, LEND_SELF);
	cr_expect_eq(parent(1, 0, root), 7);
	cr_expect_eq(parent(1, 0, (struct iface){ 0 }), 7);
	cr_expect_eq(parent(2, 0, root), 0);
	lend(8, 2, with(&b, &cancel_itab, root), LEND_SELF);
	cr_expect_eq(parent(2, 0, own), 7, "the context comes first");
	cr_expect_eq(parent(2, 0, with(&hidden, &value_itab, root)), 8);
}

Test(parents_rules, the_innermost_call_of_the_goroutine_is_nearer_than_what_it_serves)
{
	struct parents_call outer, inner;
	struct ctx a, b;
	struct iface own = with(&a, &cancel_itab, root);

	lend(7, 1, own, LEND_SELF);
	outer = enter(21, 1, 1000, 7);
	cr_expect_eq(parent(1, 0, own), 21);
	cr_expect_eq(parent(1, 0, root), 21);
	inner = enter(22, 1, 1500, 7);
	cr_expect_eq(parent(1, 0, own), 22);
	leave(&inner);
	cr_expect_eq(parent(1, 0, own), 21);
	/* Another trace's context is stronger than where the goroutine is. */
	lend(9, 5, with(&b, &cancel_itab, root), LEND_SELF);
	cr_expect_eq(parent(1, 0, (struct iface){ &cancel_itab, &b }), 9);
	leave(&outer);
	cr_expect_eq(parent(1, 0, own), 7);
	cr_expect_eq(parent(1, 0, root), 7);
}

Test(parents_rules, a_call_whose_frame_is_gone_is_nobodys_parent)
{
	struct parents_call first, second;

	first = enter(21, 1, 1000, 21);
	second = enter(22, 1, 1500, 21);
	cr_expect_eq(begin(1, 0, 2000, root).ev.parent_id[0], 22);
	cr_expect_eq(begin(1, 0, 1500, root).ev.parent_id[0], 0, "not within the second");
	leave(&first);
	cr_expect_eq(begin(1, 0, 2000, root).ev.parent_id[0], 0, "it took the second with it");
	leave(&second);
	cr_expect_eq(begin(1, 0, 2000, root).ev.parent_id[0], 0);
	cr_expect_eq(entries("live"), 0);
}

Test(parents_rules, a_call_of_a_goroutine_that_serves_nothing_leaves_nothing)
{
	struct parents_call a = enter(21, 1, 1000, 21);

	cr_expect_eq(parent(1, 0, root), 21);
	leave(&a);
	cr_expect_eq(entries("live"), 0);
	cr_expect_eq(parent(1, 0, root), 0);
}

Test(parents_rules, a_request_begins_without_what_a_panic_left)
{
	struct ctx a;
	struct iface own = with(&a, &cancel_itab, root);

	lend(7, 1, own, LEND_CONN);
	(void)enter(21, 1, 1000, 7);
	(void)unlend(1, 1);
	lend(8, 1, own, LEND_CONN);
	cr_expect_eq(parent(1, 0, root), 8);
}

/* ---- rule 3 ---- */

Test(parents_rules, a_goroutine_started_by_a_handler_is_taken_to_call_for_it)
{
	struct parents_call got;
	struct ctx a;

	lend(7, 1, with(&a, &cancel_itab, root), LEND_SELF);
	got = begin(50, 1, 100, root);
	cr_expect_eq(got.ev.parent_id[0], 7);
	cr_expect(got.ev.flags & EVENT_STARTED);
	cr_expect(got.ev.flags & EVENT_LOCAL);
	cr_expect_eq(parent(51, 50, root), 0, "only the one that started it");
	(void)unlend(1, 0);
	cr_expect_eq(parent(50, 1, root), 0, "over");
}

Test(parents_rules, a_worker_goes_on_for_its_first_request_or_for_none)
{
	struct ctx conn, a;
	struct iface own = with(&a, &cancel_itab, with(&conn, &cancel_itab, root));

	lend(7, 1, own, LEND_CONN);
	cr_expect_eq(parent(50, 1, root), 7);
	(void)unlend(1, 1);
	cr_expect_eq(parent(51, 1, root), 0, "first seen between two requests");
	lend(8, 1, own, LEND_CONN);
	cr_expect_eq(parent(50, 1, root), 0, "not the next request of the connection");
	cr_expect_eq(parent(51, 1, root), 0);
	cr_expect_eq(parent(52, 1, root), 8);
}

Test(parents_rules, what_the_handler_calls_is_not_the_parent_of_what_it_started)
{
	struct ctx a;

	lend(7, 1, with(&a, &cancel_itab, root), LEND_SELF);
	(void)enter(21, 1, 1000, 7);
	cr_expect_eq(parent(50, 1, root), 7);
}

Test(parents_rules, the_inference_is_an_option)
{
	struct parents_call c = call_of(PARENTS_PARENT, 0, 50);
	struct ctx a;

	lend(7, 1, with(&a, &cancel_itab, root), LEND_SELF);
	c.parent = 1;
	c.slot.options = 0;
	run(&c);
	cr_expect_eq(c.ev.parent_id[0], 0);
	cr_expect_eq(entries("started"), 0);
}

Test(parents_rules, where_nobody_asks_nothing_is_lent)
{
	struct parents_call c = call_of(PARENTS_LEND, 7, 1);
	struct ctx a;

	c.slot.options &= ~GO_OPTION_LEND;
	c.data = (uintptr_t)with(&a, &cancel_itab, root).data;
	c.how = LEND_SELF;
	run(&c);
	cr_expect_eq(entries("live") + entries("contexts"), 0);
	c.slot.options |= GO_OPTION_LEND;
	run(&c);
	cr_expect_eq(entries("live") + entries("contexts"), 2);
}

/* ---- ids and sampling ---- */

static struct parents_call child_of(uint8_t flags, uint8_t inbound, uint64_t below)
{
	struct parents_call c = call_of(PARENTS_LEND, 7, 1), got;

	c.ev.flags = flags;
	run(&c);
	got = begin(1, 0, 100, root);
	got.what = PARENTS_IDENTIFY;
	got.slot.sample_inbound = inbound;
	got.slot.sample_below = below;
	run(&got);
	return got;
}

Test(parents_rules, a_child_has_its_parents_trace_and_by_a_parent_based_sampler_its_decision)
{
	struct parents_call got = child_of(SAMPLED, SAMPLE_LIKE_PARENT, 0);

	cr_expect_eq(got.ev.trace_id[0], 7);
	cr_expect_eq(got.ev.trace_id[15], 7);
	cr_expect_eq(got.ev.parent_id[0], 7);
	cr_expect_neq(memcmp(got.ev.span_id, got.ev.parent_id, 8), 0);
	cr_expect(got.ev.flags & SAMPLED);
	cr_expect_not(child_of(0, SAMPLE_LIKE_PARENT, UINT64_MAX).ev.flags & SAMPLED);
	cr_expect_not(child_of(SAMPLED, SAMPLE_ROOT, 0).ev.flags & SAMPLED);
	cr_expect(child_of(0, SAMPLE_ROOT, UINT64_MAX).ev.flags & SAMPLED);
}

Test(parents_rules, what_is_done_for_a_health_probe_is_known_as_such)
{
	cr_expect(child_of(SAMPLED | EVENT_HEALTH, SAMPLE_LIKE_PARENT, 0).ev.flags & EVENT_HEALTH);
	cr_expect_not(child_of(SAMPLED, SAMPLE_LIKE_PARENT, 0).ev.flags & EVENT_HEALTH);
}

/* ---- one thing, seen by two libraries ---- */

Test(parents_rules, an_operation_that_covers_another_takes_its_place)
{
	struct parents_call c = call_of(PARENTS_LEND, 7, 1), over;
	struct ctx a, b;
	struct iface own = with(&a, &cancel_itab, root), made = with(&b, &value_itab, own);

	c.data = (uintptr_t)own.data;
	c.how = LEND_CONN;
	c.ev.flags = SAMPLED | EVENT_REMOTE;
	c.ev.parent_id[0] = 99;
	a.at[0] = (struct iface){ &cancel_itab, &nothing };
	run(&c);
	over = call_of(PARENTS_COVER, 0, 50);
	over.ev.flags = 0;
	over.itab = (uintptr_t)made.itab;
	over.data = (uintptr_t)made.data;
	run(&over);
	cr_expect_eq(over.result, 1);
	cr_expect_eq(over.ev.trace_id[0], 7);
	cr_expect_eq(over.ev.parent_id[0], 99);
	cr_expect_eq(over.ev.flags, SAMPLED | EVENT_REMOTE | EVENT_LOCAL);
	cr_expect_eq(parent(50, 0, made), 0, "its span will not be there");
	cr_expect_eq(parent(1, 0, root), 0);
	cr_expect(unlend(1, 1), "the other one is told");
	lend(8, 1, own, LEND_CONN);
	cr_expect_not(unlend(1, 1), "of that request only");
}

/* ---- bounds ---- */

Test(parents_rules, two_processes_do_not_see_each_other)
{
	struct parents_call c = call_of(PARENTS_PARENT, 0, 1);
	struct ctx a;
	struct iface own = with(&a, &cancel_itab, root);

	lend(7, 1, own, LEND_SELF);
	c.ev.cookie.slot = 4;
	c.itab = (uintptr_t)own.itab;
	c.data = (uintptr_t)own.data;
	run(&c);
	cr_expect_eq(c.ev.parent_id[0], 0);
}

static void lend_in(uint16_t slot, uint64_t goid, struct iface ctx)
{
	struct parents_call c = call_of(PARENTS_LEND, 7, goid);

	c.ev.cookie.slot = slot;
	c.data = (uintptr_t)ctx.data;
	c.how = LEND_SELF;
	run(&c);
}

Test(parents_rules, no_room_costs_the_parent_and_is_counted)
{
	static struct ctx many[9000];

	for (uint16_t i = 0; i < 9000; i++)
		lend_in(3 + i / 3000, i + 100u, with(&many[i], &cancel_itab, root));
	cr_expect_gt(counted(COUNTER_live_no_room), 0);
	cr_expect_eq(counted(COUNTER_live_no_share), 0);
	cr_expect_eq(parent(50, 0, (struct iface){ &cancel_itab, &many[0] }), 7);
}

Test(parents_rules, one_process_leaves_room_for_others)
{
	static struct ctx many[5000];
	struct parents_call c = call_of(PARENTS_PARENT, 0, 50);
	struct ctx other;
	struct iface theirs = with(&other, &cancel_itab, root);

	for (uint16_t i = 0; i < 5000; i++)
		lend_in(3, i + 100u, with(&many[i], &cancel_itab, root));
	cr_expect_eq(counted(COUNTER_live_no_share), 5000 - 4096);
	cr_expect_eq(parent(50, 0, (struct iface){ &cancel_itab, &many[4095] }), 7);
	cr_expect_eq(parent(50, 0, (struct iface){ &cancel_itab, &many[4999] }), 0);
	lend_in(4, 1, theirs);
	c.ev.cookie.slot = 4;
	c.itab = (uintptr_t)theirs.itab;
	c.data = (uintptr_t)theirs.data;
	run(&c);
	cr_expect_eq(c.ev.parent_id[0], 7);
	/* Who ends makes room for the next one. */
	cr_expect_not(unlend(100, 0));
	lend_in(3, 9999, with(&many[4999], &cancel_itab, root));
	cr_expect_eq(parent(50, 0, (struct iface){ &cancel_itab, &many[4999] }), 7);
}
