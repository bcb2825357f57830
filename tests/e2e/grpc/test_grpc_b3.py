"""B3 in gRPC's metadata: one key or several are a parent where the option says so, traceparent goes first, malformed is none."""
import secrets

import pytest

from harness.otlp import CLIENT, SERVER
from harness.rig import Rig
from rpc import order, program


@pytest.fixture(scope="module")
def b3(shared):
    return Rig(shared, propagators=["b3"])


def cases():
    """(metadata, traceparent, ids of the server's span: trace and parent or None for a root, whether it is sampled)"""
    t, s, p = secrets.token_hex(16), secrets.token_hex(8), secrets.token_hex(8)
    several = ["x-b3-traceid", t, "x-b3-spanid", s]
    yield ["b3", f"{t}-{s}-1"], "", (t, s), True
    yield ["b3", f"{t}-{s}"], "", (t, s), True
    yield ["b3", f"{t}-{s}-0"], "", (t, s), False
    yield ["b3", f"{t[16:]}-{s}-1-{p}"], "", ("0" * 16 + t[16:], s), True
    yield ["b3", "0"], "", None, False
    yield several, "", (t, s), True
    yield [*several, "x-b3-sampled", "0"], "", (t, s), False
    yield [*several, "x-b3-sampled", "0", "x-b3-flags", "1"], "", (t, s), True
    yield ["b3", f"{t}-{s}-1", "x-b3-traceid", secrets.token_hex(16), "x-b3-spanid", p], "", (t, s), True
    other, span = secrets.token_hex(16), secrets.token_hex(8)
    yield ["b3", f"{t}-{s}-0"], f"00-{other}-{span}-01", (other, span), True
    yield ["b3", f"{t}-{s[1:]}-1"], "", None, True
    yield ["x-b3-traceid", t], "", None, True
    yield [word for i in range(20) for word in (f"other-{i}", "x")] + several, "", (t, s), True


@pytest.mark.parametrize("go,grpc", (("1.19", "1.20.1"), ("1.23", "1.73.0"), ("1.26", "1.85.0"), ("1.27", "1.85.0")))
def test_b3_in_metadata_is_a_parent(b3, go, grpc):
    target = b3.run(program(go, grpc))
    want = list(cases())
    truths = order(target, [{"Kind": "US"[i % 2], "Command": "ok", "Metadata": pairs, "Trace": trace}
                            for i, (pairs, trace, _, _) in enumerate(want)])
    spans = b3.spans(target, len(want) + sum(sampled for *_, sampled in want))
    assert sum(s.kind == CLIENT for s in spans) == len(want)
    for truth, (pairs, trace, ids, sampled) in zip(truths, want):
        found = [s for s in spans if s.kind == SERVER and s.attrs["rpc.method"] == truth["Method"].lstrip("/")]
        assert len(found) == sampled, f"{pairs}: {found}"
        if not sampled:
            continue
        if ids:
            assert (found[0].trace_id, found[0].parent_id) == ids, f"{pairs} {trace}: {found}"
        else:
            assert not found[0].parent_id, f"{pairs}: {found}"
