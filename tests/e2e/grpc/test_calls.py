"""Field case 21: every code, unary and streaming, plain and wrapped errors, deadlines, cancelled half-way: each call's spans are true."""
import secrets

import pytest

import rpc
from conftest import order, program

# The oldest and the newest Go for each of some releases of gRPC, which are where its code changed.
RELEASES = (("1.19", "1.60.1"), ("1.26", "1.85.0"), ("1.27", "1.77.0"))


@pytest.fixture(scope="module", params=RELEASES, ids=lambda p: f"go{p[0]}-grpc{p[1]}")
def target(rig, request):
    return rig.run(program(*request.param))


def parent():
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def all_codes():
    calls = []
    for kind in "USCB":
        calls += [{"Kind": kind, "Command": f"code {n}", "Trace": parent() if n % 2 else ""} for n in range(17)]
        calls += [{"Kind": kind, "Command": "plain"}, {"Kind": kind, "Command": "code 99"},
                  {"Kind": kind, "Command": "ok", "Messages": 5, "Trace": parent(), "State": "a=b,c=d"}]
    return calls


def test_every_code_of_every_kind_of_call(rig, target):
    truths = order(target, all_codes(), workers=8)
    spans = rig.spans(target, 2 * len(truths))
    rpc.check(spans, truths)
    by_command = {(t["Kind"], t["Command"]): t["Code"] for t in truths}
    assert all(by_command[kind, f"code {n}"] == n for kind in "USCB" for n in range(17))
