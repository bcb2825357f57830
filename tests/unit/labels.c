#include "metrics/labels.h"

#include <criterion/criterion.h>

static struct labels labels;

static void add(const char *key, const char *value)
{
	cr_assert(labels_add(&labels, str_of(key), str_of(value)), "%s", key);
}

static char *written(void)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	labels_write(&labels, f);
	cr_assert_eq(fclose(f), 0);
	return text;
}

Test(labels, a_name_has_letters_digits_and_single_underscores)
{
	static const char *const names[][2] = {
		{ "http.route", "http_route" },
		{ "k8s.pod.label.app/x-y", "k8s_pod_label_app_x_y" },
		{ "__name__", "_name_" },
		{ "9lives", "_9lives" },
		{ "...", "_" },
		{ "a.-_b", "a_b" },
		{ "\xc3\xa4\xff", "_" },
		{ "a\n\"} 1", "a_1" },
	};
	char out[64];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		size_t n = label_name(out, sizeof(out), str_of(names[i][0]));

		cr_assert_str_eq(out, names[i][1]);
		cr_assert_eq(n, strlen(out));
	}
	cr_assert_eq(label_name(out, 4, str_of("abcdef")), 3u);
	cr_assert_str_eq(out, "abc");
}

Test(labels, keys_that_become_one_name_are_one_label)
{
	auto_free char *text = NULL;

	add("a_b", "3");
	add("c", "x");
	add("a.b", "2");
	add("a-b", "1");
	labels_sort(&labels);
	text = written();
	cr_assert_str_eq(text, ",a_b=\"1;2;3\",c=\"x\"");
}

Test(labels, what_has_a_meaning_of_its_own_is_told_by_another_name)
{
	auto_free char *text = NULL;

	add("job", "a");
	add("instance", "b");
	add("le", "c");
	add("exported.job", "d");
	add("", "e");
	text = written();
	cr_assert_str_eq(text, ",exported_job=\"a;d\",exported_instance=\"b\",exported_le=\"c\"");
}

Test(labels, a_value_may_be_any_bytes_but_nul)
{
	auto_free char *text = NULL;

	cr_assert(labels_add(&labels, str_of("x"), (struct str){ "a\0\"\\\n\r\t{},=#\x7f", 13 }));
	text = written();
	cr_assert_str_eq(text, ",x=\"a\xef\xbf\xbd\\\"\\\\\\n\r\t{},=#\x7f\"");
}

Test(labels, those_of_a_point_are_taken_back_and_the_room_with_them)
{
	auto_free char *text = NULL;
	char key[100] = { 0 };
	size_t used;

	add("b", "1");
	add("a", "2");
	labels_sort(&labels);
	used = labels.used;
	memset(key, 'k', sizeof(key) - 1);
	for (int i = 0; i < 10000; i++) {
		labels_cut(&labels, 2);
		add(key, "3");
	}
	labels_cut(&labels, 2);
	cr_assert_eq(labels.used, used);
	text = written();
	cr_assert_str_eq(text, ",a=\"2\",b=\"1\"");
	labels_cut(&labels, 0);
	cr_assert_eq(labels.used, 0u);
}

Test(labels, without_room_a_label_is_left_out_whole)
{
	static char key[40000];

	memset(key, 'k', sizeof(key) - 1);
	cr_assert_not(labels_add(&labels, str_of(key), str_of("x")));
	key[32768 - 20] = '\0';
	add(key, "x");
	cr_assert_not(labels_add(&labels, str_of("another.one.too.many"), str_of("x")));
	labels_cut(&labels, 0);
	for (size_t i = 0; i < LABELS_MAX; i++)
		add("a", "b");
	cr_assert_not(labels_add(&labels, str_of("a"), str_of("b")));
}
