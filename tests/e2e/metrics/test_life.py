"""Series live as long as their pod: idle ones do not vanish, a container that restarts goes on with them, a pod that is made anew
begins anew, and nothing that has ended stays in memory."""
import time

from harness.load import Request, send
from harness.otlp import last_points
from harness.pods import Pod, new_container_id
from harness.sink import Answer
from harness.wait import until

SERVER, INTERVAL = "http.server.request.duration", "300ms"


def fast(n):
    return [Request("/fast", trace=None) for _ in range(n)]


def counts(sink, pod):
    """Points of that pod's series of /fast, in the order of time."""
    return sorted((p for p in sink.points if p.metric == SERVER and p.resource.get("k8s.pod.uid") == pod.uid), key=lambda p: p.time)


def owners(agent):
    return agent.metric("spoor_metric_owners")


def wait_count(sink, pod, n):
    until(lambda: counts(sink, pod) and counts(sink, pod)[-1].count == n, 15,
          lambda: f"{n} requests of {pod.name}: {[(p.count, p.start) for p in counts(sink, pod)[-3:]]}")


def test_an_idle_series_goes_on_and_ends_with_its_pod(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, metrics__interval=INTERVAL)
    agent.wait_traced(target.pid)
    send(target.port, fast(10))
    wait_count(sink, target.pod, 10)
    seen = len(counts(sink, target.pod))
    until(lambda: len(counts(sink, target.pod)) > seen + 5, 10, "an idle series is exported again and again")
    last = counts(sink, target.pod)
    assert {p.count for p in last[-5:]} == {10} and len({p.start for p in last}) == 1
    # The process ends, the pod does not: nothing changes.
    target.stop()
    seen = len(counts(sink, target.pod))
    until(lambda: len(counts(sink, target.pod)) > seen + 5, 10, "its pod is still there")
    # The pod goes: one last export, then no more.
    node.kubelet.remove(target.pod)
    until(lambda: owners(agent) == 0, 15, "its series are forgotten")
    assert agent.metric("spoor_metric_series") == 0 and agent.metric("spoor_metric_series_bytes") == 0
    seen = len(counts(sink, target.pod))
    time.sleep(1.5)
    assert len(counts(sink, target.pod)) == seen
    assert counts(sink, target.pod)[-1].count == 10


def test_a_container_that_restarts_goes_on_with_its_series(node):
    sink = node.sink()
    pod = Pod.of_deployment()
    agent = node.agent(sink, metrics__interval=INTERVAL)
    total = 0
    for n in (5, 7, 11):
        target = node.run(pod=pod)
        agent.wait_traced(target.pid)
        send(target.port, fast(n))
        total += n
        wait_count(sink, pod, total)
        target.stop()
        pod.main.id, pod.main.restarts = new_container_id(), pod.main.restarts + 1
    points = counts(sink, pod)
    assert len({p.start for p in points}) == 1 and [p.count for p in points] == sorted(p.count for p in points)


def test_an_annotation_taken_away_ends_the_series_and_given_again_begins_them_anew(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, metrics__interval=INTERVAL)
    agent.wait_traced(target.pid)
    send(target.port, fast(10))
    wait_count(sink, target.pod, 10)
    target.pod.annotations["spoor.dev/instrument"] = "false"
    node.kubelet.set(target.pod)
    until(lambda: owners(agent) == 0, 15, "the series have ended")
    last = counts(sink, target.pod)[-1]
    target.pod.annotations["spoor.dev/instrument"] = "true"
    node.kubelet.set(target.pod)
    agent.wait_traced(target.pid)
    send(target.port, fast(3))
    wait_count(sink, target.pod, 3)
    assert counts(sink, target.pod)[-1].start >= last.time


def test_an_agent_that_restarts_begins_anew_and_no_later_than_it_counts(node):
    """No rate is negative: what a series has counted, it has counted since its start."""
    sink = node.sink()
    target = node.run()
    for n in (10, 4):
        agent = node.agent(sink, metrics__interval=INTERVAL)
        agent.wait_traced(target.pid)
        send(target.port, fast(n))
        wait_count(sink, target.pod, n)
        agent.stop()
    points = counts(sink, target.pod)
    starts = sorted({p.start for p in points})
    assert len(starts) == 2
    first, second = ([p for p in points if p.start == s] for s in starts)
    assert max(p.time for p in first) <= starts[1] and {p.count for p in first[-1:]} == {10} and second[-1].count == 4


def test_many_routes_and_methods_go_to_the_series_of_all_others(node):
    """Field case 24: nothing is lost, nothing is counted twice, and those that were there go on."""
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, metrics__interval=INTERVAL, metrics__cardinality_limit=20,
                       metrics__add_attributes={SERVER: "url.path server.address"})
    agent.wait_traced(target.pid)
    send(target.port, fast(10))
    send(target.port, [Request(f"/items/{i}", trace=None) for i in range(500)], workers=4)
    send(target.port, fast(10))
    until(lambda: agent.conservation()["produced"] == 520, 10, "they are seen")
    agent.stop()
    last = [p for p in last_points(sink.points) if p.metric == SERVER]
    assert sum(p.count for p in last) == 520 and len(last) == 20
    others = [p for p in last if p.attrs.get("otel.metric.overflow")]
    assert len(others) == 1 and others[0].attrs == {"otel.metric.overflow": True}
    assert sum(p.count for p in last if p.attrs.get("url.path") == "/fast") == 20
    assert others[0].count == 520 - sum(p.count for p in last if p is not others[0])


def test_short_lived_pods_leave_nothing(node):
    sink = node.sink()
    agent = node.agent(sink, metrics__interval=INTERVAL, kubelet__refresh="1s")
    total = 0
    for _ in range(10):
        targets = [node.run() for _ in range(5)]
        for t in targets:
            agent.wait_traced(t.pid)
            send(t.port, fast(4))
            total += 4
        for t in targets:
            t.stop()
            node.kubelet.remove(t.pod)
    until(lambda: owners(agent) == 0, 20, "all have ended")
    agent.stop()
    last = {}
    for p in sink.points:
        if p.metric == SERVER:
            last[p.resource["k8s.pod.uid"]] = max(last.get(p.resource["k8s.pod.uid"], 0), p.count)
    assert sum(last.values()) == total and len(last) == 50


def test_what_a_receiver_does_not_take_waits_and_is_counted(node):
    sink = node.sink()
    sink.metrics_default = Answer(status=503)
    target = node.run()
    agent = node.agent(sink, metrics__interval="200ms", metrics__temporality="delta", export__retry_max="300ms")
    agent.wait_traced(target.pid)
    for _ in range(3):
        send(target.port, fast(10))
        time.sleep(0.5)
    assert not sink.points and agent.metric("spoor_metric_queue_points") >= 2
    sink.metrics_default = Answer()
    until(lambda: sum(p.count for p in sink.points if p.metric == SERVER) == 30, 10, "nothing was lost")
    sink.metrics_default = Answer(status=400)
    send(target.port, fast(10))
    until(lambda: agent.metrics()['spoor_otlp_failed_items_total{signal="metrics",reason="http_4xx"}'] >= 1, 10, "refused, and counted")
    agent.stop()
    assert sum(p.count for p in sink.points if p.metric == SERVER) == 30
