"""Metrics of the process, as /proc has them."""
from pathlib import Path

from harness.load import Request, send
from harness.otlp import last_points
from harness.wait import until


def points(sink, target):
    return {(p.metric, *p.attrs.values()): p for p in last_points(sink.points)
            if p.scope == "spoor/process" and p.resource.get("container.id") == target.container.id}


def test_process_metrics_are_those_of_proc(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, metrics__interval="300ms", metrics__process=True)
    agent.wait_traced(target.pid)
    send(target.port, [Request("/fast", trace=None) for _ in range(500)], workers=8)
    until(lambda: points(sink, target), 10, "they are exported")
    until(lambda: len({p.time for p in sink.points if p.metric == "process.cpu.time"}) > 5, 10, "again and again")
    got = points(sink, target)
    assert set(got) == {("process.cpu.time", "user"), ("process.cpu.time", "system"), ("process.memory.usage",),
                        ("process.memory.virtual",), ("process.thread.count",), ("process.unix.file_descriptor.count",),
                        ("process.context_switches", "voluntary"), ("process.context_switches", "involuntary")}
    stat = Path(f"/proc/{target.pid}/stat").read_text().rsplit(")", 1)[1].split()
    assert abs(got["process.cpu.time", "user"].value - int(stat[11]) / 100) <= 0.03
    assert got["process.thread.count",].value == int(stat[17]) and got["process.memory.virtual",].value == int(stat[20])
    assert got["process.unix.file_descriptor.count",].value == len(list(Path(f"/proc/{target.pid}/fd").iterdir()))
    resident = int(stat[21]) * 4096
    assert abs(got["process.memory.usage",].value - resident) < 0.2 * resident
    for p in got.values():
        assert p.kind == "sum" and p.resource["process.pid"] == target.pid and p.start < p.time
    assert len({p.start for p in sink.points if p.scope == "spoor/process"}) == 1, "they count from the process's start"
    target.stop()
    agent.wait_untraced(target.pid)
    n = len(sink.points)
    until(lambda: sink.metrics_attempts and len(sink.points) > n, 10, "the pod's own series go on")
    assert not [p for p in sink.points[n:] if p.scope == "spoor/process"]


def test_they_are_an_option(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, metrics__interval="300ms")
    agent.wait_traced(target.pid)
    send(target.port, [Request("/fast", trace=None)])
    until(lambda: sink.points, 10, "something is measured")
    assert not [p for p in sink.points if p.scope == "spoor/process"]


def test_deltas_are_those_of_counters_and_add_up(node):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, metrics__interval="200ms", metrics__process=True, metrics__temporality="delta")
    agent.wait_traced(target.pid)
    until(lambda: len([p for p in sink.points if p.metric == "process.thread.count"]) > 2, 10, "it is exported")
    before = sum(int(x) for x in Path(f"/proc/{target.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]) / 100
    send(target.port, [Request("/fast", trace=None) for _ in range(2000)], workers=8)
    after = sum(int(x) for x in Path(f"/proc/{target.pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]) / 100
    n = len(sink.points)
    until(lambda: len([p for p in sink.points[n:] if p.metric == "process.thread.count"]) > 2, 10, "and again")
    points = [p for p in sink.points if p.scope in ("spoor/process", "spoor/go/runtime")]
    counters = [p for p in points if p.metric in ("process.cpu.time", "process.context_switches", "go.memory.allocations")]
    assert {p.metric for p in counters} == {"process.cpu.time", "process.context_switches", "go.memory.allocations"}
    assert {p.temporality for p in counters} == {1}
    assert {p.temporality for p in points if p.metric in ("process.thread.count", "process.memory.usage")} == {2}
    cpu = [p for p in counters if p.metric == "process.cpu.time"]
    assert after - before - 0.05 <= sum(p.value for p in cpu) <= after + 0.1 and all(p.value >= 0 for p in cpu)
    for mode in ("user", "system"):
        of = sorted((p for p in cpu if p.attrs["cpu.mode"] == mode), key=lambda p: p.time)
        assert all(a.time == b.start for a, b in zip(of, of[1:])), "each begins where the one before ended"
