"""net/http clients: each call's span is what the program knows of it, on each Go version."""
import pytest

from harness.calls import SLACK, check, check_call, identity
from harness.gobuild import VERSIONS
from harness.wait import until

CASES = ("get", "tls", "http2", "methods", "bodies", "statuses", "redirects", "timeout", "client's timeout #15", "cancelled", "refused", "no such host",
         "no scheme", "no certificate", "no http", "proxy", "continue", "early hints", "upgrade", "sse", "http2 stream",
         "never closed #5", "wrapped", "registered", "panics #3", "deep #200", "64 ways #2000", "64 streams #2000")


@pytest.fixture(scope="module", params=VERSIONS)
def caller(rig, request):
    return rig.caller(go=request.param)


@pytest.mark.parametrize("case", CASES)
def test_each_call_is_one_true_span(caller, case):
    check(caller.do(case))


def test_urls_are_as_they_go_over_the_wire_without_secrets(caller):
    for call, span in caller.do("urls"):
        url = call["url"]
        for secret in ("sig=SECRET", "X-Goog-Signature=S&"):
            url = url.replace(secret, secret.split("=")[0] + "=REDACTED" + ("&" if secret.endswith("&") else ""))
        for user in ("me:secret@", "me@"):
            url = url.replace(user, "REDACTED:REDACTED@")
        url = url.replace("p" * 700, "p" * 511)
        if "q" * 700 in url:
            url = url[:url.index("?") + 1 + 512]
        check_call(call, span, url=url)


@pytest.mark.parametrize("case", ("get #20", "tls #5", "http2 #20", "redirects", "sse", "http2 stream", "continue", "gzip"))
def test_the_peer_of_an_answer_with_a_body(caller, case):
    for call, span in check(caller.do(case)):
        if call["status"] == 200:
            assert span.attrs["network.peer.address"] == "127.0.0.1", span
            assert span.attrs["network.peer.port"] == span.attrs["server.port"], span


def test_the_peer_of_a_call_through_a_proxy_is_the_proxy(caller):
    (call, span), = check(caller.do("proxy"))
    assert span.attrs["server.address"] == "shop.example" and span.attrs["network.peer.address"] == "127.0.0.1", span
    assert span.attrs["network.peer.port"] != 8080


def test_an_attempt_that_net_http_makes_again_by_itself_is_a_span_of_its_own(caller):
    """On a keep-alive connection that the server has closed. The program knows of one call, which is the last attempt."""
    before = len(caller.client_spans())
    first, second = caller.run("retried")
    until(lambda: len(caller.client_spans()) - before >= 3, 15, lambda: f"three spans arrive: {caller.client_spans()[before:]}")
    spans = sorted(caller.client_spans()[before:], key=lambda s: s.start)
    assert len(spans) == 3 and len({s.span_id for s in spans}) == 3
    one, failed, again = spans
    check_call(first, one)
    assert identity(failed) == identity(again) == second["id"]
    assert failed.code is None and failed.status == 2 and failed.attrs["error.type"].startswith(("http.", "*errors.")), failed
    assert "http.request.resend_count" not in failed.attrs and again.attrs["http.request.resend_count"] == 1
    assert (again.code, again.status, again.attrs.get("error.type")) == (200, 0, None)
    assert second["start"] - SLACK <= failed.start <= failed.end <= again.start <= again.end <= second["end"] + SLACK


@pytest.mark.parametrize("version", ("1.26", "1.27"))
def test_calls_on_one_connection_of_ones_own(rig, version):
    """net/http.ClientConn, since Go 1.26: it does not pass the Transport."""
    check(rig.caller(go=version).do("client conn #20"))
