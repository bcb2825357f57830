#include "discover/pod.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/resource.h>

#define ID1 "1111111111111111111111111111111111111111111111111111111111111111"
#define ID2 "2222222222222222222222222222222222222222222222222222222222222222"
#define ID3 "3333333333333333333333333333333333333333333333333333333333333333"
#define ID4 "4444444444444444444444444444444444444444444444444444444444444444"

#define LIST(items)                                                                                \
	"{\"kind\": \"PodList\", \"apiVersion\": \"v1\", \"metadata\": {}, \"items\": [" items "]" \
	"}"
#define POD(uid, name, more)                                                                       \
	"{\"metadata\": {\"uid\": \"" uid "\", \"name\": \"" name "\", \"namespace\": "            \
	"\"shop\"" more

static struct pods *parse(const char *json)
{
	struct pods *pods = NULL;
	char err[160];
	int res = pods_parse(&pods, json, strlen(json), err, sizeof(err));

	cr_assert_eq(res, 0, "%d: %s", res, err);
	return pods;
}

static void refuse(const char *json, size_t len, int want, const char *text)
{
	struct pods *pods = (struct pods *)8;
	char err[160];

	cr_expect_eq(pods_parse(&pods, json, len, err, sizeof(err)), want, "%.60s: %s", json, err);
	cr_expect_eq(pods, (struct pods *)8, "*out is written on success only");
	cr_expect(strstr(err, text), "'%s' is not in '%s'", text, err);
}

static const char cart[] = POD(
	"u1", "cart-7d9f8-x2x",
	", \"labels\": {\"app\": \"cart\", \"pod-template-hash\": \"7d9f8\"},"
	" \"annotations\": {\"spoor.dev/instrument\": \"true\"},"
	" \"ownerReferences\": [{\"kind\": \"Other\", \"name\": \"no\", \"uid\": \"o0\"},"
	" {\"kind\": \"ReplicaSet\", \"name\": \"cart-7d9f8\", \"uid\": \"o1\", \"controller\": "
	"true}]},"
	" \"spec\": {\"nodeName\": \"node-1\", \"hostNetwork\": true, \"shareProcessNamespace\": "
	"true,"
	" \"containers\": [{\"name\": \"app\", \"image\": \"shop/cart:1\","
	"  \"livenessProbe\": {\"httpGet\": {\"path\": \"/live?full=1\", \"port\": 80}},"
	"  \"readinessProbe\": {\"httpGet\": {\"port\": 80}},"
	"  \"startupProbe\": {\"tcpSocket\": {\"port\": 80}}},"
	"  {\"name\": \"side\", \"image\": \"shop/side:1\", \"startupProbe\": {\"httpGet\": "
	"{\"path\": \"start\"}}}],"
	" \"initContainers\": [{\"name\": \"migrate\", \"image\": \"m\"},"
	"  {\"name\": \"proxy\", \"image\": \"p\", \"restartPolicy\": \"Always\"}],"
	" \"ephemeralContainers\": [{\"name\": \"debug\", \"image\": \"d\"}]},"
	" \"status\": {\"phase\": \"Running\", \"podIP\": \"10.0.0.9\", \"startTime\": "
	"\"2026-11-30T10:00:00Z\","
	" \"containerStatuses\": [{\"name\": \"side\", \"containerID\": \"containerd://" ID2
	"\", \"restartCount\": 3,"
	"  \"image\": \"docker.io/shop/side:1\", \"imageID\": \"docker.io/shop/side@sha256:ab\","
	"  \"state\": {\"running\": {\"startedAt\": \"x\"}}},"
	"  {\"name\": \"app\", \"containerID\": \"cri-o://" ID1 "\", \"restartCount\": 0,"
	"  \"state\": {\"terminated\": {\"exitCode\": 1}}}],"
	" \"initContainerStatuses\": [{\"name\": \"proxy\", \"containerID\": \"docker://" ID3
	"\"}],"
	" \"ephemeralContainerStatuses\": [{\"name\": \"debug\", \"containerID\": "
	"\"containerd://" ID4 "\"}]}}");

static char *list_of_cart(void)
{
	char *json = NULL;

	cr_assert(asprintf(&json, "{\"kind\": \"PodList\", \"items\": [%s]}", cart) > 0);
	return json;
}

Test(pod, a_pod_is_read_with_all_its_kinds_of_containers)
{
	auto_free char *json = list_of_cart();
	auto_pods struct pods *pods = parse(json);
	const struct pod *p = pods_at(pods, 0), *found = NULL;
	const struct container *c;

	cr_assert_eq(pods_count(pods), 1);
	cr_expect_str_eq(p->uid, "u1");
	cr_expect_str_eq(p->cgroup_uid, "u1");
	cr_expect_str_eq(p->name, "cart-7d9f8-x2x");
	cr_expect_str_eq(p->namespace_, "shop");
	cr_expect_str_eq(p->node, "node-1");
	cr_expect_str_eq(p->phase, "Running");
	cr_expect_str_eq(p->ip, "10.0.0.9");
	cr_expect_str_eq(p->start_time, "2026-11-30T10:00:00Z");
	cr_expect_str_eq(p->owner_kind, "ReplicaSet");
	cr_expect_str_eq(p->owner_name, "cart-7d9f8");
	cr_expect_not(p->mirror);
	cr_expect_str_eq(pod_label(p, "pod-template-hash"), "7d9f8");
	cr_expect_str_eq(pod_annotation(p, "spoor.dev/instrument"), "true");
	cr_expect_null(pod_label(p, "spoor.dev/instrument"));
	cr_assert_eq(p->ncontainers, 5);

	c = pods_find(pods, ID2, &found);
	cr_assert(c && found == p);
	cr_expect_str_eq(c->name, "side");
	cr_expect_str_eq(c->image, "docker.io/shop/side:1");
	cr_expect_str_eq(c->image_id, "docker.io/shop/side@sha256:ab");
	cr_expect(c->running);
	cr_expect_eq(c->restart_count, 3);
	c = pods_find(pods, ID1, &found);
	cr_assert(c);
	cr_expect_str_eq(c->image, "shop/cart:1", "of the spec while the status has none");
	cr_expect_not(c->running);
	c = pods_find(pods, ID3, &found);
	cr_assert(c);
	cr_expect_str_eq(c->name, "proxy", "an init container that goes on");
	c = pods_find(pods, ID4, &found);
	cr_assert(c);
	cr_expect_str_eq(c->name, "debug", "an ephemeral one");
	cr_expect_null(pods_find(pods, "", &found), "containers without an id are not found by it");
}

Test(pod, the_paths_of_http_probes_are_as_the_kubelet_asks_for_them)
{
	auto_free char *json = list_of_cart();
	auto_pods struct pods *pods = parse(json);
	const struct pod *p = pods_at(pods, 0);

	cr_assert_eq(p->containers[0].nprobe_paths, 2, "a TCP probe has none");
	cr_expect(str_eq(p->containers[0].probe_paths[0], "/live"));
	cr_expect(str_eq(p->containers[0].probe_paths[1], "/"));
	cr_assert_eq(p->containers[1].nprobe_paths, 1);
	cr_expect(str_eq(p->containers[1].probe_paths[0], "/start"));
	cr_expect_eq(p->containers[2].nprobe_paths, 0);
}

#define STATIC_OWN                                                                                 \
	POD("c0ffee00c0ffee00c0ffee00c0ffee00", "etcd-node-1",                                     \
	    ", \"annotations\": {\"kubernetes.io/config.source\": \"file\"}},"                     \
	    " \"spec\": {\"containers\": [{\"name\": \"etcd\"}]},"                                 \
	    " \"status\": {\"containerStatuses\": [{\"name\": \"etcd\", \"containerID\": "         \
	    "\"containerd://" ID1 "\"}]}}")
#define STATIC_MIRROR(status)                                                                      \
	POD("8f1d2c3b", "etcd-node-1",                                                             \
	    ", \"annotations\": {\"kubernetes.io/config.mirror\": "                                \
	    "\"c0ffee00c0ffee00c0ffee00c0ffee00\"}},"                                              \
	    " \"spec\": {\"containers\": [{\"name\": \"etcd\"}]}, \"status\": {" status "}}")

Test(pod, a_static_pod_and_its_mirror_are_one_with_the_mirror_s_uid)
{
	static const char *const lists[] = {
		LIST(STATIC_OWN "," STATIC_MIRROR("")),
		LIST(STATIC_MIRROR("") "," STATIC_OWN),
		LIST(STATIC_MIRROR("\"containerStatuses\": [{\"name\": \"etcd\", \"containerID\": "
				   "\"containerd://" ID1 "\"}]")),
	};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		auto_pods struct pods *pods = parse(lists[i]);
		const struct pod *by_id = NULL,
				 *p = pods_find_cgroup(pods, "c0ffee00c0ffee00c0ffee00c0ffee00");

		cr_assert_eq(pods_count(pods), 1, "list %zu", i);
		cr_assert(p);
		cr_expect(p->mirror);
		cr_expect_str_eq(p->uid, "8f1d2c3b");
		cr_expect(pods_find(pods, ID1, &by_id) && by_id == p);
		cr_expect_null(pods_find_cgroup(pods, "8f1d2c3b"),
			       "the cgroup is named by the hash");
	}
}

Test(pod, pods_of_the_same_name_are_told_apart_by_their_uid)
{
	auto_pods struct pods *pods =
		parse(LIST(POD("u1", "db-0", "}}") "," POD("u2", "db-0", "}}")));

	cr_assert_eq(pods_count(pods), 2);
	cr_expect_eq(pods_find_cgroup(pods, "u1"), pods_at(pods, 0));
	cr_expect_eq(pods_find_cgroup(pods, "u2"), pods_at(pods, 1));
	cr_expect_null(pods_find_cgroup(pods, "u3"));
	cr_expect_null(pods_find_cgroup(pods, ""));
}

Test(pod, what_is_of_the_wrong_type_is_absent_and_what_is_unknown_is_ignored)
{
	auto_pods struct pods *pods =
		parse(LIST("1, null, \"pod\", [], {}, {\"metadata\": 1}, {\"metadata\": {\"uid\": "
			   "5, \"name\": \"x\", \"namespace\": \"y\"}}," POD(
				   "u1", "p",
				   ", \"labels\": [1], \"annotations\": {\"a\": 1, \"b\": \"2\", "
				   "\"c\": null}, \"ownerReferences\": {\"x\": 1},"
				   " \"future\": {\"deep\": [[[[]]]]}}, \"spec\": "
				   "{\"hostNetwork\": \"true\", \"containers\": [1, {\"name\": 1},"
				   " {\"name\": \"app\", \"livenessProbe\": {\"httpGet\": "
				   "{\"path\": 7}}}]}, \"status\": {\"containerStatuses\":"
				   " [7, {\"name\": \"app\", \"containerID\": "
				   "\"containerd://short\", \"restartCount\": \"x\"}]}}")));
	const struct pod *p = pods_at(pods, 0);

	cr_assert_eq(pods_count(pods), 1);
	cr_expect_eq(p->nlabels, 0);
	cr_expect_eq(p->nannotations, 1);
	cr_expect_str_eq(pod_annotation(p, "b"), "2");
	cr_expect_str_eq(p->owner_kind, "");
	cr_assert_eq(p->ncontainers, 1);
	cr_expect_str_eq(p->containers[0].id, "");
	cr_expect_eq(p->containers[0].restart_count, 0);
}

Test(pod, an_empty_list_is_a_list)
{
	static const char *const lists[] = { LIST(""), "{\"items\": null, \"kind\": \"PodList\"}",
					     "  {\"items\":[ ] }  " };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		auto_pods struct pods *pods = parse(lists[i]);

		cr_expect_eq(pods_count(pods), 0);
		cr_expect_null(pods_at(pods, 0));
	}
}

Test(pod, a_list_that_ends_too_early_is_told_from_one_that_is_wrong)
{
	auto_free char *json = list_of_cart();
	size_t len = strlen(json);

	for (size_t n = 0; n < len; n++) {
		struct pods *pods = NULL;
		char err[160];

		cr_assert_eq(pods_parse(&pods, json, n, err, sizeof(err)), -ENODATA,
			     "%zu bytes: %s", n, err);
		cr_assert(strstr(err, "ends too early"), "%s", err);
	}
	refuse("Forbidden", 9, -EBADMSG, "byte 0");
	refuse("[]", 2, -EBADMSG, "byte 0: '{' expected");
	refuse("{}", 2, -EBADMSG, "no PodList");
	refuse("{\"kind\": \"Status\", \"items\": []}", 31, -EBADMSG, "no PodList");
	refuse("{\"kind\": \"PodList\"}", 19, -EBADMSG, "no items");
	refuse("{\"items\": [{} {}]}", 18, -EBADMSG, "byte 14");
	refuse("{\"items\": [{\"a\": \x01}]}", 20, -EBADMSG, "byte");
	refuse("{\"items\": {}}", 13, -EBADMSG, "'[' expected");
	refuse("{items: []}", 11, -EBADMSG, "'\"' expected");
	refuse("{\"items\": [{\"\\u0000\": \"a\"}]}", 28, -EBADMSG, "byte");
}

Test(pod, megabytes_of_what_is_no_pod_are_refused_before_they_are_made_a_tree)
{
	size_t big = 12u << 20, n;
	auto_free char *json = malloc(big + 128);
	struct rusage before, after;

	n = (size_t)sprintf(json, "{\"kind\": \"PodList\", \"metadata\": [");
	while (n < big)
		n += (size_t)sprintf(json + n, "0,");
	n += (size_t)sprintf(json + n, "0], \"items\": []}");
	cr_assert_eq(getrusage(RUSAGE_SELF, &before), 0);
	refuse(json, n, -EBADMSG, "byte 32: too much that is no pod");
	json[0] = '"'; /* a name without end */
	memmove(json + 1, json, n - 1);
	json[0] = '{';
	json[n - 1] = '"';
	memset(json + 2, 'a', n - 3);
	refuse(json, n, -EBADMSG, "too much that is no pod");
	cr_assert_eq(getrusage(RUSAGE_SELF, &after), 0);
	cr_assert_lt(after.ru_maxrss - before.ru_maxrss, 24 << 10, "KiB");
}

Test(pod, nesting_without_end_is_refused)
{
	size_t depth = 200000, n = 0;
	auto_free char *json = malloc(depth + 64);

	n += (size_t)sprintf(json, "{\"items\": [");
	memset(json + n, '[', depth);
	refuse(json, n + depth, -EBADMSG, "byte");
}

Test(pod, an_annotation_that_holds_somebody_s_data_is_left_out)
{
	size_t big = 100000;
	auto_free char *value = calloc(1, big + 1), *json = NULL;
	struct pods *pods;

	memset(value, 'x', big);
	cr_assert(asprintf(&json,
			   LIST(POD("u", "p",
				    ", \"annotations\": {\"kubectl\": \"%s\", \"a\": \"b\"}}}")),
			   value) > 0);
	pods = parse(json);
	cr_expect_null(pod_annotation(pods_at(pods, 0), "kubectl"));
	cr_expect_str_eq(pod_annotation(pods_at(pods, 0), "a"), "b");
	pods_free(&pods);
	cr_expect_null(pods);
}

Test(pod, a_nul_that_somebody_wrote_into_a_pod_hides_no_other_pod)
{
	auto_pods struct pods *pods = parse(LIST(POD(
		"u1", "evil",
		", \"annotations\": {\"a\": \"true\\u0000\", \"b\": \"true\"}},"
		" \"spec\": {\"containers\": [{\"name\": \"app\", \"args\": "
		"[\"\\u0000\"]}], \"nodeName\": \"x\\u0000y\"}}") ", " POD("u2", "good", "}}")));

	cr_assert_eq(pods_count(pods), 2);
	cr_expect_null(pod_annotation(pods_at(pods, 0), "a"), "it is not \"true\"");
	cr_expect_str_eq(pod_annotation(pods_at(pods, 0), "b"), "true");
	cr_expect_str_empty(pods_at(pods, 0)->node);
	cr_expect_str_eq(pods_at(pods, 1)->name, "good");
}

Test(pod, two_lists_have_one_hash_when_they_say_the_same_in_whatever_order)
{
	auto_pods struct pods *a = parse(LIST(
		POD("u1", "p", ", \"annotations\": {\"x\": \"1\"}}}") "," POD("u2", "q", "}}")));
	auto_pods struct pods *b = parse(LIST(POD("u2", "q", "}}") "," POD(
		"u1", "p", ", \"annotations\": {\"x\": \"1\"}, \"more\": 1}}")));
	auto_pods struct pods *c = parse(LIST(
		POD("u1", "p", ", \"annotations\": {\"x\": \"2\"}}}") "," POD("u2", "q", "}}")));
	auto_pods struct pods *d =
		parse(LIST(POD("u1", "p", ", \"annotations\": {\"x\": \"1\"}}}")));

	cr_expect_eq(pods_hash(a), pods_hash(b));
	cr_expect_neq(pods_hash(a), pods_hash(c));
	cr_expect_neq(pods_hash(a), pods_hash(d));
}

Test(pod, a_snapshot_lives_as_long_as_somebody_holds_it)
{
	auto_free char *json = list_of_cart();
	struct pods *pods = parse(json), *other = pods_ref(pods);
	const struct pod *p = pods_at(pods, 0);

	pods_free(&pods);
	cr_expect_str_eq(p->name, "cart-7d9f8-x2x");
	pods_free(&other);
	pods_free(&other);
}
