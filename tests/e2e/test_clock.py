"""Field case 11: start and end on one clock, near the wall clock, also after that was set."""
import subprocess
import time
from pathlib import Path

from harness import truth
from harness.load import Request, send
from harness.wait import until


def test_times_follow_the_wall_clock_when_it_is_set(node):
    library, step = node.folder / "step.so", node.folder / "step"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, Path(__file__).parent / "clock" / "step.c"], check=True)
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, env={"LD_PRELOAD": str(library), "STEP_FILE": str(step)})
    agent.wait_traced(target.pid)
    for offset in (0, 3600, -86400):
        step.write_text(str(offset))
        time.sleep(1.5)  # an agent may look at the wall clock once a second
        requests = send(target.port, [Request("/slow?ms=20") for _ in range(5)])
        spans = until(lambda: (got := [s for s in sink.spans if s.rid in {r.rid for r in requests}]) and len(got) == 5 and got, 10, "5 spans")
        for request, span in truth.one_each(spans, requests):
            assert abs(span.start - (request.start + offset * 10**9)) < 10**9, f"{offset}: {(span.start - request.start) / 1e9:.3f} s"
            assert 18_000_000 < span.end - span.start < 300_000_000


def test_a_child_lies_within_its_parent_on_one_host(node):
    """The client's view of each request encloses the span by microseconds, not milliseconds, on the median."""
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink)
    agent.wait_traced(target.pid)
    requests = send(target.port, [Request("/slow?ms=5") for _ in range(100)], workers=1)
    pairs = truth.one_each(sink.wait(100), requests)
    early = sorted(request.start - span.start for request, span in pairs)
    late = sorted(span.end - request.end for request, span in pairs)
    assert early[50] < 0 and late[50] < 500_000, f"median: {early[50] / 1e3:.0f} us before, {late[50] / 1e3:.0f} us after"
