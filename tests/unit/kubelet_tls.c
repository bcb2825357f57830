#include "kubelet_rig.h"

TestSuite(kubelet_tls, .init = set_up, .fini = tear_down, .timeout = 60);

Test(kubelet_tls, a_certificate_signed_by_the_cluster_is_verified_by_the_node_s_name)
{
	char line[256];

	start("127.0.0.1", "by-ca");
	expect_pods("ca");
	cr_expect_eq(requests(line, sizeof(line)), 1);
	cr_expect(strncmp(line, "/pods node-1:", 13) == 0, "%s", line);
	cr_expect(strstr(line, " secret-1"), "%s", line);
}

Test(kubelet_tls, a_certificate_that_the_kubelet_signed_itself_is_recognised_as_the_node_s_own)
{
	start("127.0.0.1", "own");
	expect_pods("node-cert");
	expect_pods("node-cert");
}

Test(kubelet_tls, what_worked_is_remembered)
{
	char line[256];
	uint64_t before;

	start("127.0.0.1", "own");
	expect_pods("node-cert");
	before = stat_get(kubelet_requests);
	expect_pods("node-cert");
	cr_expect_eq(stat_get(kubelet_requests), before + 1);
	cr_expect_eq(requests(line, sizeof(line)), 2);
}

Test(kubelet_tls, another_certificate_of_the_same_issuer_is_not_the_node_s_own)
{
	char line[256];

	start("127.0.0.1", "own-sibling");
	cfg.kubelet_tls_mode = "node-cert";
	expect_failure(KUBELET_TLS_CA, "is not the node's own, " CERTS "/own.crt");
	cr_expect_eq(requests(line, sizeof(line)), 0,
		     "no token leaves before the certificate is believed");
}

Test(kubelet_tls, in_mode_auto_both_ways_to_fail_are_told)
{
	start("127.0.0.1", "own-sibling");
	expect_failure(KUBELET_TLS_CA, "is not signed by the CA in " CERTS "/cluster-ca.crt");
	expect_failure(KUBELET_TLS_CA, "is not the node's own, " CERTS "/own.crt");
}

Test(kubelet_tls, mode_ca_takes_no_self_signed_certificate)
{
	start("127.0.0.1", "own");
	cfg.kubelet_tls_mode = "ca";
	expect_failure(KUBELET_TLS_CA, "is not signed by the CA in " CERTS "/cluster-ca.crt");
}

Test(kubelet_tls, mode_node_cert_takes_no_other_certificate_of_the_cluster)
{
	start("127.0.0.1", "by-ca");
	cfg.kubelet_tls_mode = "node-cert";
	expect_failure(KUBELET_TLS_CA, "is not the node's own");
}

Test(kubelet_tls, a_certificate_for_another_name_is_told_apart)
{
	start("127.0.0.1", "other-name");
	cfg.kubelet_tls_mode = "ca";
	expect_failure(KUBELET_TLS_NAME, "is for another name");
}

Test(kubelet_tls, a_server_name_of_its_own_can_be_configured)
{
	start("127.0.0.1", "other-name");
	cfg.kubelet_tls_server_name = "node-2";
	expect_pods("ca");
}

Test(kubelet_tls, without_a_node_name_the_address_is_verified)
{
	start("127.0.0.1", "by-ca");
	cfg.node_name = "";
	expect_pods("ca");
}

Test(kubelet_tls, without_a_node_name_a_certificate_without_the_address_is_refused)
{
	start("127.0.0.1", "own");
	cfg.node_name = "";
	cfg.kubelet_tls_mode = "node-cert";
	expect_failure(KUBELET_TLS_NAME, "is for another name");
}

Test(kubelet_tls, an_expired_certificate_is_told_apart)
{
	start("127.0.0.1", "expired");
	expect_failure(KUBELET_TLS_EXPIRED, "has expired");
}

Test(kubelet_tls, a_certificate_of_the_future_is_told_apart)
{
	start("127.0.0.1", "future");
	expect_failure(KUBELET_TLS_EXPIRED, "is not valid yet");
}

Test(kubelet_tls, the_node_s_own_certificate_may_expire_too)
{
	start("127.0.0.1", "own-expired");
	cfg.kubelet_tls_node_cert = CERTS "/own-expired.crt";
	expect_failure(KUBELET_TLS_EXPIRED, "has expired");
}

Test(kubelet_tls, mode_insecure_takes_any_certificate)
{
	start("127.0.0.1", "expired");
	cfg.kubelet_tls_mode = "insecure";
	expect_pods("insecure");
}

Test(kubelet_tls, a_missing_ca_file_is_named_and_the_pin_still_works)
{
	start("127.0.0.1", "own");
	cfg.kubelet_tls_ca_file = "/nowhere/ca.crt";
	expect_pods("node-cert");
	kubelet_free(&k);
	cfg.kubelet_tls_mode = "ca";
	expect_failure(KUBELET_TLS_CA, "/nowhere/ca.crt");
}

Test(kubelet_tls, a_missing_certificate_of_the_node_is_named)
{
	start("127.0.0.1", "own");
	cfg.kubelet_tls_node_cert = "/nowhere/kubelet.crt";
	expect_failure(KUBELET_TLS_CA, "/nowhere/kubelet.crt cannot be read: No such file");
}
