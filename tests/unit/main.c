/* The command line as a person meets it: the real program, run as a process. */
#include "base/base.h"
#include "base/option.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/wait.h>

#define SPOOR BUILD_DIR "/spoor"

static char out[262144];

/* Runs `spoor ARGS`; stdout and stderr go to out. Exit code. */
static int spoor(const char *args)
{
	char line[1024];
	FILE *f;
	size_t n;

	(void)snprintf(line, sizeof(line), "env -i %s " SPOOR " %s 2>&1",
		       getenv("WITH") ? getenv("WITH") : "", args);
	f = popen(line, "r");
	cr_assert(f);
	n = fread(out, 1, sizeof(out) - 1, f);
	out[n] = '\0';
	n = (size_t)pclose(f);
	return WIFEXITED((int)n) ? WEXITSTATUS((int)n) : -1;
}

static const char *const commands[] = { "agent", "inspect", "check", "config", "version" };

Test(main, without_a_command_it_lists_them_and_fails)
{
	cr_assert_eq(spoor(""), 2);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		cr_expect(strstr(out, commands[i]), "%s", commands[i]);
}

Test(main, help_lists_the_commands_and_succeeds)
{
	cr_assert_eq(spoor("--help"), 0);
	cr_assert(strstr(out, "Usage: spoor COMMAND"));
	cr_assert_eq(spoor("help"), 0);
	cr_assert_eq(spoor("-h"), 0);
}

Test(main, each_command_explains_itself_both_ways)
{
	char args[64], usage[64];

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		(void)snprintf(usage, sizeof(usage), "Usage: spoor %s", commands[i]);
		(void)snprintf(args, sizeof(args), "%s --help", commands[i]);
		cr_expect_eq(spoor(args), 0);
		cr_expect(strstr(out, usage), "%s", out);
		(void)snprintf(args, sizeof(args), "help %s", commands[i]);
		cr_expect_eq(spoor(args), 0);
		cr_expect(strstr(out, usage));
	}
}

Test(main, the_help_of_the_agent_names_every_option_with_its_default_and_variable)
{
	char flag[OPTION_NAME];

	cr_assert_eq(spoor("agent --help"), 0);
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		option_flag(&options[i], flag);
		cr_expect(strstr(out, flag), "%s", flag);
		cr_expect(strstr(out, options[i].help), "%s", flag);
	}
	cr_assert(strstr(out, "OTEL_EXPORTER_OTLP_ENDPOINT"));
	cr_assert(strstr(out, "Examples:"));
}

Test(main, an_unknown_command_is_refused_with_the_nearest)
{
	cr_assert_eq(spoor("agnet"), 2);
	cr_assert(strstr(out, "there is no command 'agnet', did you mean 'agent'?"), "%s", out);
	cr_assert_eq(spoor("help chekc"), 2);
	cr_assert(strstr(out, "did you mean 'check'?"));
}

Test(main, version_tells_version_and_libraries_also_as_json)
{
	json_t *root;

	cr_assert_eq(spoor("version"), 0);
	cr_assert_eq(strncmp(out, "spoor ", 6), 0);
	cr_assert(strstr(out, "traces: "));
	cr_assert_eq(spoor("--version"), 0);
	cr_assert_eq(spoor("version --json"), 0);
	root = json_loads(out, 0, NULL);
	cr_assert(root);
	cr_assert_gt(json_array_size(json_object_get(root, "libraries")), 0);
	cr_assert(*json_string_value(json_object_get(root, "version")));
	json_decref(root);
	cr_assert_eq(spoor("version --xml"), 2);
}

Test(main, config_shows_what_is_in_effect_and_refuses_what_is_wrong)
{
	json_t *root;

	cr_assert_eq(spoor("config --batch-spans 7"), 0);
	cr_assert(strstr(out, "# flag --batch-spans"));
	cr_assert_eq(spoor("config --json --batch-spans 7"), 0);
	root = json_loads(out, 0, NULL);
	cr_assert_eq(
		json_integer_value(json_object_get(json_object_get(root, "batch.spans"), "value")),
		7);
	json_decref(root);
	cr_assert_eq(spoor("config --batch-spans many"), 1);
	cr_assert_eq(spoor("config extra"), 2);
}

Test(main, the_agent_refuses_a_bad_configuration_before_it_touches_anything)
{
	cr_assert_eq(spoor("agent --batch-spans many"), 2);
	cr_assert(strstr(out, "'many'"));
	cr_assert_eq(spoor("agent --otlp-endpoint ftp://x"), 2);
	cr_assert(strstr(out, "'ftp://x'"));
	cr_assert_eq(spoor("agent extra"), 2);
}

Test(main, check_prints_a_table_and_json_with_the_same_rows)
{
	json_t *root, *row;
	size_t i;
	auto_free char *table = NULL;
	int code = spoor("check --exporters none"), json_code;

	table = strdup(out);
	cr_assert(code == 0 || code == 1, "%d: %s", code, out);
	json_code = spoor("check --json --exporters none 2>/dev/null");
	cr_assert_eq(json_code, code);
	root = json_loads(out, 0, NULL);
	cr_assert(root, "%s", out);
	cr_assert_eq(json_is_true(json_object_get(root, "ok")), code == 0);
	cr_assert_geq(json_array_size(json_object_get(root, "checks")), 14);
	json_array_foreach(json_object_get(root, "checks"), i, row)
	{
		const char *state = json_string_value(json_object_get(row, "state"));
		bool lost = strcmp(state, "missing") == 0 || strcmp(state, "degraded") == 0;

		cr_expect(strstr(table, json_string_value(json_object_get(row, "name"))));
		cr_expect_eq(*json_string_value(json_object_get(row, "cost")) != '\0', lost,
			     "each lack has its cost");
		cr_expect_eq(*json_string_value(json_object_get(row, "todo")) != '\0', lost,
			     "and what to do");
	}
	json_decref(root);
}

Test(main, without_capabilities_check_names_each_one_and_fails)
{
	if (geteuid() != 0)
		cr_skip_test("only root can give capabilities away");
	(void)setenv("WITH", "setpriv --bounding-set=-all --inh-caps=-all", 1);
	cr_assert_eq(spoor("check --exporters none"), 1);
	cr_assert(strstr(out, "missing   CAP_BPF"), "%s", out);
	cr_assert(strstr(out, "missing   CAP_PERFMON"));
	cr_assert(strstr(out, "missing   CAP_SYS_PTRACE"));
	cr_assert(strstr(out, "degraded  CAP_DAC_READ_SEARCH"));
	cr_assert(strstr(out, "missing   uprobe_multi"));
}

Test(main, a_signal_while_a_failing_start_is_taken_down_is_not_told_as_a_second_one)
{
	(void)setenv("WITH",
		     "python3 -c 'import os, signal, sys; "
		     "signal.pthread_sigmask(signal.SIG_BLOCK, [15]); os.kill(os.getpid(), 15); "
		     "os.execvp(sys.argv[1], sys.argv[1:])' "
		     "setpriv --bounding-set=-all --inh-caps=-all",
		     1);
	cr_assert_eq(spoor("agent --kubelet-source none --discovery-pids 1 --admin-port 0"), 1,
		     "%s", out);
	cr_assert_not(strstr(out, "second signal"), "%s", out);
	cr_assert(strstr(out, "level=error"), "%s", out);
}
