"""What the agent may do, what it says when it may not, and what its pages tell."""
import json
import os
import shutil
import subprocess

import pytest

from harness.agent import CHART_CAPABILITIES, unprivileged
from harness.load import Request, send
from harness.node import server
from harness.paths import agent_binary
from harness.pods import ANNOTATION, Pod
from harness.wait import until


def check(*args, capabilities=CHART_CAPABILITIES, env=None):
    done = subprocess.run(unprivileged([agent_binary(), *args], capabilities), capture_output=True, text=True, timeout=30,
                          env={**os.environ, **(env or {})})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("missing", CHART_CAPABILITIES)
def test_each_capability_that_is_missing_is_named_with_what_is_lost(node, missing):
    """Field case 37: in one line at start, in `spoor check` and on the status page."""
    rest = tuple(c for c in CHART_CAPABILITIES if c != missing)
    name = "CAP_" + missing.upper()
    target = node.run()
    agent = node.agent(node.sink(), capabilities=rest, ready=False)
    until(lambda: name in agent.log, 10, lambda: f"{name} is named: {agent.tail()}")
    line = next(line for line in agent.log.splitlines() if name in line)
    assert len(line) > len(name) + 20, "and what is lost without"
    code, text = check("check", "--config", str(agent.config), capabilities=rest)
    assert name in text and (code != 0) == (missing != "dac_read_search"), f"essential or not: {text}"
    if agent.process.running:
        page = until(lambda: agent.get("/status")[1], 10)
        assert name in page, page
        assert not (missing in ("bpf", "perfmon") and agent.traced(target.pid))
    else:
        assert agent.process.wait(5) > 0 and missing in ("bpf", "perfmon"), "only what nothing goes without ends it"


def test_with_the_charts_capabilities_the_check_finds_nothing_missing(node):
    agent = node.agent(node.sink())
    code, text = check("check", "--config", str(agent.config))
    assert code == 0, text
    for word in ("CAP_BPF", "uprobe_multi", "kubelet"):
        assert word in text, text


def test_the_check_tells_of_a_kubelet_that_refuses(node):
    agent = node.agent(node.sink())
    node.kubelet.mode = "403"
    code, text = check("check", "--config", str(agent.config))
    assert code != 0 and "nodes/pods" in text, text


def test_every_process_and_pod_has_one_state_and_one_reason(node):
    """Field case 38."""
    sink = node.sink()
    targets = {
        "traced": node.run(),
        "not_selected": node.run(pod=Pod.of_deployment(opted_in=False)),
        "refused": node.run(pod=Pod.of_deployment(annotations={ANNOTATION: "false"})),
        "not_go": node.run(shutil.which("sleep"), "60"),
        "pending": node.run(known=False),
    }
    agent = node.agent(sink)
    agent.wait_traced(targets["traced"].pid)
    send(targets["traced"].port, [Request("/fast") for _ in range(3)])
    sink.wait(3)
    state = agent.process_state(targets["traced"].pid)
    assert state["probes"] > 0 and state["spans"] == 3 and state["last_event"] and state["reason"]
    assert state["pod"] == targets["traced"].pod.name and state["container"] == "app"
    library = next(lib for lib in state["libraries"] if lib["name"] == "net_http")
    assert library["spans"] == 3 and library["probes"] and all(part["name"] for part in library["parts"])
    not_go = agent.process_state(targets["not_go"].pid)
    assert not_go["state"] == "not_go" and not_go["reason"], not_go
    pods = {p["name"]: p for p in agent.status()["pods"]}
    for kind, target in targets.items():
        pod = pods[target.pod.name]
        assert pod["reason"], f"{kind}: {pod}"
    traced = pods[targets["traced"].pod.name]
    assert traced["selected"] and (traced["processes"], traced["traced"]) == (1, 1)
    assert "false" in pods[targets["refused"].pod.name]["reason"], pods[targets["refused"].pod.name]
    assert ANNOTATION in pods[targets["not_selected"].pod.name]["reason"]


def test_the_status_page_is_for_the_node_only(node):
    """From another address than loopback it is refused; metrics and health are not."""
    import socket
    import urllib.error
    import urllib.request
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("192.0.2.1", 9))
        address = s.getsockname()[0]
    assert not address.startswith("127."), "this machine has an address of its own"
    agent = node.agent(node.sink(), admin__listen="0.0.0.0")
    base = f"http://{address}:{agent.port}"
    for path in ("/metrics", "/healthz", "/readyz"):
        assert urllib.request.urlopen(base + path, timeout=5).status == 200
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(base + "/status", timeout=5)
    assert refused.value.code == 403


def test_metrics_are_what_prometheus_reads(node):
    target = node.run()
    agent = node.agent(node.sink())
    agent.wait_traced(target.pid)
    import urllib.request
    with urllib.request.urlopen(f"http://127.0.0.1:{agent.port}/metrics") as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"), answer.headers["Content-Type"]
        text = answer.read()
    promtool = shutil.which("promtool")
    assert promtool, "promtool is needed (package prometheus)"
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True)
    assert done.returncode == 0 and not done.stderr, done.stderr.decode()


def inspect(what, *args):
    done = subprocess.run([agent_binary(), "inspect", str(what), *args], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_inspect_tells_functions_fields_and_where_they_came_from(node):
    """Field case 38."""
    target = node.run()
    for what in (server(), target.pid):
        code, text, _ = inspect(what)
        assert code == 0 and "net_http" in text and "net/http.serverHandler.ServeHTTP" in text
        assert "net/http.Request" in text and "metadata" in text and "go1.26" in text
        code, text, _ = inspect(what, "--json")
        page = json.loads(text)
        library = next(lib for lib in page["libraries"] if lib["name"] == "net_http")
        assert library and code == 0


def test_inspect_refuses_what_is_no_go_program_with_its_reason():
    code, out, err = inspect("/bin/ls")
    assert code != 0 and (out + err).strip()


def test_configuration_mistakes_are_refused_with_file_line_key_and_value(node):
    agent = node.agent(node.sink(), start=False)
    agent.options["batch.spans"] = "many"
    agent.start(ready=False)
    assert agent.process.wait(10) > 0
    for word in (str(agent.config), "batch.spans", "many"):
        assert word in agent.log, agent.log
    agent.options["batch.spans"] = 512
    agent.options["batch.spam"] = 1
    agent.start(ready=False)
    assert agent.process.wait(10) > 0 and "batch.spam" in agent.log


def test_an_old_go_program_is_refused_with_that_reason(node):
    """Go before 1.19: npm's esbuild-linux-64 0.14.0 was built with 1.17.2."""
    from thirdparty import old_esbuild
    target = node.run(old_esbuild(), "--serve=127.0.0.1:0", cwd=str(node.folder))
    agent = node.agent(node.sink())
    state = until(lambda: (s := agent.process_state(target.pid)).get("state") == "unsupported" and s, 10,
                  lambda: f"refused: {agent.process_state(target.pid)}")
    assert "before 1.19" in state["reason"], state
