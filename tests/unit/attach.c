/* Needs root: real uprobes on two functions of this program, traced as the library `toy`
 * (tests/bpf). */
#include "toy_rig.h"
#include <bpf/bpf.h>
#include <sys/resource.h>
#include <time.h>

TestSuite(attach, .init = set_up, .fini = tear_down, .timeout = 60);

Test(attach, the_self_test_finds_exact_uprobe_multi_links_here)
{
	const struct attach_kernel *k = attach_kernel(attach);

	cr_assert(k->uprobe_multi);
	cr_assert(k->pid_filter_exact);
	cr_assert(k->exec_events);
	cr_assert_not(k->own_pid_namespace);
}

Test(attach, a_call_of_an_attached_process_becomes_a_span_with_its_slot)
{
	struct attached *list[1];
	struct timespec now;
	struct span s;
	uint16_t slot;

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slot);
	cr_assert_eq(hooked, 2);
	cr_assert_eq(toy_place(2), 2);
	cr_assert_eq(toy_place(4), 4);
	cr_assert_eq(receive(2, &s), 2);
	cr_assert(str_eq(s.name, "toy"));
	cr_assert_eq(value(&s, "argument"), 2);
	cr_assert_eq(value(&s, "found"), 0x123);
	cr_assert_eq(value(&s, "missing"), GO_ABSENT);
	cr_assert_eq(value(&s, "parts"), 5);
	cr_assert_eq(value(&s, "calls"), 0, "the leave program has not run yet");
	cr_assert_eq(value(&s, "ro_lo"), 0x11000);
	cr_assert_eq(value(&s, "ro_hi"), 0x13000);
	(void)clock_gettime(CLOCK_REALTIME, &now);
	cr_assert_lt((double)now.tv_sec - (double)(s.start_ns / 1000000000u), 3.0);
	cr_assert_leq(s.start_ns / 1000000000u, (uint64_t)now.tv_sec);
	cr_assert_eq(toy_place(6), 6);
	cr_assert_eq(receive(1, &s), 1);
	cr_assert_eq(value(&s, "calls"), 2, "the leave program runs at the RET");
	attach_detach(attach, list, 1);
	cr_assert_null(list[0]);
}

static int64_t calls_seen(long argument)
{
	struct span s;

	cr_assert_eq(toy_place(argument), argument);
	cr_assert_eq(receive(1, &s), 1);
	cr_assert_eq(value(&s, "argument"), argument);
	return value(&s, "calls");
}

Test(attach, a_probe_on_trial_comes_and_goes_while_the_others_stay)
{
	struct attached *list[1];
	uint16_t slot;

	places[0].trial = true; /* the leave program, which counts calls */
	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slot);
	cr_assert_eq(hooked, 2, "it hangs from the start");
	cr_assert(attach_has_trial(list[0]));
	cr_assert_eq(calls_seen(2), 0);
	cr_assert_eq(calls_seen(4), 1);
	cr_assert_eq(attach_trial(attach, list[0], false), 0);
	cr_assert_eq(attach_trial(attach, list[0], false), 0, "twice is once");
	cr_assert_eq(calls_seen(6), 2);
	cr_assert_eq(calls_seen(8), 2, "it is gone");
	cr_assert_eq(attach_trial(attach, list[0], true), 0);
	cr_assert_eq(calls_seen(10), 2);
	cr_assert_eq(calls_seen(12), 3, "it is back");
	attach_detach(attach, list, 1);
	cr_assert_eq(toy_place(14), 14);
}

Test(attach, without_trial_probes_there_is_nothing_to_take_away)
{
	struct attached *list[1];
	uint16_t slot;

	list[0] = follow(getpid(), &slot);
	cr_assert_not(attach_has_trial(list[0]));
	cr_assert_eq(attach_trial(attach, list[0], false), -ENODATA);
	attach_detach(attach, list, 1);
}

Test(attach, the_first_call_after_a_long_silence_is_read_at_once)
{
	struct attached *list[1];
	uint64_t began;
	uint16_t slot;

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slot);
	for (int i = 0; i < 3; i++) {
		(void)usleep(150000); /* the events thread sleeps for up to a second */
		began = clock_monotonic();
		(void)toy_place(2);
		while (stat_get(events) == (uint64_t)i && clock_monotonic() - began < 2000000000u)
			(void)usleep(200);
		cr_assert_lt(clock_monotonic() - began, 50000000u, "round %d", i);
	}
	attach_detach(attach, list, 1);
}

Test(attach, after_detaching_a_call_does_nothing_and_what_was_open_is_counted)
{
	struct attached *list[2];
	uint16_t slots[2];

	cr_assert_eq(ring_start(ring), 0);
	list[0] = NULL;
	list[1] = follow(getpid(), &slots[0]);
	for (int i = 1; i < 60; i += 2)
		(void)toy_place(i);
	attach_detach(attach, list, 2);
	targets_retire(targets, slots[0]);
	cr_assert_eq(stat_get(ops_opt_out), 30);
	cr_assert_eq(stat_get(ops_process_exit), 0);
	for (int i = 0; i < 10; i++)
		(void)toy_place(2 * i);
	/* Nothing is left for those who come later. */
	list[0] = follow(getpid(), &slots[1]);
	(void)toy_place(2);
	cr_assert_eq(receive(1, NULL), 1);
	attach_detach(attach, list, 1);
	cr_assert_eq(stat_get(ops_opt_out), 30);
	cr_assert_eq(stat_get(events), 1);
}

/* A map of this process by its name, and its shape. */
static int map_named(const char *name, struct bpf_map_info *info)
{
	for (int fd = 3; fd < 1000; fd++) {
		uint32_t size = sizeof(*info);

		memset(info, 0, size);
		if (bpf_obj_get_info_by_fd(fd, info, &size) == 0 && info->key_size == 16 &&
		    strcmp(info->name, name) == 0)
			return fd;
	}
	return -1;
}

Test(attach, what_is_known_of_live_operations_goes_with_their_process)
{
	static const char *const maps[] = { "live", "contexts", "ctx_types", "started" };
	uint16_t slot = 0;
	struct attached *attached = follow(getpid(), &slot);
	struct op_key mine = { .slot = slot, .id = 7 }, other = { .slot = slot + 1u, .id = 7 };
	char value[512] = { 1 };
	struct bpf_map_info info;

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		int fd = map_named(maps[i], &info);

		cr_assert_geq(fd, 0, "%s", maps[i]);
		cr_assert_leq(info.value_size, sizeof(value));
		cr_assert_eq(info.max_entries, i == 2 ? 4096u : 100u, "%s", maps[i]);
		cr_assert_eq(bpf_map_update_elem(fd, &mine, value, BPF_ANY), 0);
		cr_assert_eq(bpf_map_update_elem(fd, &other, value, BPF_ANY), 0);
	}
	attach_detach(attach, &attached, 1);
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		int fd = map_named(maps[i], &info);

		cr_expect_neq(bpf_map_lookup_elem(fd, &mine, value), 0, "%s", maps[i]);
		cr_expect_eq(bpf_map_lookup_elem(fd, &other, value), 0, "%s", maps[i]);
	}
	cr_expect_eq(stat_get(ops_opt_out), 0, "they are not operations of their own");
}

Test(attach, no_room_for_another_operation_is_counted)
{
	struct attached *list[1];
	uint16_t slot;

	list[0] = follow(getpid(), &slot);
	for (int i = 0; i < 150; i++)
		(void)toy_place(2 * i + 1);
	attach_collect_stats(attach);
	cr_assert_eq(stat_get(ops_no_room), 50, "operations.max is 100");
	attach_detach(attach, list, 1);
	cr_assert_eq(stat_get(ops_opt_out), 100);
}

Test(attach, a_place_that_is_none_is_refused_and_nothing_stays)
{
	uint8_t before = first_byte(getpid());
	struct attached *attached = NULL;
	const char *why = NULL;
	size_t n = 0;
	int err;

	places[0].offset = 1ul << 40;
	err = attach_process(&attached, attach, plan, getpid(), "/proc/self/exe", 3, 1, 0, 0, &n,
			     &why);
	cr_assert_lt(err, 0);
	cr_assert_not_null(why);
	cr_assert_null(attached);
	cr_assert_eq(first_byte(getpid()), before);
}

Test(attach, a_link_that_is_refused_takes_those_before_it_away)
{
	struct attached *list[1];
	const char *why = NULL;
	int before, after;
	uint16_t slot;
	size_t n;

	list[0] = follow(getpid(), &slot); /* its programs are loaded from here on */
	attach_detach(attach, list, 1);
	before = dup(0);
	(void)close(before);
	places[1].offset = 1ul << 40; /* the second program's */
	cr_assert_lt(attach_process(&list[0], attach, plan, getpid(), "/proc/self/exe", 3, 1, 0, 0,
				    &n, &why),
		     0);
	cr_assert_null(list[0]);
	cr_assert_not_null(why);
	cr_assert_eq(*(const volatile uint8_t *)toy_place_end, 0xc3, "the first one's: a ret");
	after = dup(0);
	(void)close(after);
	cr_assert_eq(after, before, "no file descriptor is left");
}

Test(attach, a_library_that_the_verifier_refuses_is_disabled_and_the_others_go_on)
{
	size_t bad = index_of(&refused);
	struct attached *list[1];
	uint16_t slot;

	cr_assert_null(attach_lib_disabled(attach, bad), "it is loaded on first use");
	planned[bad].parts = 1;
	places[2] = (struct plan_place){ .offset = places[1].offset, .lib = (uint8_t)bad };
	plan->nplaces = 3;
	list[0] = follow(getpid(), &slot);
	cr_assert_str_eq(attach_lib_disabled(attach, bad), "the kernel refused its programs");
	cr_assert_null(attach_lib_disabled(attach, index_of(&toy)));
	cr_assert_eq(hooked, 2, "of the three");
	cr_assert_eq(stat_get(libraries_refused), 1);
	attach_detach(attach, list, 1);
	list[0] = follow(getpid(), &slot);
	cr_assert_eq(stat_get(libraries_refused), 1, "not tried again");
	attach_detach(attach, list, 1);
}

Test(attach, a_library_that_the_kernel_had_no_room_for_is_loaded_with_the_next_process)
{
	struct attached *list[1] = { NULL };
	struct rlimit before, now;
	const char *why = NULL;
	int next = dup(0);
	uint16_t slot;
	size_t n;

	(void)close(next);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	now = before;
	now.rlim_cur = (rlim_t)next + 3; /* the pidfd and two more */
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &now), 0);
	cr_assert_eq(attach_process(&list[0], attach, plan, getpid(), "/proc/self/exe", 3, 1, 0, 0,
				    &n, &why),
		     -ENODATA);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
	cr_assert(strstr(attach_lib_disabled(attach, index_of(&toy)), "no memory or file"));
	list[0] = follow(getpid(), &slot);
	cr_assert_eq(hooked, 2);
	cr_assert_null(attach_lib_disabled(attach, index_of(&toy)));
	attach_detach(attach, list, 1);
}

Test(attach, a_trickle_does_not_fill_the_queue_while_the_exporter_is_behind)
{
	struct attached *list[1];
	uint16_t slot;

	cr_assert_eq(ring_start(ring), 0);
	list[0] = follow(getpid(), &slot);
	for (int i = 0; i < 20; i++) { /* the pool has 8 batches */
		(void)toy_place(2);
		(void)usleep(80000); /* batch.delay is 50 ms */
	}
	cr_assert_eq(stat_get(spans_dropped_queue), 0);
	cr_assert_eq(receive(20, NULL), 20);
	attach_detach(attach, list, 1);
}

Test(attach, the_kernel_memory_is_known)
{
	size_t before = attach_memory(attach);
	struct attached *list[1];
	uint16_t slot;

	cr_assert_gt(before, 1 << 20, "the ring alone has so much");
	list[0] = follow(getpid(), &slot);
	cr_assert_gt(attach_memory(attach), before, "the library's maps are counted");
	cr_assert_lt(attach_memory(attach), 8 << 20, "and the shared ones once");
	attach_detach(attach, list, 1);
}

TestSuite(attach_small, .fini = tear_down, .timeout = 60);

Test(attach_small, what_a_full_ring_loses_is_counted_and_nothing_else_is_lost)
{
	struct attached *list[1];
	uint64_t queued;
	uint16_t slot;

	open_all("4KiB", "4096");
	list[0] = follow(getpid(), &slot);
	for (int i = 0; i < 1000; i++)
		(void)toy_place(2);
	attach_detach(attach, list, 1);
	cr_assert_eq(ring_start(ring), 0);
	ring_stop(ring);
	queued = receive(1, NULL);
	attach_collect_stats(attach);
	attach_collect_stats(attach);
	cr_assert_gt(stat_get(lost_ring_full), 900);
	cr_assert_eq(stat_get(spans_dropped_ring_full), stat_get(lost_ring_full));
	cr_assert_eq(stat_get(spans_produced), 1000);
	cr_assert_eq(queued + stat_get(spans_dropped_ring_full), 1000);
}

static void hang(struct attached **out, uint16_t slot, uint32_t generation)
{
	const char *why = NULL;
	size_t n = 0;

	cr_assert_eq(attach_process(out, attach, plan, getpid(), "/proc/self/exe", slot, generation,
				    0, 0, &n, &why),
		     0, "%s", why);
}

Test(attach_small, one_process_takes_no_more_than_its_share_and_the_slots_next_owner_has_all_of_it)
{
	struct attached *list[2];

	open_all("1MiB", "30");
	hang(&list[0], 3, 1);
	hang(&list[1], 4, 1); /* both count the same calls */
	for (int i = 0; i < 40; i++)
		(void)toy_place(2 * i + 1);
	for (int i = 0; i < 30; i++) /* in the place of what is there already */
		(void)toy_place(2 * i + 1);
	attach_collect_stats(attach);
	cr_assert_eq(stat_get(ops_no_share), 20);
	cr_assert_eq(stat_get(ops_no_room), 0, "of 100, 60 are used");
	attach_detach(attach, list, 1);
	cr_assert_eq(stat_get(ops_opt_out), 30);
	hang(&list[0], 3, 2);
	for (int i = 0; i < 30; i++)
		(void)toy_place(2 * i + 1);
	attach_collect_stats(attach);
	cr_assert_eq(stat_get(ops_no_share), 20);
	attach_detach(attach, list, 2);
	cr_assert_eq(stat_get(ops_opt_out), 90);
}

Test(attach_small, a_library_is_disabled_by_the_configuration)
{
	char *argv[] = { "agent", "--libraries-disabled=toy" };
	struct attached *attached = NULL;
	const char *why = NULL;
	size_t n = 0;

	cr_assert_eq(config_load(&cfg, 2, argv, NULL), 0);
	cr_assert_eq(attach_open(&attach, cfg), 0);
	make_plan();
	cr_assert_str_eq(attach_lib_disabled(attach, index_of(&toy)),
			 "disabled by libraries.disabled");
	cr_assert_eq(attach_process(&attached, attach, plan, getpid(), "/proc/self/exe", 3, 1, 0, 0,
				    &n, &why),
		     -ENODATA);
	cr_assert_str_eq(why, "nothing to trace in it");
	cr_assert_eq(targets_new(&targets, 1), 0);
	cr_assert_eq(pool_new(&pool, 4, 10, 4096), 0);
	cr_assert_eq(ring_new(&ring, cfg, -1, NULL, targets, pool), 0);
}
