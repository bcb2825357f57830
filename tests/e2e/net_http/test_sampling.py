"""Samplers: the parent's decision is followed, ratios are kept, nothing that is left out is lost from the books."""
import pytest

from harness import truth
from harness.load import Request, send
from harness.wait import until

# sampler -> is exported: (parent says yes, parent says no, no parent)
SAMPLERS = {
    "always_on": (True, True, True), "always_off": (False, False, False),
    "parentbased_always_on": (True, False, True), "parentbased_always_off": (True, False, False),
}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_fifty_of_each_kind(node, sampler):
    """Field case 6."""
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, traces__sampler=sampler)
    agent.wait_traced(target.pid)
    kinds = [[Request("/fast", sampled=True) for _ in range(50)], [Request("/fast", sampled=False) for _ in range(50)],
             [Request("/fast", trace=None) for _ in range(50)]]
    requests = [r for group in zip(*kinds) for r in group]
    send(target.port, requests, workers=8)
    wanted = [r for keep, group in zip(SAMPLERS[sampler], kinds) if keep for r in group]
    until(lambda: agent.conservation()["produced"] == 150, 10, lambda: f"150 operations: {agent.conservation()}")
    until(lambda: agent.conservation()["queued"] == 0, 10, "all is sent")
    truth.check_ids(truth.one_each(sink.spans, wanted)) if wanted else None
    assert len(sink.spans) == len(wanted)
    book = agent.conservation()
    assert book["exported"] == len(wanted) and book["sampled_out"] == 150 - len(wanted) and book["open"] == 0
    assert all(s.flags & 1 for s in sink.spans), "an exported span is a sampled one"


@pytest.mark.parametrize("sampler, parents", (("traceidratio", False), ("parentbased_traceidratio", False), ("parentbased_traceidratio", True)))
def test_a_quarter_of_the_roots(node, sampler, parents):
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, traces__sampler=sampler, traces__sampler_arg="0.25")
    agent.wait_traced(target.pid)
    n = 4000
    requests = [Request("/fast", trace=None) for _ in range(n)]
    if parents:
        requests = [r for pair in zip(requests, [Request("/fast", sampled=i % 2 == 0) for i in range(n)]) for r in pair]
    send(target.port, requests, workers=8)
    until(lambda: agent.conservation()["produced"] == len(requests), 15, lambda: f"{agent.conservation()}")
    until(lambda: agent.conservation()["queued"] == 0, 10, "all is sent")
    spans = truth.by_rid(sink.spans)
    roots = sum(1 for r in requests if r.trace is None and r.rid in spans)
    assert 0.21 * n < roots < 0.29 * n, f"{roots} of {n} roots"
    for r in requests:
        if r.trace is True:
            assert (r.rid in spans) == r.sampled, "a parent's decision is followed"
    # By the trace id's last 8 bytes: a collector that samples by the same rule decides the same.
    limit = 1 << 62
    for span in sink.spans:
        if not span.parent_id:
            assert int(span.trace_id[16:], 16) < limit, span.trace_id
    assert agent.conservation()["open"] == 0
