"""Outbound trace context: exactly one traceparent in what traced programs send, and not another byte changed."""
import json
import re
import signal
import time

import pytest

from harness.agent import CHART_CAPABILITIES
from harness.otlp import CLIENT, SERVER
from harness.pods import Pod
from harness.wait import until

from conftest import CAPABILITIES, program

VALUE = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])")


def values(results):
    """(trace id, span id, flags) of each traceparent that is not the program's own."""
    return [VALUE.fullmatch(r["got"]["values"][0]).groups() for r in results if r["got"]["values"] and not r["own"]]


def absent(agent):
    return {re.search(r'reason="([^"]*)"', k)[1]: int(v) for k, v in agent.metrics().items()
            if k.startswith("spoor_propagation_absent_total{") and v}


def test_every_request_arrives_as_it_was_written_with_exactly_one_traceparent(world, requests):
    """Methods, headers up to 64 KB, bodies, chunks, Expect, sendfile, several writes, reuse; ids are those of the exported span."""
    want = world.untouched(requests)
    sink = world.node.sink()
    agent = world.agent(sink)
    sender = world.sender(requests)
    agent.wait_traced(sender.pid)
    got = sender.go().results()
    world.compare(got, requests)
    lacking = [r for r in got if not r["got"]["values"] and not r["long"]]
    # Only where earlier bytes were in flight is a request left alone that could have had one: hardly ever.
    assert len(lacking) <= requests // 1000 and len(lacking) == absent(agent).get("in_flight", 0), (lacking[:3], absent(agent))
    ids = values(got)
    assert len(set(ids)) == len(ids) == requests - len(lacking) - sum(r["own"] or r["long"] for r in got)
    assert agent.metric("spoor_propagation_inserted_total") == len(ids)
    assert absent(agent).get("own_header", 0) == sum(r["own"] for r in got)
    assert absent(agent).get("long_line", 0) == sum(r["long"] and not r["own"] for r in got)
    until(lambda: agent.metric("spoor_spans_exported_total") >= requests, 60, "all spans are exported")
    spans = {(s.trace_id, s.span_id) for s in sink.spans if s.kind == CLIENT}
    assert {(t, s) for t, s, _ in ids} <= spans and all(flags == "01" for _, _, flags in ids)
    assert len(want) == requests
    sender.target.stop()
    agent.stop()


def test_requests_arrive_whole_while_the_agent_is_killed_and_started_again(world, requests):
    agent = world.agent(world.node.sink(keep=False))
    sender = world.sender(requests, pace=300)
    agent.wait_traced(sender.pid)
    sender.go()
    deaths = 0
    while not sender.done and sender.target.process.running:
        time.sleep(0.4)
        agent.kill()
        deaths += 1
        time.sleep(0.1)
        agent.start()
        until(lambda: agent.traced(sender.pid) or sender.done, 15, "it is traced again")
    got = sender.results()
    world.compare(got, requests)
    with_one = len(values(got))
    assert deaths >= (2 if requests >= 10000 else 1) and 0 < with_one < requests, f"{deaths} deaths, {with_one} of {requests} with a traceparent"
    sender.target.stop()
    agent.stop()


def test_connections_that_were_there_before_the_agent_are_seen(world):
    n = 200
    sender = world.sender(n, plain=True, idle=True, workers=4)
    agent = world.agent(world.node.sink())
    agent.wait_traced(sender.pid)
    got = sender.go().results()
    world.compare(got, n, plain=True)
    assert len(values(got)) == n, absent(agent)
    sender.target.stop()
    agent.stop()


def test_who_has_not_opted_in_is_left_alone(world):
    n = 300
    agent = world.agent(world.node.sink())
    theirs, ours = world.sender(n, plain=True, opted_in=False), world.sender(n, plain=True)
    agent.wait_traced(ours.pid)
    got, seen = theirs.go().results(), ours.go().results()
    world.compare(got, n, plain=True)
    assert values(got) == [] and len(values(seen)) == n
    assert agent.metric("spoor_propagation_inserted_total") == n
    theirs.target.stop()
    # And who opts out again, with the connections that it has.
    more = world.sender(n, plain=True, idle=True)
    agent.wait_traced(more.pid)
    more.target.pod.annotations.clear()
    world.node.kubelet.set(more.target.pod)
    agent.wait_untraced(more.pid)
    assert values(more.go().results()) == []
    more.target.stop()
    ours.target.stop()
    agent.stop()


def test_the_sampled_flag_is_the_decision(world):
    n = 1000
    sink = world.node.sink()
    agent = world.agent(sink, traces__sampler="traceidratio", traces__sampler_arg="0.3")
    sender = world.sender(n, plain=True)
    agent.wait_traced(sender.pid)
    ids = values(sender.go().results())
    until(lambda: agent.metric("spoor_spans_produced_total") >= n and not agent.conservation()["open"], 20, "all is told")
    until(lambda: agent.metric("spoor_export_queue_items") == 0, 20, "all is exported")
    sampled = {(t, s) for t, s, flags in ids if flags == "01"}
    assert len(ids) == n and 0.2 * n < len(sampled) < 0.4 * n
    assert {(s.trace_id, s.span_id) for s in sink.spans} == sampled
    sender.target.stop()
    agent.stop()


def test_the_servers_span_is_the_callers_child(world):
    n = 300
    sink = world.node.sink()
    agent = world.agent(sink)
    web = world.node.run(program(), "web")
    port = web.process.record("port")
    agent.wait_traced(web.pid)
    sender = world.sender(n, plain=True, address=f"127.0.0.1:{port}")
    agent.wait_traced(sender.pid)
    sender.go()
    until(lambda: sender.done, 60, "it has sent all")
    spans = sink.wait(2 * n)
    callers = {s.span_id: s for s in spans if s.kind == CLIENT}
    served = [s for s in spans if s.kind == SERVER]
    assert len(callers) == len(served) == n
    assert {s.parent_id for s in served} == set(callers)
    assert all(callers[s.parent_id].trace_id == s.trace_id for s in served)
    sender.target.stop()
    web.stop()
    agent.stop()


def test_over_ipv6_and_ipv4_on_sockets_of_ipv6(world):
    n = 200
    agent = world.agent(world.node.sink())
    for listen, dial in (("[::1]:0", "[::1]"), ("[::]:0", "[::1]"), ("[::]:0", "127.0.0.1"), ("127.0.0.1:0", "localhost"),
                         ("127.0.0.1:0", "[::ffff:127.0.0.1]")):
        receiver = world.receive(listen)
        sender = world.sender(n, plain=True, address=f"{dial}:{receiver.process.record('port')}")
        agent.wait_traced(sender.pid)
        assert len(values(sender.go().results())) == n, f"{dial}: {absent(agent)}"
        sender.target.stop()
        receiver.stop()
    agent.stop()


@pytest.mark.parametrize("how,reason", [("tls", "tls"), ("wrapped", "connection")])
def test_what_it_cannot_do_is_left_alone_and_counted(world, how, reason):
    n = 200
    agent = world.agent(world.node.sink())
    sender = world.sender(n, plain=True, **{how: True})
    agent.wait_traced(sender.pid)
    assert values(sender.go().results()) == [] and absent(agent) == {reason: n}
    sender.target.stop()
    agent.stop()


def test_an_agent_in_a_pid_namespace_of_its_own(world):
    """As on kind: BPF sees other pids than the agent."""
    node, n, out = world.node, 3000, world.node.folder / "alone.json"
    sink, pod = node.sink(), Pod.of_deployment()
    folders = node.cgroups.make(pod, pod.main)
    node.kubelet.set(pod)
    agent = node.agent(sink, capabilities=CAPABILITIES, propagation="headers", wrap=node.alone(
        [folders, program(), "send", "-address", f"127.0.0.1:{world.port}", "-plain", "-workers", 2, "-pace", 3000, "-n", n, "-out", out]))
    until(lambda: any(p["state"] == "traced" for p in agent.status()["processes"]), 20, "it is traced")
    until(out.exists, 60, "it has sent all")
    time.sleep(0.2)
    ids = values([json.loads(line) for line in out.read_text().splitlines()])
    assert len(ids) > n / 3 and agent.metric("spoor_propagation_inserted_total") == len(ids), (len(ids), absent(agent))
    spans = {(s.trace_id, s.span_id) for s in sink.wait(len(ids))}
    assert {(t, s) for t, s, _ in ids} <= spans
    agent.stop()


@pytest.mark.parametrize("go", ["1.19", "1.21", "1.22", "1.23", "1.26", "1.27"])
def test_every_go_version(world, go):
    n = 400
    agent = world.agent(world.node.sink())
    sender = world.sender(n, go=go)
    agent.wait_traced(sender.pid)
    got = sender.go().results()
    lacking = [r for r in got if not r["got"]["values"] and not r["long"]]
    assert len(lacking) <= 1 + absent(agent).get("in_flight", 0), (lacking[:3], absent(agent))
    assert len(set(values(got))) == len(values(got)) > n / 2
    assert all(r["got"]["at"] in (None, [2]) for r in got if not r["own"]) and not world.broken()
    sender.target.stop()
    agent.stop()


def test_without_the_capability_it_says_so_and_traces_all_the_same(world):
    n = 100
    sink = world.node.sink()
    agent = world.node.agent(sink, capabilities=CHART_CAPABILITIES, propagation="headers")
    sender = world.sender(n, plain=True)
    agent.wait_traced(sender.pid)
    assert values(sender.go().results()) == []
    assert len(sink.wait(n)) == n
    page = agent.status()["propagation"]
    assert page["mode"] == "headers" and not page["works"] and "CAP_NET_ADMIN" in page["reason"]
    assert "CAP_NET_ADMIN" in agent.log
    assert agent.metrics()['spoor_feature_enabled{feature="propagation",reason="' + page["reason"] + '"}'] == 0
    sender.target.stop()
    agent.stop()


def test_off_is_the_default_and_costs_no_hit(world):
    agent = world.node.agent(world.node.sink())
    sender = world.sender(50, plain=True)
    agent.wait_traced(sender.pid)
    library = next(lib for lib in agent.process_state(sender.pid)["libraries"] if lib["name"] == "net_http_client")
    assert "send http/1" not in library["probes"], library
    part = next(p for p in library["parts"] if "traceparent" in p["name"])
    assert not part["traced"] and part["missing"] == "propagation is off"
    assert values(sender.go().results()) == [] and agent.status()["propagation"]["mode"] == "off"
    sender.target.stop()
    agent.stop()


def test_a_mode_that_does_not_exist_is_refused_at_start(world):
    agent = world.node.agent(world.node.sink(), start=False, propagation="writes")
    agent.start(ready=False)
    assert agent.process.wait(10) > 0
    assert "propagation" in agent.log and "'writes'" in agent.log, agent.log


def test_the_agent_leaves_plain_sockets_behind_when_it_dies(world):
    n = 200
    agent = world.agent(world.node.sink())
    sender = world.sender(n, plain=True, idle=True, workers=4)
    agent.wait_traced(sender.pid)
    agent.stop(signal.SIGKILL, code=None)
    got = sender.go().results()
    world.compare(got, n, plain=True)
    assert values(got) == []
    sender.target.stop()


def test_where_memory_may_not_be_written_it_does_what_headers_does(world):
    """`propagation: write` needs CAP_SYS_ADMIN, which this agent lacks (and a kernel without lockdown): said, and no less works."""
    n = 200
    agent = world.agent(world.node.sink(), propagation="write")
    told = agent.status()["propagation"]
    assert told["mode"] == "write" and told["works"] and not told["write"]["works"], told
    assert "write into programs' memory" in told["write"]["reason"], told
    plain, secure = world.sender(n, plain=True), world.sender(n, plain=True, tls=True)
    agent.wait_traced(plain.pid)
    agent.wait_traced(secure.pid)
    assert len(values(plain.go().results())) == n
    assert values(secure.go().results()) == [] and absent(agent) == {"tls": n}
    plain.target.stop()
    secure.target.stop()
    agent.stop()
