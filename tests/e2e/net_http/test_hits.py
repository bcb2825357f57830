"""Field case 18: what a request costs in probe hits, counted by the kernel."""
import time

import pytest

from harness import gobuild
from harness.hits import hits
from harness.load import Request, send
from harness.node import NET_HTTP, server
from harness.wait import until

CASES = {"http1": ("h1", "h1"), "tls_http2": ("tls", "h2"), "h2c": ("h2c", "h2c")}


TRIAL = 1100  # requests after which a trial probe that told nothing new is taken away


def trials(agent, change):
    return agent.metrics()[f'spoor_trial_probes_total{{change="{change}"}}']


def per_request(agent, sink, port, proto, path="/fast"):
    """Hits of each of a thousand requests. A connection costs one or two of its own, at its beginning and end."""
    done, before = sink.received, hits(agent)
    send(port, [Request(path) for _ in range(1000)], proto=proto, workers=1, conns=1)
    sink.wait(done + 1000)
    return (hits(agent) - before) / 1000


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("version", ("1.26", "1.27", "1.19"))
def test_two_hits_a_request(node, statistics, version, case):
    """And, for the first thousand of a program, a third one: whether the mux can tell more than the request."""
    port, proto = CASES[case]
    if version == "1.19" and case == "h2c":
        program, args = gobuild.build(NET_HTTP / "xh2c", go="1.19", require=("golang.org/x/net@v0.17.0",)), []
    else:
        program, args = server(version), ["-tls"] + (["-h2c"] if case == "h2c" else [])
    sink = node.sink()
    target = node.run(program, *args)
    agent = node.agent(sink)
    agent.wait_traced(target.pid)
    send(target.ports[port], [Request("/fast") for _ in range(TRIAL)], proto=proto, workers=1)
    sink.wait(TRIAL)
    if version != "1.19":
        until(lambda: trials(agent, "taken_away") == 1, 10, "the trial ends")
    assert 2.0 <= per_request(agent, sink, target.ports[port], proto) < 2.01


def test_three_hits_where_the_third_one_tells_the_route(node, statistics):
    sink = node.sink()
    target = node.run(gobuild.build(NET_HTTP / "routers", go="1.26"))
    agent = node.agent(sink)
    agent.wait_traced(target.pid)
    send(target.ports["copied"], [Request("/users/5") for _ in range(TRIAL)], workers=1)
    sink.wait(TRIAL)
    time.sleep(5)  # two looks of the agent
    assert 3.0 <= per_request(agent, sink, target.ports["copied"], "h1", "/users/5") < 3.01
    assert {s.route for s in sink.spans} == {"/users/{id}"}
    assert trials(agent, "taken_away") == 0


def test_a_probe_that_was_given_up_comes_back_where_a_route_is_missed(node):
    sink = node.sink()
    target = node.run(gobuild.build(NET_HTTP / "routers", go="1.26"))
    agent = node.agent(sink)
    agent.wait_traced(target.pid)
    send(target.ports["plain"], [Request("/users/5") for _ in range(TRIAL)], workers=1)
    until(lambda: trials(agent, "taken_away") == 1, 10, "the trial ends")
    [missed] = send(target.ports["copied"], [Request("/users/5")])
    until(lambda: trials(agent, "hung_again") == 1, 20, "the next one begins")
    [had] = send(target.ports["copied"], [Request("/users/5")])
    sink.wait(TRIAL + 2)
    routes = {s.rid: s.route for s in sink.spans}
    assert (routes[missed.rid], routes[had.rid]) == (None, "/users/{id}")
