"""What a call costs in probe hits, counted by the kernel."""
import time

import pytest

from harness.calls import Caller, check
from harness.gobuild import VERSIONS
from harness.hits import hits


def per_call(agent, caller, case):
    """Hits of each of a thousand calls. A connection costs one or two of its own."""
    before = hits(agent)
    check(caller.do(f"{case} #1000"))
    return (hits(agent) - before) / 1000


@pytest.mark.parametrize("case", ("get", "tls", "http2"))
@pytest.mark.parametrize("version", VERSIONS)
def test_two_hits_a_call(node, statistics, version, case):
    """The program serves itself, which is not counted. HTTP/1 over TLS: net/http asks HTTP/2 first, and the answer passes two
    branches that may end the call."""
    collector = node.collector()
    agent = node.agent(collector, libraries__disabled=["net_http"])
    caller = Caller(node, agent, collector, go=version)
    caller.do(f"{case} #50")
    most = 4 if case == "tls" else 2
    assert 2.0 <= per_call(agent, caller, case) < most + 0.01


def test_a_server_in_the_same_program_costs_its_two_hits_as_ever(node, statistics):
    collector = node.collector()
    agent = node.agent(collector)
    caller = Caller(node, agent, collector)
    caller.do("get #1200")
    time.sleep(5)  # a probe on trial may have been taken away by now
    assert 4.0 <= per_call(agent, caller, "get") < 4.02
