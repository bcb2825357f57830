#include "discover/status.h"

#include "base/config.h"
#include "discover/pod.h"
#include "discover/roster.h"
#include "discover/worker.h"
#include "trace/lib.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define ID "1111111111111111111111111111111111111111111111111111111111111111"

static struct config cfg = { .discovery_mode = "annotation", .annotation_prefix = "spoor.dev" };
static struct roster *roster;
static struct pods *pods;
static json_t *root;

static void set_up(void)
{
	static const char list[] =
		"{\"kind\": \"PodList\", \"items\": [{\"metadata\": {\"uid\": \"u1\", \"name\": "
		"\"cart\", \"namespace\": \"shop\","
		" \"annotations\": {\"spoor.dev/instrument\": \"true\"}}, \"spec\": "
		"{\"containers\": [{\"name\": \"app\"}]},"
		" \"status\": {\"phase\": \"Running\", \"containerStatuses\": [{\"name\": \"app\", "
		"\"containerID\":"
		" \"containerd://" ID "\"}]}}, {\"metadata\": {\"uid\": \"u2\", \"name\": "
		"\"admin\", \"namespace\": \"shop\"}}]}";
	char err[160];

	cr_assert_eq(roster_new(&roster), 0);
	cr_assert_eq(pods_parse(&pods, list, strlen(list), err, sizeof(err)), 0, "%s", err);
	root = json_object();
}

static void tear_down(void)
{
	json_decref(root);
	roster_free(&roster);
	pods_free(&pods);
}

static struct entry *add(int pid, const char *exe)
{
	struct process proc = { .pid = pid, .start_time = 1, .container_id = ID };

	(void)snprintf(proc.exe, sizeof(proc.exe), "%s", exe);
	return roster_add(roster, &proc);
}

static const json_t *append(const char *what, size_t i)
{
	const struct status status = { .cfg = &cfg, .roster = roster, .pods = pods };

	cr_assert_eq(status_append(&status, root), 0);
	return json_array_get(json_object_get(root, what), i);
}

static const char *text(const json_t *j, const char *key)
{
	const char *value = json_string_value(json_object_get(j, key));

	return value ? value : "(none)";
}

TestSuite(status, .init = set_up, .fini = tear_down);

Test(status, a_process_is_shown_with_its_pod_container_state_and_reason)
{
	struct entry *e = add(42, "/app/server");
	const json_t *j;

	roster_set(roster, e, ROSTER_TRACED, "annotation spoor.dev/instrument is \"true\"");
	e->result = calloc(1, sizeof(*e->result));
	e->result->outcome = WORKER_TRACED;
	e->result->nprobes = 3;
	(void)snprintf(e->result->go_version, sizeof(e->result->go_version), "go1.26.8");
	j = append("processes", 0);
	cr_expect_str_eq(text(j, "executable"), "/app/server");
	cr_expect_str_eq(text(j, "namespace"), "shop");
	cr_expect_str_eq(text(j, "pod"), "cart");
	cr_expect_str_eq(text(j, "container"), "app");
	cr_expect_str_eq(text(j, "state"), "traced");
	cr_expect_str_eq(text(j, "reason"), "annotation spoor.dev/instrument is \"true\"");
	cr_expect_str_eq(text(j, "go_version"), "go1.26.8");
	cr_expect_eq(json_integer_value(json_object_get(j, "probes")), 3);
	cr_expect(json_is_null(json_object_get(j, "last_event")));
}

Test(status, an_sdk_that_the_program_does_not_have_is_not_told_of)
{
	struct entry *e = add(42, "/app/server");
	const json_t *libs, *one;
	size_t i, sdks = 0;

	roster_set(roster, e, ROSTER_TRACED, "yes");
	e->result = calloc(1, sizeof(*e->result));
	e->result->outcome = WORKER_TRACED;
	for (i = 0; i < lib_count(); i++)
		sdks += e->result->absent[i] = lib_at(i)->sdk;
	cr_assert(sdks);
	libs = json_object_get(append("processes", 0), "libraries");
	cr_expect_eq(json_array_size(libs), lib_count() - sdks);
	json_array_foreach(libs, i, one) cr_expect_null(strstr(text(one, "name"), "_sdk"));
}

Test(status, every_pod_is_shown_with_its_reason_and_the_number_of_its_processes)
{
	const json_t *cart, *admin;

	roster_set(roster, add(42, "/app/server"), ROSTER_TRACED, "yes");
	roster_set(roster, add(43, "/bin/sh"), ROSTER_NOT_GO, "no");
	cart = append("pods", 0);
	admin = json_array_get(json_object_get(root, "pods"), 1);
	cr_expect_str_eq(text(cart, "name"), "cart");
	cr_expect(json_is_true(json_object_get(cart, "selected")));
	cr_expect_eq(json_integer_value(json_object_get(cart, "processes")), 2);
	cr_expect_eq(json_integer_value(json_object_get(cart, "traced")), 1);
	cr_expect_str_eq(text(admin, "reason"), "no annotation spoor.dev/instrument");
	cr_expect(json_is_false(json_object_get(admin, "selected")));
	cr_expect_eq(json_integer_value(json_object_get(admin, "processes")), 0);
	cr_expect(json_is_false(json_object_get(json_object_get(root, "kubelet"), "asked")));
}

Test(status, names_that_are_no_utf8_do_not_spoil_the_page)
{
	struct entry *e = add(42, "/app/\xff\xfe/server");
	auto_free char *page = NULL;

	roster_set(roster, e, ROSTER_FAILED, "cut in the middle of \xc3");
	cr_expect_str_eq(text(append("processes", 0), "executable"), "/app/?"
								     "?/server");
	cr_expect_str_eq(text(json_array_get(json_object_get(root, "processes"), 0), "reason"),
			 "cut in the middle of ?");
	page = json_dumps(root, 0);
	cr_expect(page);
}
