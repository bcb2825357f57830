#include "trace/ringbuf.h"

#include "tests/bpf/writer.h"
#include "trace/lib.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>

LIB_OBJECT(writer)

static struct bpf_object *object;
static struct writer_record record;
static int ring_fd, record_fd, prog_fd;
static struct ringbuf *ring;

static void set_up(void)
{
	size_t size;
	const void *bytes = writer_object(&size);

	object = bpf_object__open_mem(bytes, size, NULL);
	cr_assert_not_null(object);
	cr_assert_eq(bpf_object__load(object), 0, "this test needs to be root");
	ring_fd = bpf_object__find_map_fd_by_name(object, "ring");
	record_fd = bpf_object__find_map_fd_by_name(object, "record");
	prog_fd = bpf_program__fd(bpf_object__find_program_by_name(object, "write_record"));
	cr_assert_eq(ringbuf_open(&ring, ring_fd), 0);
}

static void tear_down(void)
{
	ringbuf_close(&ring);
	cr_assert_null(ring);
	bpf_object__close(object);
}

TestSuite(ringbuf, .init = set_up, .fini = tear_down, .timeout = 60);

static int order(struct writer_order o)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &o, .ctx_size_in = sizeof(o));

	cr_assert_eq(bpf_prog_test_run_opts(prog_fd, &opts), 0);
	return (int)opts.retval;
}

/* A record whose bytes all follow from seed. */
static void fill(unsigned seed, size_t size)
{
	for (size_t i = 0; i < size; i++)
		record.bytes[i] = (uint8_t)(seed + i * 7 + (i >> 8));
}

static int send(unsigned seed, uint32_t size)
{
	uint32_t zero = 0;

	fill(seed, size);
	cr_assert_eq(bpf_map_update_elem(record_fd, &zero, &record, 0), 0);
	return order((struct writer_order){ .size = size });
}

struct got {
	unsigned seed;
	size_t n, last, most;
};

static bool check(void *arg, const void *data, size_t size)
{
	struct got *got = arg;

	got->last = size;
	got->n++;
	fill(got->seed++, size);
	cr_assert_arr_eq(data, record.bytes, size);
	return got->n < got->most;
}

Test(ringbuf, records_arrive_whole_and_in_order_also_across_the_end)
{
	struct got got = { .most = SIZE_MAX };
	unsigned sent = 0;

	while (ringbuf_done(ring) < 20ul * WRITER_RING) {
		for (int i = 0; i < 3; i++, sent++)
			cr_assert_eq(send(sent, 1 + sent * 977 % 9000), 0);
		cr_assert(ringbuf_read(ring, check, &got));
		cr_assert_eq(got.n, sent);
	}
	cr_assert_eq(ringbuf_done(ring), ringbuf_written(ring));
}

Test(ringbuf, it_stops_when_enough_were_taken_and_goes_on_with_the_next)
{
	struct got got = { .most = 2 };

	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(send(i, 100), 0);
	cr_assert_not(ringbuf_read(ring, check, &got));
	cr_assert_eq(got.n, 2);
	cr_assert_lt(ringbuf_done(ring), ringbuf_written(ring));
	got.most = SIZE_MAX;
	cr_assert(ringbuf_read(ring, check, &got));
	cr_assert_eq(got.n, 3);
}

Test(ringbuf, what_was_discarded_is_passed_over)
{
	struct got got = { .most = SIZE_MAX };

	cr_assert_eq(order((struct writer_order){ .discard = 1 }), 0);
	cr_assert_eq(send(0, 50), 0);
	cr_assert_eq(order((struct writer_order){ .discard = 1 }), 0);
	cr_assert(ringbuf_read(ring, check, &got));
	cr_assert_eq(got.n, 1);
	cr_assert_eq(ringbuf_done(ring), ringbuf_written(ring));
}

Test(ringbuf, a_full_ring_has_room_again_for_what_was_read)
{
	struct got got = { .most = 1 };
	unsigned sent = 0;

	while (send(sent, 4000) == 0)
		sent++;
	cr_assert_eq(sent, WRITER_RING / 4008);
	cr_assert_not(ringbuf_read(ring, check, &got));
	cr_assert_eq(send(sent, 4000), 0);
	cr_assert_neq(send(sent, 4000), 0);
}

static size_t send_and_read(unsigned seed, uint32_t size)
{
	struct got got = { .seed = seed, .most = SIZE_MAX };

	cr_assert_eq(send(seed, size), 0);
	cr_assert(ringbuf_read(ring, check, &got));
	cr_assert_eq(got.n, 1);
	return got.last;
}

Test(ringbuf, a_record_across_the_end_that_is_longer_than_agreed_has_no_bytes)
{
	/* Within the ring: any length. */
	cr_assert_eq(send_and_read(0, 40000), 40000);
	/* 25,520 bytes before the end, and up to 32 KiB behind it. */
	cr_assert_eq(send_and_read(1, 40000), 40000);
	/* Up to 1,000 bytes before the end. */
	cr_assert_eq(send_and_read(2, 40000), 40000);
	cr_assert_eq(send_and_read(3, 10040), 10040);
	cr_assert_eq(WRITER_RING - ringbuf_done(ring) % WRITER_RING, 1000);
	cr_assert_eq(send_and_read(4, 40000), 0);
	cr_assert_eq(send_and_read(5, 10), 10);
}

Test(ringbuf, the_map_is_readable_while_a_record_waits)
{
	struct pollfd pfd = { .fd = ring_fd, .events = POLLIN };
	struct got got = { .most = 1 };

	cr_assert_eq(poll(&pfd, 1, 0), 0);
	cr_assert_eq(send(0, 8), 0);
	cr_assert_eq(send(1, 8), 0);
	cr_assert_eq(poll(&pfd, 1, 1000), 1);
	cr_assert_not(ringbuf_read(ring, check, &got));
	cr_assert_eq(poll(&pfd, 1, 1000), 1);
	got.most = SIZE_MAX;
	cr_assert(ringbuf_read(ring, check, &got));
	cr_assert_eq(poll(&pfd, 1, 0), 0);
}

Test(ringbuf, another_kind_of_map_is_refused_and_out_stays_untouched)
{
	struct ringbuf *other = NULL;

	cr_assert_eq(ringbuf_open(&other, record_fd), -EINVAL);
	cr_assert_lt(ringbuf_open(&other, -1), 0);
	cr_assert_null(other);
}
