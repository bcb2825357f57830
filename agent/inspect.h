/* inspect.h - `spoor inspect`: what of a Go program can be traced, and why not the rest. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

struct gobin;
struct json_t;
struct plan;
struct runtime_numbers;
struct runtime_plan;

int inspect_main(int argc, char **argv);

struct inspect {
	const char *name; /* the file as it was asked for; of a process what /proc says */
	int pid;          /* 0: a file */
	bool modules;     /* list them all */
	double seconds;   /* that the analysis took */
	const struct gobin *g;
	const struct plan *plan;
	const struct runtime_plan *runtime;
	const struct runtime_numbers *now; /* of the process; NULL: of a file, or not to be had */
};

/* inspect_runtime.c: the part about what Go's runtime says. */
void inspect_runtime_text(FILE *f, const struct inspect *in);
struct json_t *inspect_runtime_json(const struct inspect *in);

/* For people. */
void inspect_text(FILE *f, const struct inspect *in);
/* One JSON object and a newline. 0 or -ENOMEM. */
int inspect_json(FILE *f, const struct inspect *in);
