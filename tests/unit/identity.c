#include "pipeline/identity.h"

#include "base/config.h"
#include "discover/pod.h"
#include "discover/proc.h"
#include "otlp.pb-c.h"
#include "pipeline/resource.h"

#include <criterion/criterion.h>
#include <stdio.h>

#define SHA "sha256:0123456789012345678901234567890123456789012345678901234567890123"
#define ID  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* One resource, encoded and read back. */
struct made {
	struct config *cfg;
	struct resource *resource;
	Otlp__Resource *message;
	char text[4096]; /* of the last attr() */
};

static void configure(struct made *m, const char *option)
{
	char *argv[] = { "agent", "--node-name=node-1", (char *)option, NULL };
	int rest;

	cr_assert_eq(config_load(&m->cfg, option ? 3 : 2, argv, &rest), 0);
}

static void make(struct made *m, struct identity id)
{
	id.cfg = m->cfg;
	cr_assert_eq(identity_resource(&m->resource, &id), 0);
	m->message = otlp__resource__unpack(NULL, m->resource->size, m->resource->bytes);
	cr_assert(m->message);
}

static void clear(struct made *m)
{
	otlp__resource__free_unpacked(m->message, NULL);
	resource_put(&m->resource);
	config_free(&m->cfg);
}

/* The attribute as text, "-" when absent; it must not be there twice. */
static const char *attr(struct made *m, const char *key)
{
	bool found = false;

	(void)snprintf(m->text, sizeof(m->text), "-");
	for (size_t i = 0; i < m->message->n_attributes; i++) {
		const Otlp__KeyValue *kv = m->message->attributes[i];
		const Otlp__AnyValue *v = kv->value;

		if (kv->key.len != strlen(key) || memcmp(kv->key.data, key, kv->key.len) != 0)
			continue;
		cr_expect_not(found, "%s is there twice", key);
		found = true;
		if (v->value_case == OTLP__ANY_VALUE__VALUE_INT_VALUE)
			(void)snprintf(m->text, sizeof(m->text), "%lld", (long long)v->int_value);
		else if (v->value_case == OTLP__ANY_VALUE__VALUE_STRING_VALUE)
			(void)snprintf(m->text, sizeof(m->text), "%.*s", (int)v->string_value.len,
				       v->string_value.data);
		else if (v->value_case == OTLP__ANY_VALUE__VALUE_ARRAY_VALUE &&
			 v->array_value->n_values == 1)
			(void)snprintf(m->text, sizeof(m->text), "[%.*s]",
				       (int)v->array_value->values[0]->string_value.len,
				       v->array_value->values[0]->string_value.data);
		else
			cr_expect(false, "%s is of a strange type", key);
	}
	return m->text;
}

#define expect_attr(m, key, value)                                                                 \
	cr_expect_str_eq(attr(m, key), value, "%s is %s", key, attr(m, key))

static const struct process shop_process = {
	.pid = 4711, .ns_pid = 1, .start_time = 100, .container_id = ID, .exe = "/app/bin/cart"
};
static const struct container shop_container = { .name = "main",
						 .id = ID,
						 .image = "registry:5000/shop/cart:1.4",
						 .image_id = "registry:5000/shop/cart@" SHA,
						 .restart_count = 3 };
static const struct pod_kv shop_labels[] = { { "pod-template-hash", "6f7c9d" },
					     { "app.kubernetes.io/name", "cart-app" },
					     { "app.kubernetes.io/instance", "cart-blue" },
					     { "app.kubernetes.io/version", "9.9" },
					     { "team", "" } };

static struct pod shop_pod(const struct pod_kv *annotations, size_t n)
{
	return (struct pod){ .uid = "uid-1",
			     .name = "cart-6f7c9d-x2x",
			     .namespace_ = "shop",
			     .node = "node-1",
			     .owner_kind = "ReplicaSet",
			     .owner_name = "cart-6f7c9d",
			     .owner_uid = "rs-1",
			     .labels = shop_labels,
			     .nlabels = ARRAY_SIZE(shop_labels),
			     .annotations = annotations,
			     .nannotations = n,
			     .containers = &shop_container,
			     .ncontainers = 1 };
}

Test(identity, a_container_of_a_deployment_has_every_attribute_of_the_conventions)
{
	struct pod pod = shop_pod(NULL, 0);
	struct made m;

	configure(&m, NULL);
	make(&m, (struct identity){ .proc = &shop_process,
				    .pod = &pod,
				    .container = &shop_container,
				    .go_version = "go1.22.3" });
	expect_attr(&m, "service.name", "cart");
	expect_attr(&m, "service.namespace", "shop");
	expect_attr(&m, "service.instance.id", "shop.cart-6f7c9d-x2x.main");
	expect_attr(&m, "service.version", "1.4@" SHA);
	expect_attr(&m, "k8s.namespace.name", "shop");
	expect_attr(&m, "k8s.pod.name", "cart-6f7c9d-x2x");
	expect_attr(&m, "k8s.pod.uid", "uid-1");
	expect_attr(&m, "k8s.node.name", "node-1");
	expect_attr(&m, "k8s.deployment.name", "cart");
	expect_attr(&m, "k8s.replicaset.name", "cart-6f7c9d");
	expect_attr(&m, "k8s.replicaset.uid", "rs-1");
	expect_attr(&m, "k8s.container.name", "main");
	expect_attr(&m, "k8s.container.restart_count", "3");
	expect_attr(&m, "container.id", ID);
	expect_attr(&m, "container.image.name", "registry:5000/shop/cart");
	expect_attr(&m, "container.image.tags", "[1.4]");
	expect_attr(&m, "container.image.repo_digests", "[registry:5000/shop/cart@" SHA "]");
	expect_attr(&m, "process.pid", "1");
	expect_attr(&m, "process.executable.name", "cart");
	expect_attr(&m, "process.executable.path", "/app/bin/cart");
	expect_attr(&m, "process.runtime.name", "go");
	expect_attr(&m, "process.runtime.version", "go1.22.3");
	expect_attr(&m, "telemetry.sdk.language", "go");
	expect_attr(&m, "telemetry.sdk.name", "spoor");
	expect_attr(&m, "telemetry.distro.name", "spoor");
	expect_attr(&m, "host.name", "node-1");
	cr_expect_neq(*attr(&m, "telemetry.sdk.version"), '-');
	cr_expect_eq(strlen(attr(&m, "process.creation.time")), strlen("2026-11-30T19:00:00.00Z"));
	expect_attr(&m, "k8s.pod.label.team", "-");
	cr_expect_str_eq(m.resource->service, "cart");
	cr_expect_str_eq(m.resource->service_namespace, "shop");
	cr_expect_str_eq(m.resource->pod, "cart-6f7c9d-x2x");
	cr_expect_str_eq(m.resource->pod_namespace, "shop");
	cr_expect_str_eq(m.resource->container, "main");
	clear(&m);
}

Test(identity, two_containers_of_one_pod_have_one_service_and_two_instances)
{
	struct container second = shop_container;
	struct pod pod = shop_pod(NULL, 0);
	struct made m;

	second.name = "side";
	configure(&m, NULL);
	make(&m, (struct identity){ .proc = &shop_process, .pod = &pod, .container = &second });
	expect_attr(&m, "service.name", "cart");
	expect_attr(&m, "service.instance.id", "shop.cart-6f7c9d-x2x.side");
	clear(&m);
}

Test(identity, well_known_labels_name_the_service_only_if_that_is_configured)
{
	struct pod pod = shop_pod(NULL, 0);
	struct pod_kv name_only[] = { { "app.kubernetes.io/name", "cart-app" } };
	struct made m;

	configure(&m, "--resource-well-known-labels=true");
	make(&m,
	     (struct identity){ .proc = &shop_process, .pod = &pod, .container = &shop_container });
	expect_attr(&m, "service.name", "cart-blue");
	expect_attr(&m, "service.version", "9.9");
	clear(&m);
	configure(&m, "--resource-well-known-labels=true");
	pod.labels = name_only;
	pod.nlabels = 1;
	make(&m,
	     (struct identity){ .proc = &shop_process, .pod = &pod, .container = &shop_container });
	expect_attr(&m, "service.name", "cart-app");
	clear(&m);
}

Test(identity, without_an_owner_the_pod_names_the_service)
{
	struct pod pod = shop_pod(NULL, 0);
	struct made m;

	pod.owner_kind = pod.owner_name = pod.owner_uid = "";
	configure(&m, NULL);
	make(&m,
	     (struct identity){ .proc = &shop_process, .pod = &pod, .container = &shop_container });
	expect_attr(&m, "service.name", "cart-6f7c9d-x2x");
	expect_attr(&m, "k8s.replicaset.name", "-");
	clear(&m);
}

Test(identity, a_static_pod_has_its_mirror_s_uid_or_none)
{
	struct pod_kv hash[] = { { "kubernetes.io/config.hash",
				   "8241140dceeb733ab65b03582f6e6d87" } };
	struct pod pod = shop_pod(hash, 1);
	struct identity id = { .proc = &shop_process, .pod = &pod, .container = &shop_container };
	struct made m;

	pod.uid = hash[0].value;
	configure(&m, NULL);
	make(&m, id);
	expect_attr(&m, "k8s.pod.name", "cart-6f7c9d-x2x");
	expect_attr(&m, "k8s.pod.uid", "-");
	clear(&m);
	pod.uid = "7d7b30ff-aeec-43a9-bc94-9cd8146de689";
	configure(&m, NULL);
	make(&m, id);
	expect_attr(&m, "k8s.pod.uid", "7d7b30ff-aeec-43a9-bc94-9cd8146de689");
	clear(&m);
}

Test(identity, annotation_beats_environment_beats_pod_beats_agent)
{
	struct pod_kv annotations[] = {
		{ "resource.opentelemetry.io/service.name", "from-annotation" },
		{ "resource.opentelemetry.io/deployment.environment.name", "prod" },
		{ "resource.opentelemetry.io/", "no key" },
		{ "other/service.name", "no" }
	};
	struct pod pod = shop_pod(annotations, 4);
	struct identity id = { .proc = &shop_process,
			       .pod = &pod,
			       .container = &shop_container,
			       .service_name = "from-env-name",
			       .attributes =
				       "service.name=from-env,service.version=2.0,team=a%20b%2Cc" };
	struct made m;

	configure(&m, "--resource-attributes=service.name=agent,k8s.cluster.name=c1,team=agent");
	make(&m, id);
	expect_attr(&m, "service.name", "from-annotation");
	expect_attr(&m, "deployment.environment.name", "prod");
	expect_attr(&m, "service.version", "2.0");
	expect_attr(&m, "team", "a b,c");
	expect_attr(&m, "k8s.cluster.name", "c1");
	cr_expect_str_eq(m.resource->service, "from-annotation");
	clear(&m);

	pod.nannotations = 0;
	configure(&m, NULL);
	make(&m, id);
	expect_attr(&m, "service.name", "from-env-name");
	clear(&m);

	id.service_name = NULL;
	configure(&m, NULL);
	make(&m, id);
	expect_attr(&m, "service.name", "from-env");
	clear(&m);

	id.attributes = NULL;
	configure(&m, "--resource-attributes=service.name=agent");
	make(&m, id);
	expect_attr(&m, "service.name", "cart");
	clear(&m);
}

Test(identity, one_broken_pair_discards_all_attributes_of_the_environment)
{
	static const char *const broken[] = { "a=1,b", "a=1,=x", "a=1,b=%zz", "a=1,b=%4",
					      "a=1,b=%00" };
	struct pod pod = shop_pod(NULL, 0);
	struct made m;

	for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
		configure(&m, NULL);
		make(&m, (struct identity){ .proc = &shop_process,
					    .pod = &pod,
					    .container = &shop_container,
					    .service_name = "kept",
					    .attributes = broken[i] });
		expect_attr(&m, "a", "-");
		expect_attr(&m, "service.name", "kept");
		clear(&m);
	}
	configure(&m, NULL);
	make(&m, (struct identity){ .proc = &shop_process,
				    .pod = &pod,
				    .container = &shop_container,
				    .attributes = " a = 1 , ,b=x=y," });
	expect_attr(&m, "a", "1");
	expect_attr(&m, "b", "x=y");
	clear(&m);
}

Test(identity, listed_labels_and_annotations_are_taken_as_they_are_others_are_not)
{
	struct pod_kv annotations[] = { { "owner", "me" }, { "secret", "s" } };
	struct pod pod = shop_pod(annotations, 2);
	struct made m;

	configure(&m, "--resource-pod-labels=team,absent");
	make(&m,
	     (struct identity){ .proc = &shop_process, .pod = &pod, .container = &shop_container });
	expect_attr(&m, "k8s.pod.label.team", "");
	expect_attr(&m, "k8s.pod.label.absent", "-");
	expect_attr(&m, "k8s.pod.annotation.owner", "-");
	clear(&m);
	configure(&m, "--resource-pod-annotations=owner");
	make(&m,
	     (struct identity){ .proc = &shop_process, .pod = &pod, .container = &shop_container });
	expect_attr(&m, "k8s.pod.annotation.owner", "me");
	expect_attr(&m, "k8s.pod.annotation.secret", "-");
	clear(&m);
}

Test(identity, without_kubernetes_the_executable_names_the_service_unless_somebody_knows_better)
{
	struct process plain = {
		.pid = 4711, .ns_pid = 4711, .start_time = 100, .exe = "/home/me/bin/hello"
	};
	struct made m;

	configure(&m, NULL);
	make(&m, (struct identity){ .proc = &plain });
	expect_attr(&m, "service.name", "hello");
	expect_attr(&m, "service.namespace", "-");
	expect_attr(&m, "k8s.node.name", "-");
	expect_attr(&m, "k8s.container.restart_count", "-");
	expect_attr(&m, "container.id", "-");
	expect_attr(&m, "process.pid", "4711");
	cr_expect(strstr(attr(&m, "service.instance.id"), ".4711.100"));
	cr_expect_str_eq(m.resource->service, "hello");
	cr_expect_str_eq(m.resource->pod, "");
	clear(&m);
	configure(&m, "--resource-attributes=service.name=mine");
	make(&m, (struct identity){ .proc = &plain });
	expect_attr(&m, "service.name", "mine");
	clear(&m);
}

Test(identity, hostile_values_leave_a_valid_resource)
{
	static char long_value[8000];
	struct process odd = { .pid = 1, .exe = "/tmp/\xff\xfe" };
	struct pod_kv annotations[400] = { 0 };
	struct pod pod = shop_pod(annotations, ARRAY_SIZE(annotations));
	char keys[400][64];
	struct made m;

	memset(long_value, 'x', sizeof(long_value) - 1);
	for (size_t i = 0; i < ARRAY_SIZE(annotations); i++) {
		(void)snprintf(keys[i], sizeof(keys[i]), "resource.opentelemetry.io/a%zu", i);
		annotations[i] = (struct pod_kv){ keys[i], i == 0 ? long_value : "v" };
	}
	configure(&m, NULL);
	make(&m, (struct identity){ .proc = &odd, .attributes = "k=\x80" });
	expect_attr(&m, "service.name", "??");
	expect_attr(&m, "k", "?");
	clear(&m);
	configure(&m, NULL);
	make(&m, (struct identity){ .proc = &odd, .pod = &pod, .container = &shop_container });
	cr_expect_leq(m.message->n_attributes, 128);
	expect_attr(&m, "a0", "-");
	expect_attr(&m, "a1", "v");
	expect_attr(&m, "service.name", "cart");
	clear(&m);
}
