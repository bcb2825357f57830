/* main.c - the sub-commands: finds the one that was meant, explains it, runs it. */
#include "base/config.h"
#include "base/option.h"
#include "commands.h"

#include <stdio.h>

/* Weak, each: a build that leaves a command out still links, and says so when it is called. */
#pragma weak agent_main
#pragma weak check_main
int inspect_main(int argc, char **argv) __attribute__((weak));

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *what; /* one line */
	const char *help; /* usage, what it does, examples */
	bool options;     /* takes those of the configuration */
};

static int help_main(int argc, char **argv);

static const struct command commands[] = {
	{ "agent", agent_main,
	  "traces Go programs on this machine and sends their spans to a collector",
	  "Usage: spoor agent [options]\n\n"
	  "Finds Go programs in annotated pods (through the node's kubelet) or by path or pid, "
	  "attaches BPF uprobes to them and\n"
	  "exports what they served and called as OpenTelemetry spans. Runs until SIGTERM or "
	  "SIGINT; then it detaches, flushes\n"
	  "what it has and ends (a second signal ends it at once). Needs the capabilities BPF, "
	  "PERFMON, SYS_PTRACE and\n"
	  "DAC_READ_SEARCH, with --propagation headers NET_ADMIN, with write SYS_ADMIN, too; "
	  "`spoor "
	  "check` tells what "
	  "this machine gives.\n\n"
	  "Examples:\n"
	  "  trace one program on a laptop and print its spans\n"
	  "    spoor agent --discovery-executables '/home/me/app/*' "
	  "--exporters stdout\n"
	  "  the same, and requests of HTTP/1 that it sends carry a traceparent\n"
	  "    spoor agent --discovery-executables '/home/me/app/*' "
	  "--exporters stdout --propagation headers\n"
	  "  send to a collector elsewhere, one request in ten\n"
	  "    spoor agent --config /etc/spoor.yaml --otlp-endpoint http://collector:4318 \\\n"
	  "      --traces-sampler parentbased_traceidratio --traces-sampler-arg 0.1\n"
	  "  look at it while it runs\n"
	  "    curl localhost:9464/status\n",
	  true },
	{ "inspect", inspect_main,
	  "shows what spoor can trace in a Go program, and what is missing",
	  "Usage: spoor inspect FILE|PID [--modules] [--json]\n\n"
	  "Reads a Go executable (of a file or a running process) as the agent would: Go version, "
	  "modules and, for each library,\n"
	  "the functions found, the offsets of the fields with where each came from, and what is "
	  "lost without those that are\n"
	  "missing. Changes nothing and needs no rights but to read the file. --modules lists the "
	  "modules that were linked in;\n"
	  "--json prints all of it for programs. A number is a process; a file of that name is "
	  "./4711. Ends with 1 when the\n"
	  "file is refused, and says why.\n\n"
	  "Examples:\n"
	  "  spoor inspect ./server\n"
	  "  spoor inspect 4711 --json\n",
	  false },
	{ "check", check_main, "checks whether this machine and these rights let spoor work",
	  "Usage: spoor check [--json] [options]\n\n"
	  "Tries everything the agent needs, one line each: capabilities, kernel, uprobe_multi, "
	  "PID namespace, seccomp, AppArmor,\n"
	  "kubelet, collector - with its state, what is lost without it, and what to do. Ends with "
	  "1 when something essential is\n"
	  "missing. Takes the options of the agent, so that it asks the same kubelet and "
	  "collector.\n\n"
	  "Examples:\n"
	  "  spoor check\n"
	  "  kubectl exec ds/spoor -- spoor check --json\n",
	  true },
	{ "config", config_main,
	  "shows the configuration in effect, and where each value came from",
	  "Usage: spoor config [--json | --defaults] [options]\n\n"
	  "Reads the same file, variables and flags as the agent and prints each value with its "
	  "source. Values of otlp.headers\n"
	  "are hidden. --defaults prints a commented YAML file with every option at its default. "
	  "Ends with 1 when the\n"
	  "configuration is refused.\n\n"
	  "Examples:\n"
	  "  spoor config --config /etc/spoor.yaml\n"
	  "  spoor config --defaults > spoor.yaml\n",
	  true },
	{ "version", version_main, "shows the version and the libraries that are traced",
	  "Usage: spoor version [--json]\n", false },
	{ "help", help_main, "explains a command: spoor help agent",
	  "Usage: spoor help [COMMAND]\n", false },
};

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static void usage(FILE *f)
{
	(void)fputs("spoor traces Go programs without changing them: BPF probes in, OpenTelemetry "
		    "spans out.\n\n"
		    "Usage: spoor COMMAND [flags]\n\nCommands:\n",
		    f);
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		(void)fprintf(f, "  %-8s %s\n", commands[i].name, commands[i].what);
	(void)fputs("\n`spoor COMMAND --help` explains one.\n", f);
}

static void explain(const struct command *c)
{
	(void)fputs(c->help, stdout);
	if (c->options) {
		(void)putchar('\n');
		config_usage(stdout);
	}
}

static int unknown(const char *name)
{
	const char *names[ARRAY_SIZE(commands) + 1], *near;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		names[i] = commands[i].name;
	names[ARRAY_SIZE(commands)] = NULL;
	near = option_nearest(name, names);
	(void)fprintf(stderr, "spoor: there is no command '%s'", name);
	if (near)
		(void)fprintf(stderr, ", did you mean '%s'?", near);
	(void)fputs("\n\n", stderr);
	usage(stderr);
	return EXIT_USAGE;
}

static int help_main(int argc, char **argv)
{
	const struct command *c;

	if (argc < 2) {
		usage(stdout);
		return 0;
	}
	c = find(argv[1]);
	if (!c)
		return unknown(argv[1]);
	explain(c);
	return 0;
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	return false;
}

int main(int argc, char **argv)
{
	const struct command *c;

	if (argc < 2) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		argv[1] = "help";
	else if (strcmp(argv[1], "--version") == 0)
		argv[1] = "version";
	c = find(argv[1]);
	if (!c)
		return unknown(argv[1]);
	if (asks_for_help(argc - 1, argv + 1)) {
		explain(c);
		return 0;
	}
	if (!c->run) {
		(void)fprintf(stderr, "spoor: this build has no command '%s'\n", c->name);
		return 1;
	}
	return c->run(argc - 1, argv + 1);
}
