"""Field case 21: every code, unary and streaming, plain and wrapped errors, deadlines, cancelled half-way: each call's spans are true."""
import secrets
import time
import urllib.request

import pytest

import rpc
from harness.otlp import CLIENT, SERVER
from rpc import SCOPE, order, program

SLOW = pytest.mark.slow
# The oldest release that builds with Go 1.19 and has what the program needs, the newest, and each time that what is hooked or read
# has changed between them: the internal status (1.30, 1.40), streams that fail without an end (1.50), peers (1.60), server streams
# of their own (1.69, 1.77), no processUnaryRPC any more and wrapped errors (1.85). Each with a Go that it builds with.
RELEASES = (("1.19", "1.20.1"), ("1.19", "1.60.1"), ("1.26", "1.85.0"), ("1.27", "1.77.0", SLOW), ("1.19", "1.30.0", SLOW),
            ("1.19", "1.40.0", SLOW), ("1.19", "1.50.1", SLOW), ("1.19", "1.56.3", SLOW), ("1.19", "1.64.1", SLOW),
            ("1.21", "1.64.1", SLOW), ("1.22", "1.69.4", SLOW), ("1.23", "1.73.0", SLOW), ("1.27", "1.85.0", SLOW))


RETRY = {"GRPC_GO_RETRY": "on"}  # releases before 1.40 do not retry by themselves


@pytest.fixture(scope="module", params=[pytest.param(r[:2], marks=r[2:]) for r in RELEASES], ids=lambda p: f"go{p[0]}-grpc{p[1]}")
def target(rig, request):
    return rig.run(program(*request.param), env=RETRY)


@pytest.fixture
def make(rig, target):
    """Makes calls; their truths, and all spans that came since, of which there are `expect` (two a call)."""
    before = len(rig.spans(target, 0))

    def it(calls, expect=None, **kw):
        truths = order(target, calls, **kw)
        n = 2 * len(truths) if expect is None else expect
        spans = rig.spans(target, before + n)[before:]
        time.sleep(0.3)
        more = rig.spans(target, 0)[before + n:]
        assert not more, f"more spans than there should be: {more}, after {spans}"
        return truths, spans
    return it


def parent():
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def test_every_code_of_every_kind_of_call(make):
    calls = []
    for kind in "USCB":
        calls += [{"Kind": kind, "Command": f"code {n}", "Trace": parent() if n % 2 else ""} for n in range(17)]
        calls += [{"Kind": kind, "Command": "plain"}, {"Kind": kind, "Command": "code 99"},
                  {"Kind": kind, "Command": "ok", "Messages": 5, "Trace": parent(), "State": "a=b,c=d"}]
    truths, spans = make(calls, workers=8)
    rpc.check(spans, truths)
    by_command = {(t["Kind"], t["Command"]): t["Code"] for t in truths}
    assert all(by_command[kind, f"code {n}"] == n for kind in "USCB" for n in range(17))


def test_wrapped_status_errors_are_what_the_client_is_told(make):
    truths, spans = make([{"Kind": k, "Command": f"wrapped {n}"} for k in "USCB" for n in (5, 7, 14)])
    rpc.check(spans, truths)


def test_deadlines_and_cancelled_calls_end_both_sides(make):
    calls = [{"Kind": k, "Command": "context", "Timeout": 60} for k in "USCB"]
    calls += [{"Kind": k, "Command": "context", "Cancel": 60} for k in "USCB"]
    calls += [{"Kind": "B", "Command": "sleep 30 ok", "Messages": 50, "Cancel": 200, "Trace": parent()}]
    truths, spans = make(calls, workers=9)
    made = rpc.by_method(spans, CLIENT)
    for t in truths:
        # Of a stream, gRPC itself may note the deadline while the caller still reads what the server made of it.
        if t["Timeout"] and made[t["Method"][1:]][0].attrs["rpc.response.status_code"] == "DEADLINE_EXCEEDED":
            t["Code"] = 4
    rpc.check(spans, truths)
    assert [t["Code"] for t in sorted(truths, key=lambda t: (t["Command"], t["Method"]))][-1] == 1
    # 2: the handler hears of the end first, and its answer is there before the client's own timer: on a busy machine of every call.
    assert {t["Code"] for t in truths if t["Timeout"]} <= {2, 4} and {1} <= {t["Code"] for t in truths if not t["Timeout"]} <= {1, 2}


def test_calls_that_their_caller_and_their_context_end_at_once_are_one_span_each(rig, target):
    """Both see the deadline at the same moment, on two processors: seldom enough that one such call proves nothing."""
    before = len(rig.spans(target, 0))
    calls = [{"Kind": k, "Method": f"/truth.Calls/{k}5", "Command": "context", "Timeout": 4} for k in "SCB"]
    truths = order(target, calls, workers=24, repeat=300)
    seen = len(rig.spans(target, before + len(truths))) - 1
    while seen != (now := len(rig.spans(target, 0))):  # not every call has come to the server
        seen = now
        time.sleep(1)
    made = [s.span_id for s in rig.spans(target, 0)[before:] if s.kind == CLIENT]
    assert len(set(made)) == len(made) == len(truths)


def test_a_handler_that_goes_on_after_its_client_has_gone(make):
    truths, spans = make([{"Kind": "U", "Command": "sleep 150 ok", "Cancel": 20}, {"Kind": "U", "Command": "sleep 150 ok", "Timeout": 20}])
    clients, servers = rpc.by_method(spans, CLIENT), rpc.by_method(spans, SERVER)
    for truth in truths:
        method = truth["Method"].lstrip("/")
        [client], [server] = clients[method], servers[method]
        rpc.check_client(client, truth, f"{truth}: {client}")
        assert server.end - server.start > 140_000_000, server
        # What gRPC makes of an answer that it could not send.
        assert server.attrs["rpc.response.status_code"] in ("CANCELLED", "DEADLINE_EXCEEDED", "INTERNAL"), server


def test_a_stream_lasts_as_long_as_it_lasts(make):
    truths, spans = make([{"Kind": k, "Command": "ok", "Messages": 6, "Pause": 60} for k in "CB"] +
                         [{"Kind": "S", "Command": "sleep 300 ok"}], workers=3)
    rpc.check(spans, truths)
    assert all(s.end - s.start > 290_000_000 for s in spans), spans


def test_methods_that_the_server_does_not_have(make):
    truths, spans = make([{"Kind": "U", "Method": m} for m in ("/truth.Calls/None", "/no.Service/U1")] + [{"Kind": "B", "Method": "/no.Service/B"}])
    servers = [s for s in spans if s.kind == SERVER]
    assert {t["Code"] for t in truths} == {12}
    assert {s.attrs["rpc.method_original"] for s in servers} == {t["Method"][1:] for t in truths}
    assert {(s.name, s.attrs["rpc.method"], s.attrs["error.type"]) for s in servers} == {("grpc", "_OTHER", "UNIMPLEMENTED")}
    assert {s.name for s in spans if s.kind == CLIENT} == {t["Method"][1:] for t in truths}


def test_calls_that_find_no_connection(make):
    calls = [{"Kind": k, "Method": f"/truth.Calls/nowhere{k}", "Target": "127.0.0.1:1"} for k in "USCB"]
    calls += [{"Kind": "U", "Method": "/retry.Calls/U", "Target": "127.0.0.1:1"}]
    truths, spans = make(calls, expect=len(calls))
    rpc.check(spans, truths, served=False)
    assert {t["Code"] for t in truths} == {14}


def test_retries_are_one_call_of_the_client(make):
    truths, spans = make([{"Kind": "U", "Method": "/truth.Calls/U999", "Command": "unavailable 2"}], expect=4)
    [client] = [s for s in spans if s.kind == CLIENT]
    rpc.check_client(client, truths[0], client)
    codes = [s.attrs["rpc.response.status_code"] for s in sorted(spans, key=lambda s: s.start) if s.kind == SERVER]
    assert (truths[0]["Code"], codes) == (0, ["UNAVAILABLE", "UNAVAILABLE", "OK"])
    truths, spans = make([{"Kind": "U", "Method": "/truth.Calls/U999", "Command": "unavailable 9"}], expect=9)
    clients = [s for s in spans if s.kind == CLIENT]
    assert (truths[0]["Code"], [c.attrs["rpc.response.status_code"] for c in clients]) == (14, ["OK", "UNAVAILABLE"])


def test_over_net_http_there_is_one_span_and_it_is_grpcs(make, target):
    calls = [{"Kind": k, "Command": c, "Target": f"localhost:{target.ports['tls']}", "Trace": t, "State": "x=y" if t else ""}
             for k in "USCB" for c in ("ok", "code 5", "code 13", "plain") for t in ("", parent())]
    truths, spans = make(calls, workers=4)
    rpc.check(spans, truths)
    peers = {s.attrs.get("network.peer.address") for s in spans}
    assert peers == {"127.0.0.1"}, peers


ADDRESSES = {"dns:///127.0.0.1:PORT": ("127.0.0.1", "PORT"), "passthrough:///127.0.0.1:PORT": ("127.0.0.1", "PORT"),
             "passthrough:///pipe.one": ("pipe.one", None), "unix:@truthPORT": ("@truthPORT", None)}


def test_the_targets_of_several_connections(make, target):
    port = str(target.ports["grpc"])
    targets = [t.replace("PORT", port) for t in ADDRESSES]
    truths, spans = make([{"Kind": k, "Target": t} for k in "UB" for t in targets])
    clients, servers = rpc.by_method(spans, CLIENT), rpc.by_method(spans, SERVER)
    for truth in truths:
        [client], [server] = clients[truth["Method"][1:]], servers[truth["Method"][1:]]
        address, want = ADDRESSES[truth["Target"].replace(port, "PORT")]
        got = (client.attrs.get("server.address"), client.attrs.get("server.port"))
        assert got == (address.replace("PORT", port), int(port) if want else None), client
        over_ip = want is not None
        for span in (client, server):
            assert span.attrs.get("network.peer.address") == ("127.0.0.1" if over_ip else None), span
        if over_ip:
            assert client.attrs["network.peer.port"] == int(port), client


def test_a_call_is_a_child_of_what_its_program_serves(make, target, rig):
    """gRPC within gRPC, and within HTTP: by the context, by the goroutine, by the goroutine that started it."""
    before = len(rig.spans(target, 0))
    truths = order(target, [{"Kind": k, "Command": "chain U1109 ok"} for k in "UB"])
    for i, how in enumerate(("context", "background", "go")):
        url = f"http://127.0.0.1:{target.ports['web']}/call?method=U110{i}&command=ok&how={how}"
        assert urllib.request.urlopen(url).status == 200
    spans = rig.spans(target, before + 8 + 9)[before:]
    clients, servers = rpc.by_method(spans, CLIENT), rpc.by_method(spans, SERVER)
    outer = {s.span_id: s for t in truths for s in servers[t["Method"][1:]]}
    assert {s.parent_id for s in clients["truth.Calls/U1109"]} == set(outer)
    assert all(s.trace_id == outer[s.parent_id].trace_id for s in clients["truth.Calls/U1109"])
    web = {s.span_id: s for s in spans if s.scope != SCOPE}
    assert len(web) == 3
    parent_goroutine_known = target.process.argv[0].find("go1.19") < 0
    for i, how in enumerate(("context", "background", "go")):
        [client] = clients[f"truth.Calls/U110{i}"]
        if how != "go" or parent_goroutine_known:
            assert client.trace_id == web[client.parent_id].trace_id and f"how={how}" in web[client.parent_id].attrs["url.query"], client
        else:
            assert not client.parent_id


def test_a_header_that_is_handed_on_is_not_the_calls_own(make):
    """A proxy's: the call that carries another's ids has no span, and who is called is a child of whose ids they are."""
    tp = parent()
    truths, spans = make([{"Kind": "U", "Command": "forward U1108 ok", "Trace": tp}], expect=3)
    clients, servers = rpc.by_method(spans, CLIENT), rpc.by_method(spans, SERVER)
    rpc.check_client(clients[truths[0]["Method"][1:]][0], truths[0], truths)
    assert not clients["truth.Calls/U1108"]
    [inner] = servers["truth.Calls/U1108"]
    assert (inner.trace_id, inner.parent_id) == tuple(tp.split("-")[1:3])


@pytest.mark.slow
@pytest.mark.parametrize("go, grpc, flavour", (("1.26", "1.85.0", "pie"), ("1.26", "1.85.0", "debug"), ("1.27", "1.77.0", "trimmed")))
def test_other_ways_to_build(rig, go, grpc, flavour):
    target = rig.run(program(go, grpc, flavour))
    truths = order(target, [{"Kind": k, "Command": c, "Trace": parent()} for k in "USCB" for c in ("ok", "code 5", "plain")])
    truths += order(target, [{"Kind": "U", "Method": "/truth.Calls/nowhere", "Target": "127.0.0.1:1"}])
    spans = rig.spans(target, 2 * len(truths) - 1)
    rpc.check(spans, truths[:-1])
    rpc.check(spans, truths[-1:], served=False)


def test_what_an_exporter_of_spans_sends_to_its_collector_makes_no_span(rig, make):
    before = rig.agent.metrics()['spoor_spans_dropped_total{reason="otlp_export"}']
    _, spans = make([{"Kind": "U", "Command": "ok", "Method": "/opentelemetry.proto.collector.trace.v1.TraceService/Export"}], expect=1)
    assert spans[0].kind == SERVER, spans
    assert rig.agent.metrics()['spoor_spans_dropped_total{reason="otlp_export"}'] == before + 1
