"""What traced programs serve and call is measured, each operation once, whatever becomes of its span."""
import time
from collections import Counter

import pytest

from harness import gobuild
from harness.load import Request, send
from harness.node import server
from harness.otlp import last_points
from harness.pods import Pod
from harness.wait import until

SERVER, INTERVAL = "http.server.request.duration", "500ms"
SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]


def requests(n):
    paths = ["/fast", "/items/7", "/teapot", "/fail"]
    return [Request(paths[i % len(paths)], trace=None) for i in range(n)]


@pytest.mark.parametrize("go", gobuild.VERSIONS)
def test_each_request_is_counted_once_with_the_attributes_of_the_conventions(node, measured, go):
    collector = node.collector()
    target = node.run(server(go))
    agent = node.agent(collector, metrics__interval=INTERVAL)
    agent.wait_traced(target.pid)
    send(target.port, requests(400), workers=8)
    points = measured(collector, SERVER, 400)
    spans = collector.wait(400)
    by_attrs = Counter()
    for s in spans:
        by_attrs[tuple(sorted((k, str(s.attrs[k])) for k in ("http.request.method", "url.scheme", "http.response.status_code",
                                                              "http.route", "error.type", "network.protocol.version")
                              if k in s.attrs))] += 1
    assert {tuple(sorted((k, str(v)) for k, v in p.attrs.items())): p.count for p in points} == dict(by_attrs)
    for p in points:
        assert p.kind == "histogram" and p.unit == "s" and p.temporality == 2 and p.scope == "spoor/net/http"
        assert p.bounds == SECONDS and sum(p.buckets) == p.count
        mine = [s for s in spans if all(str(s.attrs.get(k)) == str(v) for k, v in p.attrs.items())
                and ("http.route" in s.attrs) == ("http.route" in p.attrs)]
        took = [(s.end - s.start) / 1e9 for s in mine]
        assert p.sum == pytest.approx(sum(took), rel=1e-6)
        for i, n in enumerate(p.buckets):
            low, high = ([0, *SECONDS][i], [*SECONDS, 1e9][i])
            assert n == sum(1 for t in took if low < t <= high or (i == 0 and t == 0))
        assert p.start < p.time and p.start >= min(s.start for s in mine)
        assert p.resource["service.instance.id"] and p.resource["k8s.pod.name"] == target.pod.name
        assert not [k for k in p.resource if k.startswith("process.")] and "container.id" not in p.resource
    agent.stop()
    assert sum(p.count for p in last_points(collector.points()) if p.metric == SERVER) == 400, "the last export says the same"


@pytest.mark.parametrize("sampler", ("always_off", "traceidratio"))
def test_operations_are_measured_before_they_are_sampled(node, measured, sampler):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, metrics__interval=INTERVAL, traces__sampler=sampler, traces__sampler_arg="0.1")
    agent.wait_traced(target.pid)
    send(target.port, requests(1000), workers=8)
    points = measured(sink, SERVER, 1000)
    assert len(sink.spans) == 0 if sampler == "always_off" else 30 < len(sink.spans) < 250
    assert {(p.attrs.get("http.route"), p.attrs["http.response.status_code"]) for p in points} >= {("/items/{id}", 200)}
    assert all(p.count == 250 for p in points), [(p.attrs, p.count) for p in points]
    # Exemplars are spans that were sent.
    until(lambda: agent.conservation()["queued"] == 0, 10, "all is sent")
    sent = {(s.trace_id, s.span_id) for s in sink.spans}
    found = [e for p in sink.points for e in p.exemplars]
    assert all((e["trace_id"], e["span_id"]) in sent for e in found)
    assert bool(found) == (sampler == "traceidratio")


def test_exemplars_lie_in_their_buckets(node, measured):
    collector = node.collector()
    target = node.run()
    agent = node.agent(collector, metrics__interval=INTERVAL)
    agent.wait_traced(target.pid)
    send(target.port, [Request("/fast", trace=None) for _ in range(50)] + [Request("/slow", trace=None) for _ in range(5)], workers=4)
    points = measured(collector, SERVER, 55)
    spans = {s.span_id: s for s in collector.wait(55)}
    for p in points:
        assert p.exemplars and len(p.exemplars) <= len(p.buckets)
        where = []
        for e in p.exemplars:
            span = spans[e["span_id"]]
            assert span.trace_id == e["trace_id"] and e["value"] == pytest.approx((span.end - span.start) / 1e9)
            assert e["time"] == span.end
            where.append(sum(1 for b in p.bounds if e["value"] > b))
        assert len(set(where)) == len(where) and all(p.buckets[i] for i in where)


@pytest.mark.parametrize("traces, metrics", (("false", "true"), ("true", "false")))
def test_each_signal_has_its_annotation(node, traces, metrics):
    sink = node.sink()
    pod = Pod.of_deployment(annotations={"spoor.dev/instrument": "true", "spoor.dev/traces": traces, "spoor.dev/metrics": metrics})
    target = node.run(pod=pod)
    agent = node.agent(sink, metrics__interval=INTERVAL)
    agent.wait_traced(target.pid)
    send(target.port, requests(40))
    until(lambda: agent.conservation()["produced"] == 40, 10, "they are seen")
    agent.stop()
    assert len(sink.spans) == (40 if traces == "true" else 0)
    points = [p for p in last_points(sink.points) if p.metric == SERVER]
    assert sum(p.count for p in points) == (40 if metrics == "true" else 0)
    assert not [e for p in points for e in p.exemplars], "an exemplar is a span that was sent"


def test_health_probes_and_scrapes_are_left_out_of_both_signals_and_switchable(node):
    """Field case 23."""
    agents = ["kube-probe/1.30", "Prometheus/3.5.0", "a-user"]
    for spans, points in ((False, False), (True, False), (False, True)):
        sink = node.sink()
        target = node.run()
        agent = node.agent(sink, metrics__interval=INTERVAL, traces__health_probes=spans, metrics__health_probes=points)
        agent.wait_traced(target.pid)
        send(target.port, [Request("/fast", trace=None, headers=[("User-Agent", a)]) for a in agents for _ in range(10)])
        until(lambda: agent.conservation()["produced"] == 30, 10, "they are seen")
        agent.stop()
        target.stop()
        assert len(sink.spans) == (30 if spans else 10)
        assert sum(p.count for p in last_points(sink.points) if p.metric == SERVER) == (30 if points else 10)


@pytest.mark.parametrize("temporality, histogram", (("delta", "explicit_bucket_histogram"), ("delta", "base2_exponential_bucket_histogram"),
                                                    ("cumulative", "base2_exponential_bucket_histogram")))
def test_forms_that_can_be_chosen(node, temporality, histogram):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, metrics__interval="200ms", metrics__temporality=temporality, metrics__histogram=histogram)
    agent.wait_traced(target.pid)
    n = 0
    for _ in range(4):
        send(target.port, requests(40))
        n += 40
        until(lambda: agent.conservation()["produced"] == n, 10, "they are seen")
        time.sleep(0.5)
    agent.stop()
    points = [p for p in sink.points if p.metric == SERVER]
    wide = histogram.startswith("base2")
    assert {p.kind for p in points} == {"exponentialHistogram" if wide else "histogram"}
    assert {p.temporality for p in points} == {1 if temporality == "delta" else 2}
    took = sum((s.end - s.start) / 1e9 for s in sink.spans)
    counted = points if temporality == "delta" else last_points(points)
    assert sum(p.count for p in counted) == n and sum(p.sum for p in counted) == pytest.approx(took)
    if wide:
        for p in points:
            assert sum(int(c) for c in p.raw["positive"]["bucketCounts"]) + int(p.raw.get("zeroCount", 0)) == p.count
            assert int(p.raw["scale"]) <= 20 and len(p.raw["positive"]["bucketCounts"]) <= 160
    if temporality == "delta":
        series = {}
        for p in sorted(points, key=lambda p: p.time):
            assert p.count > 0 and p.start < p.time
            if p.key in series:
                assert p.start >= series[p.key], "one begins where the other ended"
            series[p.key] = p.time


def test_the_collectors_own_metrics_of_the_same_spans_say_the_same(node):
    collector = node.collector(config="spanmetrics.yaml")
    target = node.run()
    agent = node.agent(collector, metrics__interval=INTERVAL)
    agent.wait_traced(target.pid)
    send(target.port, requests(800) + [Request("/slow", trace=None) for _ in range(6)], workers=8)

    def counted(scope, metric):
        keys = ("http.request.method", "url.scheme", "error.type", "http.response.status_code", "http.route", "network.protocol.version")
        return {tuple(str(p.attrs.get(k)) for k in keys): (p.count, p.buckets, round(p.sum, 6)) for p in last_points(collector.points())
                if p.scope == scope and p.metric == metric}

    def both():
        return counted("spoor/net/http", SERVER), counted("spanmetricsconnector", "traces.span.metrics.duration")

    until(lambda: all(sum(c for c, _, _ in side.values()) == 806 for side in both()), 15, lambda: f"{both()}")
    ours, theirs = both()
    assert ours == theirs and len(ours) == 5
