"""What goes wrong between agent and kubelet: a message of its own for each, the last list stays in use, readiness tells."""
import os
import shutil
import time

import pytest

from harness.load import Request, send
from harness.node import server
from harness.pods import ANNOTATION, Pod
from harness.wait import stays, until


def kubelet_of(agent):
    """Its part of the status page; `error` is what went wrong with the last list, "" nothing."""
    state = agent.status()["kubelet"]
    return {**state, "error": "" if state["state"] == "ok" else state["state"]}


FAULTS = {
    "401": ("401",), "403": ("403", "nodes/pods"), "500": ("500",), "truncated": ("truncated",), "short": ("truncated", "too early"),
    "garbage": ("not understood",), "not_pods": ("PodList",), "too_large": ("larger",), "reset": ("reset",), "hang": ("within",),
}


@pytest.mark.parametrize("mode", FAULTS)
def test_each_fault_has_its_own_message_and_the_last_list_stays_in_use(node, mode):
    """Field case 32."""
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, kubelet__timeout="700ms", kubelet__max_response="1MiB")
    agent.wait_traced(target.pid)
    node.kubelet.pad = 2 << 20
    node.kubelet.mode = mode
    newcomer = node.run()
    text = until(lambda: kubelet_of(agent).get("error") and kubelet_of(agent)["message"], 15,
                 lambda: f"an error is told: {kubelet_of(agent)}")
    for word in FAULTS[mode]:
        assert word in text, text
    line = next((line for line in agent.log.splitlines() if "level=warn" in line and "kubelet" in line), "")
    assert all(word in line for word in FAULTS[mode]), agent.tail()
    # What was known goes on being traced; the agent stays ready; nothing is guessed about the new one.
    requests = send(target.port, [Request("/fast") for _ in range(3)])
    sink.wait(3)
    assert {r.rid for r in requests} <= {s.rid for s in sink.spans}
    assert agent.ready()[0] and not agent.traced(newcomer.pid)
    node.kubelet.mode = "ok"
    agent.wait_traced(newcomer.pid, 35)
    until(lambda: not kubelet_of(agent).get("error"), 10, "the error is over")


def test_the_messages_differ_from_each_other(node):
    """One agent sees them all; no two faults read the same."""
    agent = node.agent(node.sink(), kubelet__timeout="500ms", kubelet__max_response="1MiB", kubelet__min_refresh="0s")
    node.kubelet.pad = 2 << 20
    seen = {}
    for mode in ("401", "403", "500", "truncated", "short", "too_large"):
        node.kubelet.mode = mode
        node.run()  # an unknown container makes it ask

        def told():
            state = kubelet_of(agent)
            return state.get("error") and state["message"] not in seen.values() and state
        seen[mode] = until(told, 40, lambda: f"a message for {mode}: {kubelet_of(agent)}; seen {seen}")["message"]
    assert len(set(seen.values())) == len(seen), seen


CERTIFICATES = {"other_name": "name", "expired": "expired", "self": "CA", "other_self": "CA"}


@pytest.mark.parametrize("certificate", CERTIFICATES)
def test_a_certificate_that_does_not_fit_is_refused_with_its_reason(node, certificate):
    """Field case 32: and the token is never sent to such a one."""
    node.kubelet.use(node.certs.made[certificate])
    agent = node.agent(node.sink(), ready=False)
    until(lambda: agent.port, 10)
    text = until(lambda: kubelet_of(agent).get("error") and kubelet_of(agent)["message"], 10, "an error is told")
    assert CERTIFICATES[certificate].lower() in text.lower() or "authority" in text.lower() and CERTIFICATES[certificate] == "CA", text
    ready, why = agent.ready()
    assert not ready and "pods" in why and CERTIFICATES[certificate].lower() in why.lower(), why
    assert node.kubelet.asked() == 0, "no request got through"
    node.kubelet.use(node.certs.made["kubelet"])
    agent.wait_ready(40)


def test_the_nodes_own_certificate_can_be_pinned(node):
    node.kubelet.use(node.certs.made["self"])
    agent = node.agent(node.sink(), kubelet__tls__mode="node-cert", kubelet__tls__node_cert_file=node.certs.made["self"].cert)
    assert kubelet_of(agent)["tls_mode"] == "node-cert"
    node.kubelet.use(node.certs.made["other_self"])
    until(lambda: kubelet_of(agent).get("error"), 40, "another self-signed certificate is refused")


def test_auto_tries_the_authority_then_the_nodes_certificate(node):
    node.kubelet.use(node.certs.made["self"])
    agent = node.agent(node.sink(), kubelet__tls__mode="auto", kubelet__tls__node_cert_file=node.certs.made["self"].cert)
    assert kubelet_of(agent)["tls_mode"] == "node-cert"
    other = node.agent(node.sink(), kubelet__tls__mode="auto", kubelet__tls__node_cert_file="/nonexistent", ready=False)
    until(lambda: kubelet_of(other).get("error"), 15, "with neither it fails, and never goes on without")
    assert not other.ready()[0]


def test_insecure_is_possible_and_said(node):
    node.kubelet.use(node.certs.made["expired"])
    agent = node.agent(node.sink(), kubelet__tls__mode="insecure")
    assert "insecure" in agent.log


def test_nobody_listens(node):
    agent = node.agent(node.sink(), kubelet__endpoint="https://127.0.0.1:1", ready=False)
    text = until(lambda: kubelet_of(agent).get("error") and kubelet_of(agent)["message"], 10, "an error is told")
    assert "refused" in text.lower() or "connect" in text.lower(), text
    assert not agent.ready()[0]
    assert agent.get("/healthz")[0] == 200, "it lives"


def test_the_token_is_read_anew_when_it_changes(node):
    """The way the kubelet swaps a projected volume: a symbolic link to another folder."""
    volume = node.folder / "volume"
    for name, text in (("one", "a-token"), ("two", "another-token")):
        (volume / name).mkdir(parents=True)
        (volume / name / "token").write_text(text)
    (volume / "..data").symlink_to("one")
    (volume / "token").symlink_to("..data/token")
    target = node.run()
    agent = node.agent(node.sink(), kubelet__token_file=volume / "token")
    agent.wait_traced(target.pid)
    (volume / "new").symlink_to("two")
    os.rename(volume / "new", volume / "..data")
    node.kubelet.token = "another-token"
    newcomer = node.run()
    agent.wait_traced(newcomer.pid, 10)


def test_the_token_is_in_no_log_and_on_no_page(node):
    node.kubelet.mode = "401"
    agent = node.agent(node.sink(), ready=False)
    until(lambda: kubelet_of(agent).get("error"), 10, "refused")
    assert "a-token" not in agent.log + agent.get("/status")[1] + agent.get("/metrics")[1]


def test_an_ipv6_kubelet(node):
    from harness.kubelet import Kubelet
    kubelet = Kubelet(node.certs.signed("v6", names="DNS:node-1"), token="a-token", address="::1")
    try:
        node.agent(node.sink(), kubelet__endpoint=kubelet.url)
        assert kubelet.asked(200) > 0
    finally:
        kubelet.stop()


def test_an_idle_node_asks_its_kubelet_once_a_refresh(node):
    """Alone: on a machine where containers come and go, each new one is a reason to ask."""
    pod = Pod.of_deployment()
    node.kubelet.set(pod)
    folders = node.cgroups.make(pod, pod.main)
    agent = node.agent(node.sink(), kubelet__refresh="2s", wrap=node.alone([folders, server()]))
    until(lambda: any(p["state"] == "traced" for p in agent.status()["processes"]), 15, "it is traced")
    time.sleep(1)
    before = node.kubelet.asked()
    time.sleep(6.1)
    assert 2 <= node.kubelet.asked() - before <= 4, "every 2 s, with jitter"


def test_unknown_containers_that_never_become_known_do_not_flood_the_kubelet(node):
    sleep = shutil.which("sleep")
    strangers = [[node.cgroups.make(pod, pod.main), sleep, "60"] for pod in (Pod.of_deployment() for _ in range(20))]
    agent = node.agent(node.sink(), kubelet__refresh="30s", wrap=node.alone(*strangers))
    time.sleep(3)
    before = node.kubelet.asked()
    time.sleep(10)
    assert node.kubelet.asked() - before < 12, f"back-off: {[round(t - node.kubelet.requests[0][0], 1) for t, _, _ in node.kubelet.requests]}"
    assert agent.ready()[0]


def test_pods_by_the_hundred(node):
    """110 pods are what a node has by default; 500 what some have."""
    for i in range(500):
        node.kubelet.set(Pod.of_deployment(f"filler-{i}", opted_in=False, annotations={"pad": "x" * 4000}))
    target = node.run()
    agent = node.agent(node.sink())
    agent.wait_traced(target.pid, 10)
    target.pod.annotations[ANNOTATION] = "false"
    agent.wait_untraced(target.pid, 10)
    stays(lambda: agent.ready()[0], 1)


def test_without_a_node_name_the_certificate_is_for_the_address(node):
    node.kubelet.use(node.certs.signed("by-address", names="IP:127.0.0.1"))
    agent = node.agent(node.sink(), node__name="")
    assert kubelet_of(agent)["state"] == "ok"
    node.kubelet.use(node.certs.signed("by-other-address", names="IP:127.0.0.2"))
    other = node.agent(node.sink(), node__name="", ready=False)
    until(lambda: kubelet_of(other)["error"], 10, "another address is another kubelet")


def test_a_kubelet_that_starts_after_the_agent(node):
    from harness.ports import free_port
    from harness.kubelet import Kubelet
    port, sink = free_port(), node.sink()
    target = node.run()
    agent = node.agent(sink, kubelet__endpoint=f"https://127.0.0.1:{port}", ready=False)
    until(lambda: kubelet_of(agent)["error"], 10, "nobody listens")
    assert not agent.ready()[0] and not agent.traced(target.pid)
    late = Kubelet(node.certs.made["kubelet"], token="a-token", port=port)
    late.set(target.pod)
    try:
        agent.wait_ready(35)
        agent.wait_traced(target.pid)
        requests = send(target.port, [Request("/fast")])
        sink.wait(1)
        assert sink.spans[0].rid == requests[0].rid
    finally:
        late.stop()
