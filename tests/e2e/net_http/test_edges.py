"""Handlers that change their request, forget it, hijack late or elsewhere, panic with half a response."""
import pytest

from harness import gobuild, truth
from harness.gobuild import installed
from harness.load import Request, send
from harness.node import NET_HTTP

# path -> (method, code, error.type, route); None: absent. What HTTP/2 does otherwise stands in H2.
EDGES = {
    "/users/5/": ("GET", 200, None, "/users/{id}/"),
    "/rewrite": ("GET", 200, None, "/rewrite"),
    "/big_panic": ("GET", 200, "panic", "/big_panic"),
    "/small_panic": ("GET", None, "panic", "/small_panic"),
    "/hijack_late": ("GET", 202, None, "/hijack_late"),
    "/hijack_elsewhere": ("GET", None, None, "/hijack_elsewhere"),
    "/nested": ("GET", 200, None, "/nested"),
}
# Nobody can take a connection away from HTTP/2: the handler panics. The header of that answer was never sent.
H2 = {"/hijack_late": ("GET", None, "panic", "/hijack_late")}


def program(version, name="edges", **more):
    assert installed(version), f"Go {version} is needed"
    return gobuild.build(NET_HTTP / name, go=version, **more)


def check(spans, requests, expected):
    pairs = truth.one_each(spans, requests)
    truth.check_ids(pairs)
    for request, span in pairs:
        method, code, error, route = expected[request.path]
        seen = (span.attrs["http.request.method"], span.code, span.attrs.get("error.type"), span.route)
        assert seen == (method, code, error, route), f"{request.path}: {span}"
        assert span.attrs["url.path"] == request.path and (span.status == 2) == (error is not None), f"{request.path}: {span}"


@pytest.mark.parametrize("version", ("1.23", "1.26", "1.27"))
def test_what_handlers_do_to_requests_and_connections_does_not_change_what_was_asked(rig, version):
    target = rig.run(program(version))
    requests = send(target.ports["h1"], [Request(p) for p in EDGES for _ in range(3)], workers=1)
    check(rig.spans(target, len(requests)), requests, EDGES)


@pytest.mark.parametrize("version", ("1.23", "1.26", "1.27"))
def test_the_same_over_http2(rig, version):
    target = rig.run(program(version))
    paths = [p for p in EDGES if p != "/hijack_elsewhere"]  # its goroutine would end the program
    requests = send(target.ports["tls"], [Request(p) for p in paths for _ in range(3)], proto="h2", workers=1)
    check(rig.spans(target, len(requests)), requests, EDGES | H2)


@pytest.mark.parametrize("version", ("1.23", "1.26", "1.27"))
@pytest.mark.parametrize("proto", ("h1", "h2"))
def test_a_request_that_its_handler_has_forgotten_has_its_route_or_none(rig, version, proto):
    """Go 1.27's HTTP/2 server does not hold the Request: its memory may be another's when the request ends."""
    target = rig.run(program(version))
    port = target.ports["h1" if proto == "h1" else "tls"]
    requests = send(port, [Request(f"/forget/{i}") for i in range(10)], proto=proto, workers=1)
    pairs = truth.one_each(rig.spans(target, len(requests)), requests)
    may_be_absent = (version, proto) == ("1.27", "h2")
    for request, span in pairs:
        assert span.route == "/forget/{id}" or (may_be_absent and span.route is None), span
        assert (span.attrs["http.request.method"], span.attrs["url.path"], span.code) == ("GET", request.path, 202), span
        assert span.attrs["server.address"] == "127.0.0.1", span


@pytest.mark.parametrize("version", ("1.23", "1.26"))
def test_the_clean_form_of_a_path_that_the_mux_redirects_to_is_no_route(rig, version):
    """Go 1.22 to 1.25 put it into Request.Pattern; later versions the pattern, but nothing was served by it."""
    target = rig.run(program(version))
    requests = send(target.ports["h1"], [Request(f"/users/{i}") for i in range(5)], workers=1)
    for request, span in truth.one_each(rig.spans(target, len(requests)), requests):
        assert 300 <= span.code < 400 and span.route is None and span.name == "GET", span


@pytest.mark.parametrize("version,tags", (("1.26", ""), ("1.27", ""), ("1.27", "http2legacy")))
def test_x_net_configured_into_a_net_http_server_gives_one_span_a_stream(rig, version, tags):
    """Its streams pass x/net's server (Go 1.27: net/http's, which it hands them to) and serverHandler, each of which is hooked."""
    target = rig.run(program(version, "xtls", require=("golang.org/x/net@v0.62.0",), tags=tags))
    requests = send(target.ports["tls"], [Request(p) for p in ("/fast", "/slow", "/fail", "/nothing", "/panic") for _ in range(40)],
                    proto="h2", workers=50, conns=1)
    pairs = truth.one_each(rig.spans(target, len(requests)), requests)
    truth.check_ids(pairs)
    for request, span in pairs:
        assert span.code == truth.expected_code(request)[0] and span.route == request.path, span
        assert span.attrs["url.scheme"] == "https" and span.attrs["network.protocol.version"] == "2", span


@pytest.mark.parametrize("version,tags", (("1.26", ""), ("1.27", ""), ("1.27", "http2legacy")))
def test_h2c_of_x_net_has_its_routes(rig, version, tags):
    target = rig.run(program(version, "xh2c", require=("golang.org/x/net@v0.62.0",), tags=tags))
    requests = send(target.ports["h2c"], [Request(p) for p in ("/fast", "/fail", "/nothing") for _ in range(10)], proto="h2c", workers=4)
    for request, span in truth.one_each(rig.spans(target, len(requests)), requests):
        assert span.route == request.path, span
