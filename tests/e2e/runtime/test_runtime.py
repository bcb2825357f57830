"""What is read of Go's runtime from outside, beside what the program says of itself at the same moment."""
import json
import subprocess

import pytest

from harness import gobuild
from harness.load import Request, send
from harness.otlp import last_points
from harness.paths import TESTS, agent_binary
from harness.wait import until

FLAVOURS = [(v, "stripped") for v in gobuild.VERSIONS] + [("1.19", "pie"), ("1.22", "cgo"), ("1.23", "static_pie"), ("1.26", "boring"),
                                                         ("1.27", "cgo_pie"), ("1.26", "race")]


def minor(version):
    return int(version.split(".")[1])


class Program:
    """The program of these tests, and both sides' word on it."""

    def __init__(self, node, go, flavour="stripped", env=None):
        binary = gobuild.build(TESTS / "e2e" / "runtime" / "app", go=go, flavour=flavour, name="runtime")
        self.target, self.go = node.run(binary, env=env), go
        self.port = self.target.port

    def tell(self, words):
        records = self.target.process.records
        n = len(records)
        self.target.process.popen.stdin.write(f"{words}\n".encode())
        self.target.process.popen.stdin.flush()
        until(lambda: len(records) > n, 60, f"the program has done: {words}")
        return records[n]

    def own(self):
        """By the names of the conventions."""
        m = self.tell("self")["self"]
        stacks = m["/memory/classes/heap/stacks:bytes"]
        out = {
            "go.memory.used": {"stack": stacks, "other": m["/memory/classes/total:bytes"] - m["/memory/classes/heap/released:bytes"] - stacks},
            "go.memory.allocated": {"bytes": m["/gc/heap/allocs:bytes"], "allocations": m["/gc/heap/allocs:objects"]},
            "go.memory.gc.goal": m["/gc/heap/goal:bytes"], "go.memory.gc.cycles": m["/gc/cycles/total:gc-cycles"],
            "go.goroutine.count": m["/sched/goroutines:goroutines"],
            "go.memory.gc.pause.duration": merged(m.get("/sched/pauses/total/gc:seconds") or m["/gc/pauses:seconds"]),
            "go.schedule.duration": merged(m["/sched/latencies:seconds"]),
        }
        if "/sched/gomaxprocs:threads" in m:
            out["go.processor.limit"] = m["/sched/gomaxprocs:threads"]
        if "/gc/gogc:percent" in m:
            gogc, limit = m["/gc/gogc:percent"], m["/gc/gomemlimit:bytes"]
            out["go.config.gogc"] = None if gogc > 1 << 62 else gogc
            out["go.memory.limit"] = None if limit == (1 << 63) - 1 else limit
        if minor(self.go) >= 21:
            out["go.cpu.time"] = {"user": m["/cpu/classes/user:cpu-seconds"], "gc": m["/cpu/classes/gc/total:cpu-seconds"],
                                  "scavenge": m["/cpu/classes/scavenge/total:cpu-seconds"], "idle": m["/cpu/classes/idle:cpu-seconds"]}
        return out

    def read(self):
        said = json.loads(subprocess.run([agent_binary(), "inspect", "--json", str(self.target.pid)], capture_output=True, text=True, check=True).stdout)
        return {m["name"]: m["now"] for m in said["runtime_metrics"] if m["readable"]}

    def compare(self, limited=False):
        """Between two words of the program that are the same in all that may fall as well as rise. A goal that follows from a memory
        limit moves with each page that is mapped or freed."""
        still = ("go.memory.used", "go.goroutine.count", "go.memory.gc.cycles", *(() if limited else ("go.memory.gc.goal",)))

        def once():
            before, read, after = self.own(), self.read(), self.own()
            return (before, read, after) if all(before[k] == after[k] for k in still) else None
        before, read, after = until(once, 30, "the program is still for a moment")
        assert set(before) - set(read) == set(), "all that the program says of itself"
        if limited:
            low, high = sorted((before.pop("go.memory.gc.goal"), after.pop("go.memory.gc.goal")))
            assert low - 65536 <= read["go.memory.gc.goal"] <= high + 65536, (low, read["go.memory.gc.goal"], high)
        for name, value in before.items():
            check(name, value, read[name], after[name])
        return read


BOUNDS = [2 ** k / 1e9 for k in range(10, 35)]


def merged(h):
    """The runtime's buckets in ours."""
    counts = [0] * (len(BOUNDS) + 1)
    for n, low in zip(h["counts"], h["edges"]):
        counts[sum(b <= low * (1 + 1e-12) for b in BOUNDS)] += n
    return counts


def check(name, low, got, high):
    if isinstance(low, dict):
        for key in low:
            check(f"{name} {key}", low[key], got[key], high[key])
    elif isinstance(low, list):
        assert len(got) == len(low)
        for i, v in enumerate(got):
            assert low[i] <= v <= high[i], f"{name}[{i}]: {low[i]}, {v}, {high[i]}"
    elif isinstance(low, float):
        assert low - 1e-9 <= got <= high + 1e-9, f"{name}: {low}, {got}, {high}"
    elif low is None:
        assert got is None, f"{name}: there is none, not {got}"
    else:
        assert got is not None and low <= got <= high, f"{name}: {low}, {got}, {high}"


@pytest.mark.parametrize("go,flavour", FLAVOURS)
def test_each_number_is_what_the_program_says_itself(node, go, flavour):
    program = Program(node, go, flavour)
    program.compare()
    for words in ("alloc 20000 100", "go 500", "alloc 5 5000000", "gc", "busy 300", "free", "done", "gc", "gc"):
        program.tell(words)
    read = program.compare()
    assert read["go.memory.gc.cycles"] >= 3 and sum(read["go.schedule.duration"]) > 100
    assert sum(read["go.memory.gc.pause.duration"]) >= 6 and read["go.goroutine.count"] < 40
    program.tell("go 1000")
    assert program.compare()["go.goroutine.count"] > 1000
    program.tell("procs 1")
    assert program.compare()["go.processor.limit"] == 1
    program.tell("procs 7")
    assert program.compare()["go.processor.limit"] == 7


@pytest.mark.parametrize("go", gobuild.VERSIONS)
def test_the_goal_follows_from_what_the_user_has_set(node, go):
    program = Program(node, go, env={"GOGC": "50", "GOMEMLIMIT": "200MiB"})
    read = program.compare()
    assert read["go.config.gogc"] == 50 and read["go.memory.limit"] == 200 << 20
    program.tell("alloc 1500 100000")
    program.tell("gc")
    assert program.compare(limited=True)["go.memory.gc.goal"] < 200 << 20, "what the limit leaves, not half more than 150 MB"
    program.tell("free")
    program.tell("gogc -1")
    read = program.compare(limited=True)
    assert read["go.config.gogc"] is None and 100 << 20 < read["go.memory.gc.goal"] < 200 << 20, "collection is off, but for the limit"
    program.tell("gogc 300")
    program.tell("release")  # at once, not page by page in the background
    program.tell("limit 9223372036854775807")
    read = program.compare()
    assert read["go.config.gogc"] == 300 and read["go.memory.limit"] is None


def points(sink, target):
    return {(p.metric, *p.attrs.values()): p for p in last_points(sink.points)
            if p.scope == "spoor/go/runtime" and p.resource.get("container.id") == target.container.id}


@pytest.mark.parametrize("go", gobuild.VERSIONS)
def test_they_are_exported_with_the_pod(node, go):
    sink, program = node.sink(), Program(node, go, "pie")
    agent = node.agent(sink, metrics__interval="200ms")
    agent.wait_traced(program.target.pid)
    program.tell("alloc 1000 1000")
    program.tell("gc")
    before = program.own()
    n = len(sink.points)
    until(lambda: sum(p.metric == "go.goroutine.count" for p in sink.points[n:]) >= 2, 10, "exported since")
    got, after = points(sink, program.target), program.own()
    check("cycles", before["go.memory.gc.cycles"], got["go.memory.gc.cycles",].value, after["go.memory.gc.cycles"])
    for part, of in (("go.memory.allocated", "bytes"), ("go.memory.allocations", "allocations")):
        check(part, before["go.memory.allocated"][of], got[part,].value, after["go.memory.allocated"][of])
    for name in ("go.schedule.duration", "go.memory.gc.pause.duration"):
        p = got[name,]
        check(name, before[name], p.buckets, after[name])
        assert p.kind == "histogram" and p.bounds == BOUNDS and p.count == sum(p.buckets) and "sum" not in p.raw
    assert got["go.processor.limit",].value > 0 and got["go.config.gogc",].value == 100 and ("go.memory.limit",) not in got
    assert {k for m, *k in got if m == "go.memory.used" for k in k} == {"stack", "other"}
    told = agent.process_state(program.target.pid)["runtime_metrics"]
    assert set(told["missing"]) == ({"go.cpu.time"} if minor(go) < 21 else set()) and all(told["missing"].values())
    assert told["read"] + len(told["missing"]) == 11
    for p in got.values():
        assert p.resource["process.pid"] == program.target.pid and p.start < p.time and p.resource["k8s.pod.name"]
    send(program.port, [Request("/")])
    program.target.stop()
    agent.wait_untraced(program.target.pid)
    assert agent.metric("spoor_go_runtime_implausible_total") == 0


def test_they_are_an_option(node):
    sink, program = node.sink(), Program(node, "1.26")
    agent = node.agent(sink, metrics__interval="200ms", metrics__runtime=False)
    agent.wait_traced(program.target.pid)
    send(program.port, [Request("/")])
    until(lambda: sink.points, 10, "something is measured")
    assert not [p for p in sink.points if p.scope == "spoor/go/runtime"]
    assert agent.process_state(program.target.pid)["runtime_metrics"] is None


def test_while_everything_moves_nothing_falls_that_counts(node):
    """Read a thousand times while the program allocates, collects and reads its own metrics, which moves its statistics."""
    sink, program = node.sink(), Program(node, "1.26")
    agent = node.agent(sink, metrics__interval="100ms")
    agent.wait_traced(program.target.pid)
    for _ in range(30):
        program.tell("alloc 30000 64")
        program.tell("busy 50")
        program.tell("self")
        program.tell("free")
    counters = {}
    for p in sink.points:
        if p.scope == "spoor/go/runtime" and (p.monotonic or p.kind == "histogram") and p.metric != "go.cpu.time":
            counters.setdefault((p.metric, *p.attrs.values()), []).append((p.time, p.count or p.value))
    assert len(counters) == 5 and min(map(len, counters.values())) > 10
    for name, values in counters.items():
        values.sort()
        assert all(a[1] <= b[1] for a, b in zip(values, values[1:])), name
