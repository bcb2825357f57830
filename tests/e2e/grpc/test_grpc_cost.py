"""Field case 18: gRPC on 64 connections, and what a call costs in probe hits, counted by the kernel."""
import secrets

import pytest

import rpc
from harness.hits import hits
from harness.otlp import CLIENT, SERVER
from harness.wait import until
from rpc import order, program


@pytest.mark.parametrize("kind, command, wanted", (("U", "ok", 4), ("S", "ok", 5), ("C", "ok", 5), ("B", "ok", 5), ("U", "code 5", 5)))
@pytest.mark.parametrize("go, grpc", (("1.19", "1.60.1"), ("1.26", "1.85.0")))
def test_two_hits_a_call_and_side(node, statistics, go, grpc, kind, command, wanted):
    """Headers included. A call that fails costs its client one more, and so does a stream: finish() runs again when its context goes."""
    sink = node.sink()
    target = node.run(program(go, grpc))
    agent = node.agent(sink)
    agent.wait_traced(target.pid)
    call = [{"Kind": kind, "Command": command, "Trace": f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"}]
    order(target, call)
    sink.wait(2)
    before = hits(agent)
    order(target, call, repeat=500)
    sink.wait(2 + 1000)
    per_call = (hits(agent) - before) / 500
    assert per_call == wanted, f"{per_call} hits for both sides of a call"


def test_sixty_four_connections(rig):
    """Zero added errors, every call has its two spans, and its own trace."""
    target = rig.run(program("1.26", "1.85.0"))
    client = rig.run(program("1.26", "1.85.0"))
    address = f"127.0.0.1:{target.ports['grpc']}"
    calls = [{"Kind": "UUUB"[i % 4], "Command": "ok", "Target": f"passthrough://{i % 64}/{address}",
              "Trace": f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"} for i in range(16 * 64)]
    truths = order(client, calls, workers=64)
    assert len(truths) == len(calls) and all(t["Code"] == 0 for t in truths)
    clients = rpc.by_method(rig.spans(client, len(calls)), CLIENT)
    servers = rpc.by_method(rig.spans(target, len(calls)), SERVER)
    for t in truths:
        [made], [done] = clients[t["Method"][1:]], servers[t["Method"][1:]]
        assert (done.trace_id, done.parent_id) == tuple(t["Trace"].split("-")[1:3]), done
        assert made.attrs["rpc.response.status_code"] == done.attrs["rpc.response.status_code"] == "OK"
        assert made.attrs["server.address"] == "127.0.0.1", made
    assert len({s.attrs["network.peer.port"] for s in rig.spans(target, 0)}) == 64


def test_what_is_left_behind_takes_no_room_from_calls_that_come(node):
    """After a burst of many more calls than a process has room for, on as many goroutines, each call finds room again."""
    collector = node.collector()
    target, client = node.run(program("1.26", "1.85.0")), node.run(program("1.26", "1.85.0"))
    agent = node.agent(collector, operations__max_per_process=8)
    agent.wait_traced(target.pid), agent.wait_traced(client.pid)
    to = f"127.0.0.1:{target.ports['grpc']}"
    order(client, [{"Kind": "U", "Command": "sleep 50", "Target": to} for _ in range(120)], workers=60)

    def skipped():
        return agent.metrics()['spoor_operations_skipped_total{reason="no_share"}']

    before = skipped()
    assert before > 0
    truths = order(client, [{"Kind": "U", "Command": "ok", "Target": to} for _ in range(90)], workers=3)
    methods = {t["Method"][1:] for t in truths}

    def seen(kind):
        return methods & set(rpc.by_method(collector.spans(), kind))

    until(lambda: seen(SERVER) == seen(CLIENT) == methods, 10,
          lambda: f"{len(seen(SERVER))} and {len(seen(CLIENT))} of {len(methods)} calls have spans; {skipped() - before} were skipped")
    assert skipped() == before
