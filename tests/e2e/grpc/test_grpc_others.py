"""connect-go and grpc-gateway: one right span a call and side, not two."""
import secrets
import urllib.request

import pytest

from harness import gobuild
from harness.otlp import CLIENT, SERVER
from harness.paths import TESTS
from rpc import SCOPE

MODULES = ("connectrpc.com/connect@v1.21.1", "github.com/grpc-ecosystem/grpc-gateway/v2@v2.33.0")


@pytest.fixture(scope="module")
def target(rig):
    return rig.run(gobuild.build(TESTS / "e2e" / "grpc" / "others", go="1.26", require=MODULES))


def get(target, port, path, trace):
    request = urllib.request.Request(f"http://127.0.0.1:{target.ports[port]}{path}", headers={"traceparent": f"00-{trace}-{'1' * 16}-01"})
    assert urllib.request.urlopen(request, timeout=20).status == 200


def kinds(spans):
    return sorted((s.kind, s.scope == SCOPE) for s in spans)


def test_a_request_to_a_gateway_is_http_that_calls_grpc(rig, target):
    trace, before = secrets.token_hex(16), len(rig.spans(target, 0))
    get(target, "gateway", "/v1/echo/hello", trace)
    spans = rig.spans(target, before + 3)[before:]
    assert kinds(spans) == [(SERVER, False), (SERVER, True), (CLIENT, True)]
    [http] = [s for s in spans if s.scope != SCOPE]
    [call] = [s for s in spans if s.kind == CLIENT]
    assert (http.trace_id, http.parent_id) == (trace, "1" * 16)
    assert (call.trace_id, call.parent_id) == (trace, http.span_id)
    assert {s.name for s in spans if s.scope == SCOPE} == {"truth.Gateway/Echo"}


@pytest.mark.parametrize("how", ("connect", "grpc", "grpcweb"))
def test_a_call_of_connect_is_one_http_request_on_each_side(rig, target, how):
    """connect-go speaks all of its protocols, gRPC's too, over net/http."""
    trace, before = secrets.token_hex(16), len(rig.spans(target, 0))
    get(target, "connect", f"/call?how={how}", trace)
    spans = rig.spans(target, before + 3)[before:]
    assert kinds(spans) == [(SERVER, False), (SERVER, False), (CLIENT, False)]
    [front] = [s for s in spans if s.attrs.get("url.path") == "/call"]
    [call] = [s for s in spans if s.kind == CLIENT]
    [served] = [s for s in spans if s.attrs.get("url.path") == "/truth.Connect/Echo"]
    assert (front.trace_id, front.parent_id) == (trace, "1" * 16)
    assert (call.trace_id, call.parent_id) == (trace, front.span_id)
    assert served.attrs["http.request.method"] == "POST" and served.code == 200
