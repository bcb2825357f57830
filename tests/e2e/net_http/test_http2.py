"""HTTP/2: bundled in net/http over TLS and unencrypted, and golang.org/x/net's own server."""
import time

import pytest

from harness import gobuild, truth
from harness.gobuild import VERSIONS
from harness.load import Request, send
from harness.node import NET_HTTP, server

PATHS = [p for p in truth.ANSWERS if p != "/hijack"] + ["/items/5", "/nowhere"]  # HTTP/2 has no hijacking
XNET = {"1.19": "v0.17.0", "1.21": "v0.17.0", "1.22": "v0.17.0", "1.23": "v0.35.0", "1.26": "v0.62.0", "1.27": "v0.62.0"}
SLOW = pytest.mark.slow


def streams(n=50, each=6):
    """Requests that overlap: slow ones between fast ones, each with a parent of its own."""
    return [Request(f"/slow?ms={5 + i % 40}" if i % 2 else "/fast") for i in range(n * each)]


@pytest.mark.parametrize("version", VERSIONS)
def test_fifty_streams_on_one_tls_connection_are_never_mixed_up(rig, version):
    """Field case 9."""
    target = rig.run(server(version), "-truth", "-tls")
    requests = send(target.ports["tls"], streams(), proto="h2", workers=50, conns=1)
    assert {r.proto for r in requests} == {"HTTP/2.0"} and len({r.local for r in requests}) == 1
    truth.check(rig.spans(target, len(requests)), requests, routes=float(version) > 1.215, scheme="https", version="2")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_kind_of_answer_over_http2(rig, version):
    """Field case 8 over HTTP/2."""
    target = rig.run(server(version), "-truth", "-tls")
    requests = send(target.ports["tls"], [Request(p, trace=t) for p in PATHS for t in (True, None)], proto="h2", workers=1)
    truth.check(rig.spans(target, len(requests)), requests, routes=float(version) > 1.215, scheme="https", version="2")


@pytest.mark.parametrize("version", ("1.26", "1.27"))
def test_unencrypted_http2_of_net_http(rig, version):
    target = rig.run(server(version), "-truth", "-h2c")
    requests = send(target.ports["h2c"], streams(), proto="h2c", workers=50, conns=1)
    truth.check(rig.spans(target, len(requests)), requests, version="2")


@pytest.mark.parametrize("version", [pytest.param(v, marks=SLOW) if v in ("1.21", "1.22") else v for v in VERSIONS])
def test_h2c_of_x_net_is_traced_and_its_prefaces_are_not(rig, version):
    program = gobuild.build(NET_HTTP / "xh2c", go=version, require=(f"golang.org/x/net@{XNET[version]}",))
    target = rig.run(program)
    port = target.ports["h2c"]
    requests = send(port, streams(), proto="h2c", workers=50, conns=1)
    requests += send(port, [Request(p) for p in ("/fail", "/panic", "/nothing", "/nowhere")], proto="h2c", workers=1)
    requests += send(port, [Request("/fast") for _ in range(20)], proto="h1", workers=4)  # it speaks HTTP/1.1, too
    spans = rig.spans(target, len(requests))
    pairs = truth.one_each(spans, requests)
    truth.check_ids(pairs)
    truth.check_times(pairs)
    for request, span in pairs:
        code, error = truth.expected_code(request)
        assert span.code == code and (span.status == 2) == error, f"{request.path}: {span}"
        assert span.attrs["network.protocol.version"] == ("2" if request.proto != "HTTP/1.1" else "1.1"), span
        assert span.attrs["http.request.method"] == "GET" and span.attrs["url.scheme"] == "http", span


def test_streams_reset_by_the_client_are_spans_if_a_handler_ran(rig):
    """The program says which requests reached a handler; net/http takes some resets before that."""
    target = rig.run(None, "-tls", "-truth")
    send(target.ports["tls"], [Request("/slow?ms=100", cancel=10 + i % 20) for i in range(200)], proto="h2", workers=20, conns=1)
    time.sleep(0.5)
    told = target.truths()
    assert len(told) > 50, f"{len(told)} handlers ran"
    spans = rig.spans(target, len(told))
    assert {s.rid for s in spans} == set(told) and len(spans) == len(told)
    assert all(s.code == 200 and s.end - s.start > 95_000_000 for s in spans)
