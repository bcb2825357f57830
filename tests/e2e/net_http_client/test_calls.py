"""net/http clients: each call's span is what the program knows of it, on each Go version."""
import pytest

from harness.calls import check, check_call
from harness.gobuild import VERSIONS

CASES = ("get", "tls", "http2", "methods", "bodies", "statuses", "redirects", "timeout", "client's timeout #15", "cancelled", "refused", "no such host",
         "no scheme", "no certificate", "no http", "retried", "proxy", "continue", "early hints", "upgrade", "sse", "http2 stream",
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


@pytest.mark.parametrize("version", ("1.26", "1.27"))
def test_calls_on_one_connection_of_ones_own(rig, version):
    """net/http.ClientConn, since Go 1.26: it does not pass the Transport."""
    check(rig.caller(go=version).do("client conn #20"))
