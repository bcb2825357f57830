/* commands.h - the sub-commands of spoor. Each gets its own name as argv[0] and returns the exit
 * code: 0 done, 1 failed, 2 was called wrongly. main() has printed the introduction already when
 * --help is among the arguments. */
#pragma once
#include <stdbool.h>

#define EXIT_USAGE 2

int agent_main(int argc, char **argv);
int check_main(int argc, char **argv);
int config_main(int argc, char **argv);
int version_main(int argc, char **argv);

const char *version_arch(void);   /* "amd64", "arm64": as Go and Kubernetes say it */
const char *version_libbpf(void); /* "1.4.0" */
