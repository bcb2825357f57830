"""Span metrics and the service graph, beside the requests that were sent, the spans of them, a collector's own count, and a Prometheus."""
import re
import subprocess
import urllib.parse
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from harness import gobuild
from harness.agent import CHART_CAPABILITIES
from harness.load import Request, send
from harness.node import Node
from harness.otlp import CLIENT, SERVER, last_points
from harness.paths import tool
from harness.pods import Pod
from harness.ports import free_port
from harness.wait import until

CAPABILITIES = (*CHART_CAPABILITIES, "net_admin")
CALLS, LATENCY = "traces_spanmetrics_calls_total", "traces_spanmetrics_latency"
EDGE = "traces_service_graph_request_"
SPAN_BOUNDS, EDGE_BOUNDS = [0.002 * 2**i for i in range(14)], [0.1 * 2**i for i in range(8)]
BOTH = {"metrics__span_metrics": True, "metrics__service_graph": True}


def service(node, name, **kw):
    return node.run(gobuild.build(Path(__file__).parent / "hop"), pod=Pod.of_deployment(name, **kw))


def via(*hops, code=200):
    """A request to the first of these ports, which asks the next, and so on."""
    path = f"/n/{code}"
    for port in reversed(hops):
        path = f"/via?to={urllib.parse.quote(f'http://{port}{path}' if isinstance(port, str) else f'http://127.0.0.1:{port}{path}', safe='')}"
    return Request(path, trace=None, tag=False)


def edges(points, metric=EDGE + "total"):
    """(client, server, connection_type): how many, over all who count."""
    found = Counter()
    for p in last_points(points):
        if p.metric == metric:
            found[p.attrs["client"], p.attrs["server"], p.attrs["connection_type"]] += int(p.value or p.count)
    return dict(found)


def points(receiver):
    return receiver.points() if callable(receiver.points) else receiver.points


def page(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return answer.read()


def graph_agent(node, receiver, **options):
    return node.agent(receiver, capabilities=CAPABILITIES, **{"propagation": "headers", "metrics__interval": "300ms", **BOTH, **options})


@pytest.mark.parametrize("sampler", ("always_on", "always_off"))
def test_edges_are_what_was_asked_before_sampling(node, sampler):
    sink = node.sink()
    front, middle, back = (service(node, name) for name in ("front", "middle", "back"))
    agent = graph_agent(node, sink, traces__sampler=sampler)
    for target in (front, middle, back):
        agent.wait_traced(target.pid)
    send(front.port, [via(middle.port, back.port)] * 30 + [via(back.port, code=500)] * 10)
    want = {("user", "front", "virtual_node"): 40, ("front", "middle", ""): 30, ("middle", "back", ""): 30, ("front", "back", ""): 10}
    until(lambda: edges(points(sink)) == want, 15, lambda: f"{edges(points(sink))}")
    agent.stop()
    got = points(sink)
    assert edges(got) == want, "each once, also at the end"
    assert edges(got, EDGE + "failed_total") == {("user", "front", "virtual_node"): 10, ("front", "back", ""): 10}
    assert edges(got, EDGE + "server_seconds") == want
    assert edges(got, EDGE + "client_seconds") == {k: n for k, n in want.items() if k[0] != "user"}
    assert len(sink.spans) == (0 if sampler == "always_off" else 40 + 30 + 40 + 40 + 30)
    for p in last_points(got):
        if p.metric.startswith("traces_"):
            assert p.unit == "" and p.scope == "spoor/derived" and p.temporality == 2
            assert p.kind == ("sum" if p.metric.endswith("_total") else "histogram")
            assert p.kind == "sum" or p.bounds == pytest.approx(SPAN_BOUNDS if p.metric == LATENCY else EDGE_BOUNDS)
            # An edge is a series of its client.
            name = p.attrs.get("service") or (p.attrs["server"] if p.attrs["client"] == "user" else p.attrs["client"])
            assert p.resource["service.name"] == name
    if sampler == "always_on":
        check_seconds(sink.spans, got)


def check_seconds(spans, got):
    """Seconds of both sides are those of the spans that meet."""
    clients = {(s.trace_id, s.span_id): s for s in spans if s.kind == CLIENT}
    took = Counter()
    for s in spans:
        asked = clients.get((s.trace_id, s.parent_id)) if s.kind == SERVER else None
        if asked:
            edge = asked.resource["service.name"], s.resource["service.name"]
            took["server", edge] += (s.end - s.start) / 1e9
            took["client", edge] += (asked.end - asked.start) / 1e9
    for side in ("server", "client"):
        sums = Counter()
        for p in last_points(got):
            if p.metric == f"{EDGE}{side}_seconds" and p.attrs["client"] != "user":
                sums[side, (p.attrs["client"], p.attrs["server"])] += p.sum
        want = {k: v for k, v in took.items() if k[0] == side}
        assert dict(sums) == pytest.approx(want, rel=1e-6) and len(want) == 3


def test_agents_of_two_nodes_count_a_request_between_them_once(node, tmp_path, pki):
    sink = node.sink()
    (tmp_path / "other").mkdir()
    other = Node(tmp_path / "other", pki)
    try:
        front, back = service(node, "front"), service(other, "back")
        here, there = graph_agent(node, sink), graph_agent(other, sink)
        here.wait_traced(front.pid)
        there.wait_traced(back.pid)
        send(front.port, [via(f"localhost:{back.port}")] * 20)
        until(lambda: there.conservation()["produced"] == 20 and here.conservation()["produced"] == 40, 10, "all is seen")
        here.stop()
        there.stop()
        assert edges(points(sink)) == {("user", "front", "virtual_node"): 20, ("front", "localhost", "virtual_node"): 20}
        assert edges(points(sink), EDGE + "server_seconds") == {("user", "front", "virtual_node"): 20}
    finally:
        other.close()


@pytest.mark.parametrize("code", (200, 204))
def test_a_pod_that_is_not_traced_is_known_by_its_address(node, code):
    sink = node.sink()
    front, plain = service(node, "front"), service(node, "plain", opted_in=False, ip="127.0.0.1")
    agent = graph_agent(node, sink)
    agent.wait_traced(front.pid)
    send(front.port, [via(plain.port, code=code)] * 20)
    until(lambda: agent.conservation()["produced"] == 40, 10, "all is seen")
    agent.stop()
    assert edges(points(sink)) == {("user", "front", "virtual_node"): 20, ("front", "plain", "virtual_node"): 20}


def test_who_waits_is_counted_after_ten_seconds(node):
    sink = node.sink()
    front, outside = service(node, "front"), node.run_outside(gobuild.build(Path(__file__).parent / "hop"))
    agent = graph_agent(node, sink)
    agent.wait_traced(front.pid)
    send(front.port, [via(f"localhost:{outside.port}")] * 5)
    until(lambda: agent.metric("spoor_graph_waiting_edges") == 5, 5, "they wait")
    until(lambda: edges(points(sink)).get(("front", "localhost", "virtual_node")) == 5, 15, lambda: f"{edges(points(sink))}")
    assert agent.metric("spoor_graph_waiting_edges") == 0


def test_a_collectors_own_span_metrics_of_the_same_spans_say_the_same(node):
    collector = node.collector(config="spancalls.yaml")
    front, back = service(node, "front"), service(node, "back")
    agent = graph_agent(node, collector)
    agent.wait_traced(front.pid)
    agent.wait_traced(back.pid)
    send(front.port, [via(back.port)] * 25 + [via(back.port, code=503)] * 15 + [Request("/n/404", trace=None, tag=False)] * 5)

    def ours():
        return {(p.attrs["service"], p.attrs["span_name"], p.attrs["span_kind"], p.attrs["status_code"]): p for p in last_points(points(collector))
                if p.metric == LATENCY}

    def theirs():
        return {(p.attrs["service.name"], p.attrs["span.name"], p.attrs["span.kind"], p.attrs["status.code"]): p
                for p in last_points(points(collector)) if p.metric == "traces.span.metrics.duration"}

    until(lambda: all(sum(p.count for p in side().values()) == 125 for side in (ours, theirs)), 15, lambda: f"{ours()} {theirs()}")
    a, b = ours(), theirs()
    assert {k: (p.count, p.buckets) for k, p in a.items()} == {k: (p.count, p.buckets) for k, p in b.items()} and len(a) == 7
    assert {k: p.sum for k, p in a.items()} == pytest.approx({k: p.sum for k, p in b.items()})
    calls = {tuple(p.attrs[k] for k in ("service", "span_name", "span_kind", "status_code")): p.value for p in last_points(points(collector))
             if p.metric == CALLS}
    assert calls == {k: p.count for k, p in a.items()}


def test_grafanas_queries_of_a_service_graph(node):
    front, back = service(node, "front"), service(node, "back")
    port = free_port()
    agent = graph_agent(node, node.sink(), metrics__exporters="prometheus", prometheus__port=port, prometheus__listen="127.0.0.1")
    agent.wait_traced(front.pid)
    agent.wait_traced(back.pid)
    send(front.port, [via(back.port)])  # so that what follows is an increase
    prometheus = node.prometheus(port)
    until(lambda: prometheus.value(f'{EDGE}total{{client="front"}}') == 1, 15, "it is scraped")
    send(front.port, [via(back.port)] * 30 + [via(back.port, code=500)] * 10)
    until(lambda: prometheus.value(f'{EDGE}total{{client="front"}}') == 41, 15, lambda: f"{prometheus.query(EDGE + 'total')}")

    def by(promql, *labels):
        return {tuple(labels_.get(k, "") for k in labels): v for labels_, v in prometheus.query(promql)}

    # As Grafana's Tempo data source asks: nodes and edges of the graph, and their seconds.
    assert by(f"sum by (client, server, connection_type) ({EDGE}total)", "client", "server", "connection_type") == {
        ("front", "back", ""): 41, ("user", "front", "virtual_node"): 41}
    rates = by(f"sum by (client, server, connection_type) (rate({EDGE}total[1m]))", "client", "server")
    assert set(rates) == {("front", "back"), ("user", "front")} and all(v > 0 for v in rates.values())
    assert by(f"sum by (client, server) ({EDGE}failed_total)", "client", "server") == {("front", "back"): 10, ("user", "front"): 10}
    mean = by(f"sum by (client, server) ({EDGE}server_seconds_sum) / sum by (client, server) ({EDGE}server_seconds_count)", "client", "server")
    assert 0.002 <= mean["front", "back"] <= mean["user", "front"] < 1
    assert 0 < prometheus.value(f'histogram_quantile(0.9, sum by (le) ({EDGE}server_seconds_bucket{{server="back"}}))') <= 0.1
    # ... and its table of services.
    assert by(f'sum by (service, span_name) ({CALLS}{{span_kind="SPAN_KIND_SERVER"}})', "service", "span_name") == {
        ("front", "GET /via"): 41, ("back", "GET /n/"): 41}
    errors = by(f'sum by (service) ({CALLS}{{status_code="STATUS_CODE_ERROR",span_kind="SPAN_KIND_SERVER"}})', "service")
    assert errors == {("front",): 10, ("back",): 10}
    assert 0 < prometheus.value(f'histogram_quantile(0.9, sum by (le) ({LATENCY}_bucket{{service="back"}}))') < 1
    # An edge ends with its client's pod.
    front.stop()
    node.kubelet.remove(front.pod)
    until(lambda: not prometheus.query(f"{EDGE}total"), 15, "its edges are gone")


def test_everything_that_can_be_measured_at_once_also_of_a_name_that_needs_quoting(node):
    sink, port, name = node.sink(), free_port(), 'quo"te\\ \n{}, end'
    front = service(node, "front", annotations={"resource.opentelemetry.io/service.name": name})
    back = service(node, "back")
    agent = graph_agent(node, sink, metrics__exporters=["otlp", "prometheus"], prometheus__port=port, prometheus__listen="127.0.0.1",
                        metrics__temporality="delta", metrics__histogram="base2_exponential_bucket_histogram", metrics__process=True,
                        http__body_sizes=True, metrics__add_attributes={CALLS: "http.route", LATENCY: "http.route"})
    agent.wait_traced(front.pid)
    agent.wait_traced(back.pid)
    prometheus = node.prometheus(port)
    for _ in range(4):
        send(front.port, [via(back.port)] * 10)
    until(lambda: prometheus.query(f"{EDGE}total{{client!='user'}}") and prometheus.value(f"sum({EDGE}total)") == 80, 15,
          lambda: f"{prometheus.query(EDGE + 'total')} {prometheus.health()}")
    found = {(labels["client"], labels["server"]): v for labels, v in prometheus.query(f"{EDGE}total")}
    assert found == {(name, "back"): 40, ("user", name): 40}
    complaints = subprocess.run([tool("promtool"), "check", "metrics"], input=page(port), capture_output=True, check=False).stderr.decode()
    # Names of the conventions that Prometheus would give to summaries only.
    assert set(re.findall(r"^\S+", complaints, re.M)) == {"go_goroutine_count", "process_thread_count", "process_unix_file_descriptor_count"}, complaints
    assert all("_count" in line for line in complaints.splitlines())
    agent.stop()
    told, requests = Counter(), 0
    for p in sink.points:
        if p.metric == EDGE + "total":
            assert p.temporality == 1
            told[p.attrs["client"], p.attrs["server"]] += p.value
        elif p.metric == "http.server.request.duration":
            assert p.temporality == 1 and p.kind == "exponentialHistogram"
            requests += p.count
    assert dict(told) == found and requests == 80
    metrics = {p.metric for p in sink.points}
    assert metrics >= {CALLS, LATENCY, "http.client.request.duration", "http.server.response.body.size", "process.cpu.time", "go.goroutine.count"}
    assert {p.attrs.get("http.route") for p in sink.points if p.metric == CALLS} >= {"/via", "/n/"}
