#include "base/config.h"
#include "export/export.h"
#include "pipeline/resource.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

/* The exporter with a pipe for stdout, and one batch. */
struct rig {
	const struct exporter *exporter;
	void *state;
	struct config *cfg;
	struct pool *pool;
	struct batch *batch;
	struct resource *resource, *plain;
	int reader;
	_Atomic uint64_t deadline;
};

static void rig_open(struct rig *r, const char *format)
{
	struct resource_attr pod[] = { { .key = "service.name", .value = "cart" },
				       { .key = "service.namespace", .value = "shop" },
				       { .key = "k8s.pod.name", .value = "cart-6f7c-x2x" },
				       { .key = "k8s.namespace.name", .value = "shop" },
				       { .key = "k8s.container.name", .value = "main" } };
	struct resource_attr none[] = { { .key = "service.name", .value = "hello" } };
	char *argv[] = { "agent", (char *)format, NULL };
	int fds[2], rest;
	size_t dropped;
	sigset_t set;

	*r = (struct rig){ 0 };
	(void)setenv("TZ", "UTC", 1);
	tzset();
	(void)sigemptyset(&set); /* as the export thread does */
	(void)sigaddset(&set, SIGPIPE);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	cr_assert_eq(config_load(&r->cfg, 2, argv, &rest), 0);
	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(dup2(fds[1], STDOUT_FILENO), STDOUT_FILENO);
	(void)close(fds[1]);
	r->reader = fds[0];
	exporter_foreach (it)
		if (strcmp((*it)->name, "stdout") == 0)
			r->exporter = *it;
	cr_assert(r->exporter);
	cr_assert_eq(r->exporter->open(&r->state, r->cfg), 0);
	cr_assert_eq(resource_new(&r->resource, pod, ARRAY_SIZE(pod)), 0);
	cr_assert_eq(resource_new(&r->plain, none, 1), 0);
	cr_assert_eq(pool_new(&r->pool, 3, 4096, 4 << 20), 0);
	r->batch = pool_get(r->pool, &dropped);
}

static void rig_close(struct rig *r)
{
	r->exporter->close(&r->state);
	cr_expect_null(r->state);
	pool_free(&r->pool);
	resource_put(&r->resource);
	resource_put(&r->plain);
	config_free(&r->cfg);
}

static struct span span_of(const char *name, struct attr *attrs)
{
	struct span s = { .trace_id = { 0xab, 0xcd, 1 },
			  .span_id = { 2 },
			  .start_ns = 1760000000123456789,
			  .end_ns = 1760000000135756789,
			  .kind = SPAN_SERVER,
			  .name = str_of(name),
			  .attrs = attrs };

	return s;
}

static struct export_result send_all(struct rig *r)
{
	struct export_job job = { .batch = r->batch,
				  .count = r->batch->nspans,
				  .deadline_ns = &r->deadline };
	struct export_result out = { 0 };

	r->exporter->send(r->state, &job, &out);
	cr_expect_eq(out.verdict, EXPORT_DONE);
	return out;
}

static char *read_some(struct rig *r)
{
	static char text[65536];
	ssize_t n = read(r->reader, text, sizeof(text) - 1);

	cr_assert_gt(n, 0);
	text[n] = '\0';
	return text;
}

Test(stdout, a_line_holds_time_duration_service_pod_kind_operation_and_ids)
{
	struct attr attrs[SPAN_ATTRS_MAX];
	struct span s = span_of("GET /items/{id}", attrs);
	struct rig r;

	rig_open(&r, "--stdout-format=text");
	span_str(&s, "url.path", str_of("/items/7"));
	span_int(&s, "http.response.status_code", 200);
	cr_assert_eq(batch_add(r.batch, &s, r.resource), 0);
	cr_expect_eq(send_all(&r).rejected, 0);
	cr_expect_str_eq(
		read_some(&r),
		"08:53:20.123     12.30ms  cart              shop/cart-6f7c-x2x                "
		"server  GET /items/{id} 200                   "
		"trace=abcd0100000000000000000000000000 span=0200000000000000\n");
	rig_close(&r);
}

Test(stdout, a_child_tells_its_parent_and_a_client_is_told_from_a_server)
{
	struct attr attrs[SPAN_ATTRS_MAX];
	struct span s = span_of("GET", attrs);
	const char *line;
	struct rig r;

	rig_open(&r, "--stdout-format=text");
	s.kind = SPAN_CLIENT;
	s.parent_id[0] = 7;
	span_str(&s, "url.full", str_of("http://stock/items/7"));
	span_int(&s, "http.response.status_code", 200);
	cr_assert_eq(batch_add(r.batch, &s, r.plain), 0);
	cr_expect_eq(send_all(&r).rejected, 0);
	line = read_some(&r);
	cr_expect(strstr(line, "  client  GET http://stock/items/7 200  "), "%s", line);
	cr_expect(strstr(line, " span=0200000000000000 parent=0700000000000000\n"), "%s", line);
	rig_close(&r);
}

Test(stdout, columns_stay_aligned_and_a_path_stands_in_for_a_route)
{
	struct attr attrs[SPAN_ATTRS_MAX];
	char *line, *next;
	struct rig r;

	rig_open(&r, "--stdout-format=text");
	for (int i = 0; i < 3; i++) {
		struct span s = span_of(i ? "GET" : "POST /\xc3\xa9", attrs);

		s.end_ns = s.start_ns + (i == 2 ? 75000000000 : 1000);
		span_str(&s, "url.path", str_of("/x"));
		span_int(&s, "http.response.status_code", 404);
		cr_assert_eq(batch_add(r.batch, &s, i ? r.plain : r.resource), 0);
	}
	cr_expect_eq(send_all(&r).rejected, 0);
	line = read_some(&r);
	for (int i = 0; i < 3; i++, line = next + 1) {
		next = strchr(line, '\n');
		*next = '\0';
		cr_expect_eq(strstr(line, "trace=") - line, i ? 124 : 125,
			     "the accent is one column of two bytes: %s", line);
		if (i)
			cr_expect(strstr(line, "hello             -   "), "%s", line);
		cr_expect(strstr(line, i ? "GET /x 404 " : "POST /\xc3\xa9 404 "), "%s", line);
	}
	rig_close(&r);
}

Test(stdout, errors_are_marked_and_texts_of_strangers_cannot_move_the_cursor)
{
	struct attr attrs[SPAN_ATTRS_MAX];
	struct span s = span_of("GET", attrs);
	struct rig r;
	char *line;

	rig_open(&r, "--stdout-format=text");
	s.status = SPAN_ERROR;
	span_str(&s, "url.path", str_of("/\033[2J\r\n\xc2\x9b\x7f"));
	span_str(&s, "error.type", str_of("panic"));
	cr_assert_eq(batch_add(r.batch, &s, r.plain), 0);
	(void)send_all(&r);
	line = read_some(&r);
	cr_expect(strstr(line, "GET /?[2J???? ERROR panic "), "%s", line);
	cr_expect_null(strchr(line, '\033'));
	cr_expect_eq(strchr(line, '\n'), line + strlen(line) - 1);
	rig_close(&r);
}

Test(stdout, json_is_one_object_a_line_with_everything_that_is_known)
{
	struct attr attrs[SPAN_ATTRS_MAX];
	struct span s = span_of("GET /\"q\"", attrs);
	json_t *o, *a;
	struct rig r;

	rig_open(&r, "--stdout-format=json");
	s.parent_id[0] = 7;
	span_str(&s, "url.path", str_of("/\n\\\x01\xc3\xa9"));
	span_int(&s, "http.response.status_code", 500);
	attrs[s.nattrs++] = (struct attr){ .key = "b", .type = ATTR_BOOL, .i = 1 };
	s.status = SPAN_ERROR;
	cr_assert_eq(batch_add(r.batch, &s, r.resource), 0);
	(void)send_all(&r);
	o = json_loads(read_some(&r), 0, NULL);
	cr_assert(o);
	cr_expect_str_eq(json_string_value(json_object_get(o, "trace_id")),
			 "abcd0100000000000000000000000000");
	cr_expect_str_eq(json_string_value(json_object_get(o, "span_id")), "0200000000000000");
	cr_expect_str_eq(json_string_value(json_object_get(o, "parent_span_id")),
			 "0700000000000000");
	cr_expect_str_eq(json_string_value(json_object_get(o, "start")),
			 "2025-10-09T08:53:20.123456789Z");
	cr_expect_str_eq(json_string_value(json_object_get(o, "kind")), "server");
	cr_expect_str_eq(json_string_value(json_object_get(o, "status")), "error");
	cr_expect_str_eq(json_string_value(json_object_get(o, "name")), "GET /\"q\"");
	cr_expect_float_eq(json_real_value(json_object_get(o, "duration_ms")), 12.3, 1e-9);
	cr_expect_str_eq(
		json_string_value(json_object_get(json_object_get(o, "resource"), "k8s.pod.name")),
		"cart-6f7c-x2x");
	a = json_object_get(o, "attributes");
	cr_expect_str_eq(json_string_value(json_object_get(a, "url.path")), "/\n\\\x01\xc3\xa9");
	cr_expect_eq(json_integer_value(json_object_get(a, "http.response.status_code")), 500);
	cr_expect(json_is_true(json_object_get(a, "b")));
	json_decref(o);
	rig_close(&r);
}

static void fill(struct rig *r, size_t n)
{
	struct attr attrs[SPAN_ATTRS_MAX];

	for (size_t i = 0; i < n; i++) {
		struct span s = span_of("GET /", attrs);

		span_int(&s, "n", (int64_t)i);
		cr_assert_eq(batch_add(r->batch, &s, r->resource), 0);
	}
}

/* Reads in small pieces; every line must be whole and in order. Number of lines. */
static void *read_slowly(void *arg)
{
	struct rig *r = arg;
	FILE *f = fdopen(r->reader, "r");
	static size_t lines;
	int64_t last = -1;
	char line[2048];

	while (fgets(line, sizeof(line), f)) {
		json_t *o = json_loads(line, 0, NULL);
		int64_t n;

		cr_assert(o, "a torn line: %s", line);
		n = json_integer_value(json_object_get(json_object_get(o, "attributes"), "n"));
		cr_assert_gt(n, last);
		last = n;
		json_decref(o);
		if (lines++ % 100 == 0)
			(void)usleep(10000);
	}
	(void)fclose(f);
	return &lines;
}

Test(stdout, a_slow_reader_gets_every_line_whole, .timeout = 30)
{
	pthread_t thread;
	struct rig r;
	void *lines;

	rig_open(&r, "--stdout-format=json");
	fill(&r, 3000);
	cr_assert_eq(pthread_create(&thread, NULL, read_slowly, &r), 0);
	cr_expect_eq(send_all(&r).rejected, 0);
	rig_close(&r);
	(void)close(STDOUT_FILENO);
	(void)pthread_join(thread, &lines);
	cr_expect_eq(*(size_t *)lines, 3000);
}

Test(stdout, a_stuck_reader_costs_lines_not_the_end_of_the_agent_and_no_line_is_torn, .timeout = 30)
{
	struct timespec now;
	struct export_result out;
	size_t delivered;
	pthread_t thread;
	struct rig r;
	void *lines;

	rig_open(&r, "--stdout-format=json");
	fill(&r, 3000);
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	r.deadline = (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec + 100000000;
	out = send_all(&r);
	cr_expect_gt(out.rejected, 0);
	cr_expect_neq(*out.message, '\0');
	delivered = 3000 - out.rejected;
	out = send_all(&r);
	cr_expect_eq(out.rejected, 3000, "it is still stuck, and not waited for");
	pool_put(r.pool, r.batch);
	r.batch = pool_get(r.pool, &(size_t){ 0 });
	cr_assert_eq(pthread_create(&thread, NULL, read_slowly, &r), 0);
	(void)usleep(200000);
	/* Reads on: the rest of the line that was begun comes first. */
	cr_expect_eq(send_all(&r).rejected, 0);
	rig_close(&r);
	(void)close(STDOUT_FILENO);
	(void)pthread_join(thread, &lines);
	cr_expect_eq(*(size_t *)lines, delivered);
}

Test(stdout, a_reader_that_is_gone_is_an_error_once_and_no_signal)
{
	struct export_result out;
	struct rig r;

	rig_open(&r, "--stdout-format=text");
	fill(&r, 3);
	(void)close(r.reader);
	out = send_all(&r);
	cr_expect_eq(out.rejected, 3);
	cr_expect_str_eq(out.message, "Broken pipe");
	out = send_all(&r);
	cr_expect_eq(out.rejected, 3);
	cr_expect_str_eq(out.message, "");
	rig_close(&r);
}
