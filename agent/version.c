#include "version.h"
#include "commands.h"
#include "trace/lib.h"

#include <bpf/libbpf.h>
#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>

const char *version_arch(void)
{
#if defined(__x86_64__)
	return "amd64";
#elif defined(__aarch64__)
	return "arm64";
#else
#error "no Go register ABI is known for this machine"
#endif
}

const char *version_libbpf(void)
{
	const char *v = libbpf_version_string();

	return *v == 'v' ? v + 1 : v;
}

static void print_json(void)
{
	json_t *libs = json_array(), *root;

	lib_foreach (l)
		json_array_append_new(libs, json_string((*l)->name));
	root = json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}", "version", SPOOR_VERSION, "revision",
			 SPOOR_REVISION, "arch", version_arch(), "libbpf", version_libbpf(), "curl",
			 curl_version_info(CURLVERSION_NOW)->version, "libraries", libs);
	(void)json_dumpf(root, stdout, JSON_INDENT(2));
	(void)putchar('\n');
	json_decref(root);
}

static void print_text(void)
{
	printf("spoor %s%s%s%s %s, libbpf %s, curl %s\ntraces:", SPOOR_VERSION,
	       *SPOOR_REVISION ? " (" : "", SPOOR_REVISION, *SPOOR_REVISION ? ")" : "",
	       version_arch(), version_libbpf(), curl_version_info(CURLVERSION_NOW)->version);
	lib_foreach (l)
		if (!(*l)->sdk)
			printf(" %s", (*l)->name);
	printf("\ntells tracing SDKs:");
	lib_foreach (l)
		if ((*l)->sdk)
			printf(" %s", (*l)->name);
	(void)putchar('\n');
}

int version_main(int argc, char **argv)
{
	if (argc > 2 || (argc == 2 && strcmp(argv[1], "--json") != 0)) {
		(void)fprintf(stderr, "spoor version: '%s' is not understood; only --json is\n",
			      argv[argc - 1]);
		return EXIT_USAGE;
	}
	(argc == 2 ? print_json : print_text)();
	return 0;
}
