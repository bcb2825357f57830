#include "pipeline/workload.h"

#include "discover/pod.h"

#include <criterion/criterion.h>

static struct pod owned_by(const char *kind, const char *name, struct pod_kv *hash)
{
	return (struct pod){ .uid = "u",
			     .name = "p",
			     .namespace_ = "n",
			     .owner_kind = kind,
			     .owner_name = name,
			     .owner_uid = "o-1",
			     .labels = hash,
			     .nlabels = hash ? 1 : 0 };
}

static const char *value(const struct workload *w, const char *key)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->attrs[i].key, key) == 0)
			return w->attrs[i].value;
	return "";
}

Test(workload, a_replicaset_belongs_to_a_deployment_only_if_its_name_ends_in_the_pod_template_hash)
{
	struct pod_kv hash = { "pod-template-hash", "6f7c9d" };
	struct pod pod = owned_by("ReplicaSet", "cart-v2-6f7c9d", &hash);
	struct workload w;

	workload_of(&w, &pod);
	cr_expect_str_eq(value(&w, "k8s.deployment.name"), "cart-v2");
	cr_expect_str_eq(value(&w, "k8s.replicaset.name"), "cart-v2-6f7c9d");
	cr_expect_str_eq(value(&w, "k8s.replicaset.uid"), "o-1");
	cr_expect_str_eq(w.service, "cart-v2");
}

Test(workload, a_stand_alone_replicaset_stays_what_it_is)
{
	struct pod_kv other = { "pod-template-hash", "abcdef" },
		      empty = { "pod-template-hash", "" };
	struct pod_kv all = { "pod-template-hash", "6f7c9d" };
	struct pod pods[] = { owned_by("ReplicaSet", "cart-6f7c9d", NULL),
			      owned_by("ReplicaSet", "cart-6f7c9d", &other),
			      owned_by("ReplicaSet", "cart-6f7c9d", &empty),
			      owned_by("ReplicaSet", "6f7c9d", &all),
			      owned_by("ReplicaSet", "-6f7c9d", &all),
			      owned_by("ReplicaSet", "cart6f7c9d", &all) };

	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		struct workload w;

		workload_of(&w, &pods[i]);
		cr_expect_str_eq(value(&w, "k8s.deployment.name"), "", "%zu", i);
		cr_expect_str_eq(w.service, pods[i].owner_name, "%zu", i);
	}
}

Test(workload, a_job_belongs_to_a_cronjob_by_the_time_in_its_name)
{
	static const char *const jobs[] = { "backup-29341440", "backup-1760486400" };

	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		struct pod pod = owned_by("Job", jobs[i], NULL);
		struct workload w;

		workload_of(&w, &pod);
		cr_expect_str_eq(value(&w, "k8s.cronjob.name"), "backup");
		cr_expect_str_eq(value(&w, "k8s.job.name"), jobs[i]);
		cr_expect_str_eq(w.service, "backup");
	}
}

Test(workload, a_stand_alone_job_stays_what_it_is_whatever_number_it_ends_in)
{
	static const char *const jobs[] = {
		"import",   "import-2",  "import-2026",      "import-20261130",  "import-x29341440",
		"29341440", "-29341440", "import-293414401", "import-29341440x", "import-"
	};

	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++) {
		struct pod pod = owned_by("Job", jobs[i], NULL);
		struct workload w;

		workload_of(&w, &pod);
		cr_expect_str_eq(value(&w, "k8s.cronjob.name"), "", "%s", jobs[i]);
		cr_expect_str_eq(w.service, jobs[i]);
	}
}

Test(workload, other_owners_are_named_and_unknown_ones_are_not)
{
	struct pod stateful = owned_by("StatefulSet", "db", NULL),
		   daemon = owned_by("DaemonSet", "logs", NULL);
	struct pod rc = owned_by("ReplicationController", "old", NULL),
		   node = owned_by("Node", "node-1", NULL);
	struct workload w;

	workload_of(&w, &stateful);
	cr_expect_str_eq(value(&w, "k8s.statefulset.name"), "db");
	cr_expect_str_eq(w.service, "db");
	workload_of(&w, &daemon);
	cr_expect_str_eq(value(&w, "k8s.daemonset.name"), "logs");
	workload_of(&w, &rc);
	cr_expect_str_eq(value(&w, "k8s.replicationcontroller.name"), "old");
	cr_expect_str_eq(w.service, "", "no source of service.name");
	workload_of(&w, &node);
	cr_expect_eq(w.n, 0);
	cr_expect_str_eq(w.service, "");
}

#define SHA "sha256:0123456789012345678901234567890123456789012345678901234567890123"

Test(image, references_are_taken_apart)
{
	static const struct {
		const char *image, *id, *name, *tag, *digest, *repo_digest;
	} cases[] = {
		{ "docker.io/library/app:1.2", "docker.io/library/app@" SHA,
		  "docker.io/library/app", "1.2", SHA, "docker.io/library/app@" SHA },
		{ "app", "", "app", "", "", "" },
		{ "registry:5000/team/app", SHA, "registry:5000/team/app", "", "", "" },
		{ "registry:5000/team/app:v1@" SHA, "", "registry:5000/team/app", "v1", SHA, "" },
		{ "[::1]:5000/app@" SHA, "", "[::1]:5000/app", "", SHA, "" },
		{ "app:2", "docker-pullable://app@" SHA, "app", "2", SHA, "app@" SHA },
		{ "app:2", "docker://" SHA, "app", "2", "", "" },
		{ SHA, "app@" SHA, "", "", SHA, "app@" SHA },
		{ "", "", "", "", "", "" },
		{ "app:", "@", "app", "", "", "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct image got;

		image_of(&got, cases[i].image, cases[i].id);
		cr_expect(str_eq(got.name, cases[i].name), "%zu: name %.*s", i, (int)got.name.n,
			  got.name.p);
		cr_expect(str_eq(got.tag, cases[i].tag), "%zu: tag %.*s", i, (int)got.tag.n,
			  got.tag.p);
		cr_expect(str_eq(got.digest, cases[i].digest), "%zu: digest %.*s", i,
			  (int)got.digest.n, got.digest.p);
		cr_expect(str_eq(got.repo_digest, cases[i].repo_digest), "%zu", i);
	}
}
