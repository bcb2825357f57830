#include "discover/neighbours.h"

#include "config_rig.h"
#include "discover/pod.h"
#include "metrics/peers.h"

#define POD(name, meta, spec, status)                                                              \
	"{\"metadata\": {\"uid\": \"u-" name "\", \"name\": \"" name                               \
	"\", \"namespace\": \"shop\"" meta "}, \"spec\": {" spec "}, \"status\": {\"phase\": "     \
	"\"Running\", \"hostIP\": \"192.0.2.1\", " status "}}"
#define APP(more) "\"containers\": [{\"name\": \"app\"" more "}]"
#define IP(ip)    "\"podIP\": \"" ip "\""
#define NAMED(name)                                                                                \
	", \"ownerReferences\": [{\"kind\": \"StatefulSet\", \"name\": \"" name                    \
	"\", \"uid\": \"o\", \"controller\": true}]"
#define ENV(var, val) "{\"name\": \"" var "\", \"value\": \"" val "\"}"

static struct peers *peers;

static void make(const char *items)
{
	struct config *cfg = load(NULL, NULL);
	struct pods *pods = NULL;
	auto_free char *json = NULL;
	char err[160];

	cr_assert(cfg);
	cr_assert(asprintf(&json, "{\"kind\": \"PodList\", \"items\": [%s]}", items) > 0);
	cr_assert_eq(pods_parse(&pods, json, strlen(json), err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(neighbours(&peers, cfg, pods), 0);
	pods_free(&pods);
	config_free(&cfg);
}

static const char *at(const char *ip, int64_t port)
{
	struct peer peer = peer_of(str_of(ip), port);
	const char *found = peers_find(peers, &peer);

	return found ? found : "-";
}

Test(neighbours, a_pod_is_its_service_at_all_its_addresses_and_ports)
{
	make(POD("cart-1", NAMED("cart"), APP(", \"ports\": [{\"containerPort\": 80}]"),
		 IP("10.0.0.1") ", \"podIPs\": [{\"ip\": \"10.0.0.1\"}, {\"ip\": \"fd00::1\"}]"));
	cr_assert_str_eq(at("10.0.0.1", 80), "cart");
	cr_assert_str_eq(at("10.0.0.1", 9999), "cart");
	cr_assert_str_eq(at("fd00::1", 80), "cart");
	cr_assert_str_eq(at("10.0.0.2", 80), "-");
	cr_assert_str_eq(at("192.0.2.1", 80), "-", "the node is not the pod");
	peers_free(&peers);
}

Test(neighbours, a_port_of_the_node_is_the_pod_that_has_it)
{
	make(POD("cart-1", NAMED("cart"),
		 APP(", \"ports\": [{\"containerPort\": 80, \"hostPort\": 8080}, "
		     "{\"containerPort\": 81, \"hostPort\": 8081, \"protocol\": \"UDP\"}, "
		     "{\"containerPort\": 82, \"hostPort\": 8082, \"hostIP\": \"192.0.2.9\"}]"),
		 IP("10.0.0.1")));
	cr_assert_str_eq(at("192.0.2.1", 8080), "cart");
	cr_assert_str_eq(at("192.0.2.1", 8081), "-", "UDP");
	cr_assert_str_eq(at("192.0.2.1", 8082), "-", "another address of the node");
	cr_assert_str_eq(at("192.0.2.1", 80), "-");
	peers_free(&peers);
}

Test(neighbours, on_the_nodes_network_only_ports_that_a_pod_declares_are_its)
{
	make(POD("proxy-1", NAMED("proxy"),
		 "\"hostNetwork\": true, " APP(
			 ", \"ports\": [{\"containerPort\": 8443, \"hostPort\": 8443}]"),
		 IP("192.0.2.1")) "," POD("other-1", NAMED("other"),
					  "\"hostNetwork\": true, " APP(""), IP("192.0.2.1")));
	cr_assert_str_eq(at("192.0.2.1", 8443), "proxy");
	cr_assert_str_eq(at("192.0.2.1", 80), "-");
	peers_free(&peers);
}

Test(neighbours, containers_of_other_names_are_told_by_their_ports)
{
	make(POD("cart-1", NAMED("cart"),
		 "\"containers\": [{\"name\": \"app\", \"ports\": [{\"containerPort\": 80}]}, "
		 "{\"name\": \"side\", \"ports\": [{\"containerPort\": 81}], \"env\": [" ENV(
			 "OTEL_SERVICE_NAME", "side") "]}]",
		 IP("10.0.0.1")));
	cr_assert_str_eq(at("10.0.0.1", 80), "cart");
	cr_assert_str_eq(at("10.0.0.1", 81), "side");
	cr_assert_str_eq(at("10.0.0.1", 82), "-");
	peers_free(&peers);
}

Test(neighbours, a_name_that_only_the_process_knows_is_none)
{
	make(POD(
		"a-1", NAMED("a"),
		APP(", \"ports\": [{\"containerPort\": 80}], \"envFrom\": [{\"configMapRef\": "
		    "{\"name\": \"x\"}}]"),
		IP("10.0.0.1")) "," POD("b-1", NAMED("b"),
					APP(", \"env\": [{\"name\": \"OTEL_SERVICE_NAME\", "
					    "\"valueFrom\": {}}]"),
					IP("10.0.0.2")) "," POD("c-1", NAMED("c"),
								APP(", \"env\": [" ENV(
									"OTEL_SERVICE_NAME",
									"x-$(Y)") "]"),
								IP("10.0.0.3")) "," POD("d-1",
											NAMED("d"),
											APP(", "
											    "\"env"
											    "\": "
											    "[" ENV("OTEL_RESOURCE_ATTRIBUTES",
												    "service.name=dd") "]"),
											IP("10.0.0."
											   "4")) "," POD("e-1",
													 ", \"annotations\": {\"resource.opentelemetry.io/service.name\": \"ee\"}",
													 APP(", \"envFrom\": [{}]"),
													 IP("10.0.0.5")));
	cr_assert_str_eq(at("10.0.0.1", 80), "-");
	cr_assert_str_eq(at("10.0.0.1", 0), "-");
	cr_assert_str_eq(at("10.0.0.2", 80), "-");
	cr_assert_str_eq(at("10.0.0.3", 80), "-");
	cr_assert_str_eq(at("10.0.0.4", 80), "dd");
	cr_assert_str_eq(at("10.0.0.5", 80), "ee", "the annotation is stronger");
	peers_free(&peers);
}

Test(neighbours, an_address_that_a_pod_has_left_is_the_next_ones)
{
	make("{\"metadata\": {\"uid\": \"u\", \"name\": \"job-1\", \"namespace\": \"shop\"}, "
	     "\"spec\": {" APP("") "}, \"status\": {\"phase\": \"Succeeded\", " IP(
		     "10.0.0.1") "}}," POD("cart-1", NAMED("cart"), APP(""), IP("10.0.0.1")));
	cr_assert_str_eq(at("10.0.0.1", 80), "cart");
	peers_free(&peers);
}

Test(neighbours, without_pods_there_is_nobody)
{
	struct config *cfg = load(NULL, NULL);

	cr_assert_eq(neighbours(&peers, cfg, NULL), 0);
	cr_assert_str_eq(at("10.0.0.1", 80), "-");
	peers_free(&peers);
	config_free(&cfg);
}
