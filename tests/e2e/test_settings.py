"""Settings that reach through the whole agent: environment of agent and program, log forms, addresses, what is said at start."""
import json
import re
import urllib.request

import pytest

from harness import truth
from harness.load import Request, send
from harness.pods import Pod
from harness.wait import until


def test_the_programs_own_opentelemetry_variables_name_it(node):
    """OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES of the traced program; an annotation of its pod wins."""
    sink = node.sink()
    env = {"OTEL_SERVICE_NAME": "from-env", "OTEL_RESOURCE_ATTRIBUTES": "team=blue,service.name=not-this,service.version=7"}
    by_env = node.run(env=env)
    annotated = node.run(env=env, pod=Pod.of_deployment(annotations={"resource.opentelemetry.io/service.name": "from-annotation"}))
    agent = node.agent(sink)
    for target, name in ((by_env, "from-env"), (annotated, "from-annotation")):
        agent.wait_traced(target.pid)
        request, = send(target.port, [Request("/fast")])
        span = until(lambda: next((s for s in sink.spans if s.rid == request.rid), None), 10, "its span")
        assert (span.service, span.resource["team"], span.resource["service.version"]) == (name, "blue", "7"), span.resource
        assert span.resource["k8s.pod.name"] == target.pod.name


def test_samplers_by_opentelemetrys_variables(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, env={"OTEL_TRACES_SAMPLER": "parentbased_always_off"})
    agent.wait_traced(target.pid)
    requests = send(target.port, [Request("/fast", trace=t) for t in (True, None) for _ in range(10)])
    sink.wait(10)
    until(lambda: agent.conservation()["sampled_out"] == 10, 5, "the others are sampled out")
    truth.one_each(sink.spans, [r for r in requests if r.trace])


def test_a_bad_value_of_opentelemetrys_variables_is_a_warning_and_the_default(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, env={"OTEL_TRACES_SAMPLER": "nonsense", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "many"})
    agent.wait_traced(target.pid)
    send(target.port, [Request("/fast")])
    sink.wait(1)
    for word in ("OTEL_TRACES_SAMPLER", "nonsense", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "many"):
        assert word in agent.log, agent.tail()


def test_a_bad_value_of_our_own_variables_is_refused(node):
    agent = node.agent(node.sink(), env={"SPOOR_BATCH_SPANS": "many"}, ready=False)
    assert agent.process.wait(10) > 0 and "SPOOR_BATCH_SPANS" in agent.log and "many" in agent.log


def test_log_lines_as_json(node):
    node.kubelet.mode = "401"
    agent = node.agent(node.sink(), log__format="json", ready=False)
    until(lambda: "401" in agent.log, 10, "the refusal is told")
    node.kubelet.mode = "ok"
    agent.wait_ready(40)
    agent.stop()
    lines = [json.loads(line) for line in agent.log.splitlines()]
    assert lines and all({"time", "level", "msg"} <= set(line) for line in lines)


def test_every_log_line_is_logfmt(node):
    target = node.run()
    agent = node.agent(node.sink())
    agent.wait_traced(target.pid)
    agent.stop()
    for line in agent.log.splitlines():
        assert re.fullmatch(r'time=\S+Z level=(error|warn|info|debug) msg="(\\.|[^"\\])*"( \S+=("(\\.|[^"\\])*"|\S+))*', line), line


def test_few_lines_at_the_level_info(node):
    """One line for an event that matters, none for each process or request."""
    targets = [node.run() for _ in range(5)]
    sink = node.sink()
    agent = node.agent(sink, log__level="info")
    for target in targets:
        agent.wait_traced(target.pid)
        send(target.port, [Request("/fast") for _ in range(20)])
    sink.wait(100)
    agent.stop()
    assert len(agent.log.splitlines()) < 15, agent.log
    assert "ceiling" in agent.log, "the memory that it may take is known at start"
    assert "level=error" not in agent.log and "level=warn" not in agent.log, agent.log


@pytest.mark.parametrize("address", ("::1", "::"))
def test_pages_on_ipv6(node, address):
    agent = node.agent(node.sink(), admin__listen=address, ready=False)
    port = agent.port

    def get(host):
        try:
            return urllib.request.urlopen(f"http://{host}:{port}/readyz", timeout=2).status == 200
        except OSError:
            return False
    until(lambda: get("[::1]"), 10, "it answers over IPv6")
    if address == "::":
        assert get("127.0.0.1"), "and over IPv4 on the same socket"


def test_no_pages_at_all(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, admin__listen="", ready=False)

    def served():
        send(target.port, [Request("/fast")])
        return sink.spans
    until(served, 15, "it traces all the same", every=0.3)
    from harness.process import listening
    assert not listening(agent.real_pid)


def test_long_queries_paths_and_agents_are_cut_and_counted(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink)
    agent.wait_traced(target.pid)
    long = [Request("/items/" + "p" * 3000), Request("/fast?q=" + "ü" * 1500), Request("/fast", headers=[("User-Agent", "u" * 3000)])]
    send(target.port, long, workers=1)
    spans = {s.trace_id: s for s in sink.wait(3)}
    path, query, agent_name = (spans[r.trace_id].attrs for r in long)
    assert 400 < len(path["url.path"]) <= 512 and len(query["url.query"].encode()) <= 512 and len(agent_name["user_agent.original"]) <= 256
    assert agent.metric("spoor_spans_truncated_total") == 3
