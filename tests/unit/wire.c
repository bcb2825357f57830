#include "export/wire.h"

#include <criterion/criterion.h>
#include <stdio.h>

static struct wire w;

static void tear_down(void)
{
	wire_clear(&w);
}

TestSuite(wire, .fini = tear_down, .timeout = 30);

static void expect(const char *hex)
{
	char text[256] = "";

	for (size_t i = 0; i < wire_used(&w) && i < 100; i++)
		(void)snprintf(text + 2 * i, 3, "%02x", w.p[i]);
	cr_expect_str_eq(text, hex);
	wire_begin(&w);
}

/* Bytes as protobuf.dev, "Encoding", tells them, and as protoc makes them of the same values. */
Test(wire, numbers_take_seven_bits_a_byte_the_low_ones_first)
{
	wire_varint(&w, 1, 0);
	expect("0800");
	wire_varint(&w, 1, 127);
	expect("087f");
	wire_varint(&w, 1, 128);
	expect("088001");
	wire_varint(&w, 1, 150);
	expect("089601");
	wire_varint(&w, 1, 16383);
	expect("08ff7f");
	wire_varint(&w, 1, 16384);
	expect("08808001");
	wire_varint(&w, 1, UINT64_MAX);
	expect("08ffffffffffffffffff01");
	wire_varint(&w, 16, 1);
	expect("800101");
	wire_fixed64(&w, 7, 0x0102030405060708);
	expect("390807060504030201");
	wire_fixed32(&w, 16, 0x301);
	expect("850101030000");
}

Test(wire, what_is_written_last_comes_first)
{
	size_t before;

	wire_varint(&w, 2, 1);
	before = wire_used(&w);
	wire_bytes(&w, 1, "testing", 7);
	wire_message(&w, 3, before);
	wire_varint(&w, 1, 5);
	expect("08051a090a0774657374696e671001");
}

Test(wire, an_empty_text_is_absent_and_an_empty_message_is_not)
{
	wire_bytes(&w, 1, NULL, 0);
	cr_expect_eq(wire_used(&w), 0);
	wire_message(&w, 1, 0);
	expect("0a00");
}

Test(wire, it_grows_and_keeps_what_is_written)
{
	static uint8_t block[40000];
	size_t want = 0;

	for (unsigned i = 0; i < 10; i++) {
		memset(block, (int)i, sizeof(block));
		wire_bytes(&w, 1, block, sizeof(block));
		want += sizeof(block) + 1 + 3;
		cr_assert_eq(wire_used(&w), want);
	}
	cr_assert_eq(w.err, 0);
	for (unsigned i = 0; i < 10; i++) {
		const uint8_t *p = w.p + (size_t)(9 - i) * (sizeof(block) + 4);

		memset(block, (int)i, sizeof(block));
		cr_assert_eq(memcmp(p, "\x0a\xc0\xb8\x02", 4), 0);
		cr_assert_arr_eq(p + 4, block, sizeof(block));
	}
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* end at such a wish */
Test(wire, without_memory_nothing_more_is_written_until_it_begins_anew)
{
	size_t used;

	wire_varint(&w, 1, 5);
	used = wire_used(&w);
	cr_assert_not(wire_grow(&w, SIZE_MAX / 4));
	cr_assert_eq(w.err, -ENOMEM);
	cr_assert_eq(wire_used(&w), used);
	cr_assert_not(wire_room(&w, w.size));
	wire_begin(&w);
	cr_assert_eq(w.err, 0);
	wire_varint(&w, 1, 5);
	expect("0805");
}
#endif
