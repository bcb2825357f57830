"""golang.org/x/net/http2's Transport, by itself and below net/http's: one span a call, also where it hands over to net/http (Go 1.27)."""
import pytest

from harness.calls import APP, check
from harness.gobuild import build

# Go version, release of golang.org/x/net
BUILDS = {"1.19-old": ("1.19", "v0.17.0"), "1.21-old": ("1.21", "v0.17.0"), "1.23": ("1.23", "v0.35.0"), "1.26-old": ("1.26", "v0.38.0"),
          "1.26": ("1.26", "v0.62.0"), "1.27-old": ("1.27", "v0.38.0"), "1.27": ("1.27", "v0.62.0")}


@pytest.fixture(scope="module", params=BUILDS)
def caller(rig, request):
    go, release = BUILDS[request.param]
    return rig.caller(program=build(APP, go=go, tags="xnet", require=(f"golang.org/x/net@{release}",), name="xcaller"))


@pytest.mark.parametrize("case", ("x/net #200", "x/net h2c #200", "x/net below net/http #200", "x/net fails", "http2 #20"))
def test_each_call_is_one_true_span(caller, case):
    check(caller.do(case))
