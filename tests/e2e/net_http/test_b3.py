"""B3 headers as parents: off by default, one header or several, never in front of traceparent."""
import secrets

import pytest

from harness import truth
from harness.load import Request, send
from harness.node import server

ROOT, SAME = "root", "same"


@pytest.fixture(scope="module")
def b3(shared, rig_of):
    return rig_of(shared, propagators=["b3"])


def single(trace, span, end=""):
    return [("b3", f"{trace}-{span}{end}")]


def multi(trace, span, **more):
    return [("X-B3-TraceId", trace), ("X-B3-SpanId", span), *((f"X-B3-{k}", v) for k, v in more.items())]


def cases():
    """(headers, trace id and parent id or None for a root, sampled)"""
    t, s, p = secrets.token_hex(16), secrets.token_hex(8), secrets.token_hex(8)
    h, w3c, w3s = t[16:], secrets.token_hex(16), secrets.token_hex(8)
    traceparent = [("traceparent", f"00-{w3c}-{w3s}-01")]
    other = [(f"X-{secrets.token_hex(3)}", "x") for _ in range(30)]
    yield from [(single(t, s, end), (t, s), sampled) for end, sampled in
                (("", True), ("-1", True), ("-d", True), ("-0", False), (f"-1-{p}", True), (f"-0-{p}", False))]
    yield from [(single(h, s, end), ("0" * 16 + h, s), True) for end in ("", "-1", "-d", f"-1-{p}")]
    yield from [([("B3", state)], None, sampled) for state, sampled in (("0", False), ("1", True), ("d", True))]
    yield from [(multi(t, s, **more), (t, s), sampled) for more, sampled in
                (({}, True), ({"Sampled": "1"}, True), ({"Sampled": "true"}, True), ({"Sampled": "0"}, False),
                 ({"Sampled": "false"}, False), ({"Flags": "1"}, True), ({"Flags": "1", "Sampled": "0"}, True),
                 ({"Flags": "0", "Sampled": "0"}, False), ({"ParentSpanId": p, "Sampled": "1"}, True))]
    yield multi(h, s), ("0" * 16 + h, s), True
    yield [("x-b3-traceid", t), ("X-B3-SPANID", s)], (t, s), True
    yield [("X-B3-Sampled", "0")], None, False
    yield [("X-B3-Flags", "1")], None, True
    # One header goes before several, traceparent before all; also among many others.
    yield single(t, s, "-1") + multi(secrets.token_hex(16), p), (t, s), True
    for more in (single(t, s, "-0"), multi(t, s, Sampled="0"), [("b3", "0")]):
        yield more + traceparent, (w3c, w3s), True
    yield other[:15] + multi(t, s) + other[15:], (t, s), True
    yield other[:15] + single(t, s) + other[15:], (t, s), True
    yield [("traceparent", "00-0-0-01"), *single(t, s)], (t, s), True
    # Malformed is none.
    bad = [single(t, s, end) for end in ("-", "-2", "-1-", f"-1-{p[1:]}", f"-{p}", "-1-" + "g" * 16)]
    bad += [single(t[1:], s), single(t.upper().replace("0", "A"), s), single("0" * 32, s), single(t, "0" * 16), [("b3", "")]]
    bad += [[("b3", "2")], single(t, s) + single(t, p), multi(t, s, Sampled="2"), multi(t, s[1:]), multi(t[1:], s),
            [("X-B3-TraceId", t)], [("X-B3-SpanId", s)], multi(t, s) + [("X-B3-TraceId", t)], multi("0" * 32, s)]
    yield from ((headers, None, True) for headers in bad)


@pytest.mark.parametrize("version", ["1.19", "1.23", "1.26", "1.27"])
def test_b3_headers_are_parents(b3, version):
    target = b3.run(server(version))
    want = []
    for headers, ids, sampled in cases():
        want.append((Request("/fast", trace=None, headers=headers), ids, sampled))
    want += [(Request("/fast"), "traceparent", True)] * 1
    send(target.port, [r for r, _, _ in want], workers=4)
    spans = truth.by_rid(b3.spans(target, sum(sampled for _, _, sampled in want)))
    for request, ids, sampled in want:
        found = spans.get(request.rid, [])
        assert len(found) == sampled, f"{request.headers}: {found}"
        if found and ids is None:
            assert not found[0].parent_id and int(found[0].trace_id, 16), f"{request.headers}: {found}"
        elif found and ids != "traceparent":
            assert (found[0].trace_id, found[0].parent_id) == ids, f"{request.headers}: {found}"
            assert found[0].flags & 0x300 == 0x300
    truth.check_ids([(r, spans[r.rid][0]) for r, ids, _ in want if ids == "traceparent"])


def test_the_variable_of_opentelemetry_turns_it_on_and_what_is_unknown_is_told(node, rig_of):
    rig = rig_of(node, env={"OTEL_PROPAGATORS": "xray,tracecontext,baggage,b3multi"})
    target = rig.run()
    t, s = secrets.token_hex(16), secrets.token_hex(8)
    requests = [Request("/fast", trace=None, headers=multi(t, s)), Request("/fast")]
    send(target.port, requests)
    spans = truth.by_rid(rig.spans(target, 2))
    assert (spans[requests[0].rid][0].trace_id, spans[requests[0].rid][0].parent_id) == (t, s)
    truth.check_ids([(requests[1], spans[requests[1].rid][0])])
    log = rig.agent.log
    assert "'xray' is not read" in log and "baggage" not in log


def test_by_default_b3_is_not_read(rig):
    target = rig.run()
    t, s = secrets.token_hex(16), secrets.token_hex(8)
    requests = [Request("/fast", trace=None, headers=h) for h in (single(t, s, "-0"), multi(t, s, Sampled="0"), [("b3", "0")])]
    send(target.port, requests)
    truth.check_ids(truth.one_each(rig.spans(target, len(requests)), requests))
