#include "check.h"

#include "base/config.h"
#include "base/log.h"
#include "commands.h"
#include "propagate/propagate.h"
#include "trace/attach.h"

#include <jansson.h>
#include <stdio.h>

const char *const check_state_names[CHECK_STATES] = {
	[CHECK_OK] = "ok",
	[CHECK_DEGRADED] = "degraded",
	[CHECK_MISSING] = "missing",
	[CHECK_SKIPPED] = "skipped",
};

struct check *check_add(struct checks *c, const char *name, enum check_state state,
			const char *cost, const char *todo)
{
	struct check *row = &c->v[c->n < CHECKS_MAX ? c->n++ : CHECKS_MAX - 1];
	bool lost = state == CHECK_DEGRADED || state == CHECK_MISSING;

	*row = (struct check){
		.name = name, .state = state, .cost = lost ? cost : "", .todo = lost ? todo : ""
	};
	return row;
}

const struct check *check_find(const struct checks *c, const char *name)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->v[i].name, name) == 0)
			return &c->v[i];
	return NULL;
}

void check_log(const struct checks *c)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct check *row = &c->v[i];

		if (*row->cost)
			log_write(row->state == CHECK_MISSING ? LOG_ERROR : LOG_WARN,
				  "check: %s is %s (%s): %s; %s", row->name,
				  check_state_names[row->state], row->found, row->cost, row->todo);
	}
}

int check_json(const struct checks *c, struct json_t *root, const char *key)
{
	json_t *rows = json_array();

	for (size_t i = 0; i < c->n; i++) {
		const struct check *row = &c->v[i];

		json_array_append_new(rows,
				      json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", row->name,
						"state", check_state_names[row->state], "found",
						row->found, "cost", row->cost, "todo", row->todo));
	}
	return json_object_set_new(root, key, rows) == 0 ? 0 : -ENOMEM;
}

void check_attached(struct checks *out, int err, const struct attach_kernel *k)
{
	struct check *row = check_add(out, "uprobe_multi", err ? CHECK_MISSING : CHECK_OK,
				      "probes cannot be attached: nothing is traced",
				      err == -ENOTSUP ? "a kernel of version 6.6 or newer is needed"
						      : "see the rows above, and the log");

	(void)snprintf(row->found, sizeof(row->found), "%s",
		       err ? strerror(-err)
			   : "links work, and touch only the process that is meant");
	if (err)
		return;
	row = check_add(out, "exec notification", k->exec_events ? CHECK_OK : CHECK_DEGRADED,
			"new processes are found by scanning /proc only: their first seconds are "
			"not traced",
			"see the log");
	(void)snprintf(row->found, sizeof(row->found), "%s",
		       !k->exec_events        ? "refused"
		       : k->own_pid_namespace ? "works, as a hint to scan: the kernel's process "
						"numbers are others than here"
					      : "works");
}

void check_propagation(struct checks *out, const struct config *cfg, const struct attach *a)
{
	bool wanted = strcmp(cfg->propagation, "off") != 0;
	const struct propagate *p = a && wanted ? attach_propagate(a) : NULL;
	const char *off = p ? propagate_off(p) : "not tried";
	struct check *row =
		check_add(out, "propagation",
			  !wanted ? CHECK_SKIPPED
			  : off   ? CHECK_DEGRADED
				  : CHECK_OK,
			  "requests of traced programs go out without a traceparent: who gets them "
			  "begins a trace of its own",
			  "see what was found; CAP_NET_ADMIN is added by the chart's "
			  "config.propagation: headers, and write");

	if (!wanted)
		(void)snprintf(row->found, sizeof(row->found), "off (propagation)");
	else if (off)
		(void)snprintf(row->found, sizeof(row->found), "%s", off);
	else
		(void)snprintf(row->found, sizeof(row->found),
			       "headers: works, tried on a connection of our own%s",
			       propagate_kernel(p)->fionread_zero
				       ? "; this kernel's FIONREAD says 0 on sockets of traced "
					 "programs: Go never asks, C code in them might"
				       : "");
}

void check_writing(struct checks *out, const struct config *cfg, const struct attach *a)
{
	bool wanted = strcmp(cfg->propagation, "write") == 0;
	const struct propagate *p = a && wanted ? attach_propagate(a) : NULL;
	const char *off = p ? propagate_write_off(p) : "not tried";
	struct check *row;

	if (!wanted)
		return;
	row = check_add(out, "propagation_write", off ? CHECK_DEGRADED : CHECK_OK,
			"requests over TLS, of HTTP/2 and of gRPC go out without a traceparent",
			"see what was found; CAP_SYS_ADMIN is added by the chart's "
			"config.propagation: write, lockdown is the node's own");
	(void)snprintf(row->found, sizeof(row->found), "%s",
		       off ? off : "works: the kernel lets programs' memory be written");
}

static void print_table(const struct checks *c)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct check *row = &c->v[i];

		printf("%-9s %-28s %s\n", check_state_names[row->state], row->name, row->found);
		if (*row->cost)
			printf("%-9s %-28s lost:  %s\n%-9s %-28s to do: %s\n", "", "", row->cost,
			       "", "", row->todo);
	}
}

static void print_json(const struct checks *c, bool ok)
{
	json_t *root = json_pack("{s:b}", "ok", ok);

	if (root && check_json(c, root, "checks") == 0)
		(void)json_dumpf(root, stdout, JSON_INDENT(2));
	(void)putchar('\n');
	json_decref(root);
}

static void run(struct checks *c, const struct config *cfg)
{
	struct attach *attach = NULL;
	int err;

	check_system(c, cfg);
	err = attach_open(&attach, cfg);
	check_attached(c, err, err ? NULL : attach_kernel(attach));
	check_propagation(c, cfg, attach);
	check_writing(c, cfg, attach);
	attach_close(&attach);
	check_network(c, cfg);
}

int check_main(int argc, char **argv)
{
	bool json = false;
	const struct config_switch switches[] = { { "--json", &json, "as JSON" },
						  { NULL, NULL, NULL } };
	auto_config struct config *cfg = NULL;
	auto_free struct checks *c = calloc(1, sizeof(*c));
	int rest, r = config_load_with(&cfg, argc, argv, &rest, switches);
	bool ok = true;

	if (r || !c)
		return r == 1 ? 0 : 1;
	if (rest < argc) {
		(void)fprintf(stderr, "spoor check: '%s' is not a flag\n", argv[rest]);
		return EXIT_USAGE;
	}
	log_setup_config(cfg);
	run(c, cfg);
	for (size_t i = 0; i < c->n; i++)
		ok = ok && c->v[i].state != CHECK_MISSING;
	if (json)
		print_json(c, ok);
	else
		print_table(c);
	return ok && fflush(stdout) == 0 ? 0 : 1;
}
