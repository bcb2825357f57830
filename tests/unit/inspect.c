#include "inspect.h"
#include "go_bins.h"
#include "runtime/runtime.h"
#include "trace/plan.h"
#include <criterion/redirect.h>
#include <jansson.h>

static int run(const char *a, const char *b, const char *c)
{
	char *argv[] = { "inspect", (char *)a, (char *)b, (char *)c, NULL };
	int argc = 1;

	while (argv[argc])
		argc++;
	return inspect_main(argc, argv);
}

static int run_bin(const char *bin, const char *option)
{
	char path[512];

	(void)snprintf(path, sizeof(path), GO_BINS "/%s", bin);
	return run(path, option, NULL);
}

static void stderr_has(const char *text)
{
	char buf[4096] = "";
	FILE *f = cr_get_redirected_stderr();
	size_t n;

	(void)fflush(stderr);
	n = fread(buf, 1, sizeof(buf) - 1, f);
	buf[n] = 0;
	cr_assert_neq(strstr(buf, text), NULL, "'%s' is not in '%s'", text, buf);
}

Test(inspect, a_missing_file_is_named, .init = cr_redirect_stderr)
{
	cr_assert_eq(run("/no/such/program", NULL, NULL), 1);
	stderr_has("/no/such/program: there is no such file");
}

Test(inspect, a_directory_is_told_from_a_program, .init = cr_redirect_stderr)
{
	cr_assert_eq(run("/usr", NULL, NULL), 1);
	stderr_has("this is a directory: give the program in it");
}

Test(inspect, a_device_is_told_from_a_program, .init = cr_redirect_stderr)
{
	cr_assert_eq(run("/dev/zero", NULL, NULL), 1);
	stderr_has("this is no file with a program in it");
}

Test(inspect, a_process_that_is_not_there_is_named, .init = cr_redirect_stderr)
{
	cr_assert_eq(run("999999999", NULL, NULL), 1);
	stderr_has("there is no such process");
}

Test(inspect, what_is_not_elf_is_refused_with_advice, .init = cr_redirect_stderr)
{
	cr_assert_eq(run(SOURCE_DIR "/CMakeLists.txt", NULL, NULL), 1);
	stderr_has("not an ELF file");
}

Test(inspect, what_is_not_go_is_refused_with_advice, .init = cr_redirect_stderr)
{
	char pid[32];

	(void)snprintf(pid, sizeof(pid), "%d", getpid());
	cr_assert_eq(run(pid, NULL, NULL), 1);
	stderr_has("no Go program");
}

Test(inspect, a_wrong_call_explains_the_right_one, .init = cr_redirect_stderr)
{
	cr_assert_eq(run("--what", NULL, NULL), 2);
	cr_assert_eq(run(NULL, NULL, NULL), 2);
	cr_assert_eq(run("a", "b", NULL), 2);
	stderr_has("Usage: spoor inspect FILE|PID");
}

static char *stdout_all(void)
{
	static char buf[1 << 20];
	FILE *f = cr_get_redirected_stdout();
	size_t n = 0, got;

	(void)fflush(stdout);
	(void)fclose(stdout);
	while (n < sizeof(buf) - 1 && (got = fread(buf + n, 1, sizeof(buf) - 1 - n, f)) > 0)
		n += got;
	buf[n] = 0;
	return buf;
}

Test(inspect, text_names_version_functions_fields_and_where_they_come_from,
     .init = cr_redirect_stdout)
{
	const char *out;

	cr_assert_eq(run_bin("go1.26", "--modules"), 0);
	out = stdout_all();
	cr_assert_neq(strstr(out, "go1.26."), NULL);
	cr_assert_neq(strstr(out, "example.com/dep.go"), NULL);
	cr_assert_neq(strstr(out, "net/http.serverHandler.ServeHTTP"), NULL);
	cr_assert_neq(strstr(out, "behind check, emulated"), NULL);
	cr_assert_neq(strstr(out, "type metadata"), NULL);
	cr_assert_neq(strstr(out, "is not in the binary"), NULL, "what is missing is told");
}

Test(inspect, sdks_that_a_program_does_not_have_are_one_line, .init = cr_redirect_stdout)
{
	const char *out, *line;

	cr_assert_eq(run_bin("go1.26", NULL), 0);
	out = stdout_all();
	line = strstr(out, "\ntracing SDKs that are not in the binary: ");
	cr_assert_neq(line, NULL, "%s", out);
	cr_expect_neq(strstr(line, "OpenTelemetry"), NULL, "%s", line);
	cr_expect_null(strstr(out, "\notel_sdk: "), "%s", out);
	cr_expect_neq(strstr(out, "\nnet_http: "), NULL, "%s", out);
}

Test(inspect, json_holds_the_same_for_programs, .init = cr_redirect_stdout)
{
	json_error_t error;
	json_t *root, *lib = NULL, *field;
	const char *source;
	size_t found = 0, i;

	cr_assert_eq(run_bin("go1.27.pie", "--json"), 0);
	root = json_loads(stdout_all(), 0, &error);
	cr_assert_neq(root, NULL, "%s", error.text);
	cr_assert_eq(strncmp(json_string_value(json_object_get(root, "go_version")), "go1.27.", 7),
		     0);
	cr_assert(json_is_true(json_object_get(root, "pie")));
	cr_assert_eq(json_array_size(json_object_get(root, "modules")), 3);
	json_array_foreach(json_object_get(root, "libraries"), i, lib)
	{
		if (strcmp(json_string_value(json_object_get(lib, "name")), "net_http") == 0)
			break;
	}
	cr_assert_neq(lib, NULL);
	cr_assert(json_is_true(
		json_object_get(json_array_get(json_object_get(lib, "parts"), 0), "whole")));
	cr_assert_gt(json_array_size(json_object_get(lib, "functions")), 0);
	json_array_foreach(json_object_get(lib, "fields"), i, field)
	{
		source = json_string_value(json_object_get(field, "source"));
		found += strcmp(source, "type metadata") == 0;
		cr_assert_eq(strchr(json_string_value(json_object_get(field, "type")), '|') !=
					     NULL &&
				     strcmp(source, "not found") != 0,
			     0, "the alternative that was found is named alone");
	}
	cr_assert_gt(found, 10);
	json_decref(root);
}

Test(inspect, bytes_of_the_file_do_not_reach_the_terminal_raw)
{
	auto_gobin struct gobin *g = bin_open("go1.26");
	auto_plan struct plan *p = NULL;
	struct runtime_plan runtime;
	char *out = NULL;
	size_t n = 0;
	FILE *f = open_memstream(&out, &n);

	cr_assert_eq(plan_make(&p, g, ~0u), 0);
	cr_assert_eq(runtime_plan(&runtime, g), 0);
	inspect_text(f,
		     &(struct inspect){
			     .name = "evil\033[2Jname", .g = g, .plan = p, .runtime = &runtime });
	(void)fclose(f);
	cr_assert_eq(strncmp(out, "evil?[2Jname", 12), 0);
	free(out);
}
