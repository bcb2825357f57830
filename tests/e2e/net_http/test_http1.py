"""net/http over HTTP/1.1: each request's span is what client and program know of it."""
import random
import secrets

import pytest

from harness import truth
from harness.gobuild import VERSIONS
from harness.load import Request, send
from harness.node import server


def mixed(n, seed=1):
    """n requests over all kinds of answers, with and without a parent."""
    rng = random.Random(seed)
    paths = [*truth.ANSWERS, "/items/1", "/users/u/posts/p/q", "/mid/x", "/strip/fast", "/nowhere"]
    return [Request(rng.choice(paths), trace=rng.choice((True, None))) for _ in range(n)]


def test_400_mixed_requests_on_16_connections_are_400_true_spans(rig):
    target = rig.run(None, "-truth")
    requests = send(target.port, mixed(400), workers=16)
    pairs = truth.check(rig.spans(target, len(requests)), requests)
    truth.check_pod([span for _, span in pairs], target.pod)
    told = target.truths()
    for request, span in pairs:
        if request.rid in told:  # not 404: no handler ran
            t = told[request.rid]
            assert span.start - truth.SLACK <= t["start"], f"the handler began before the span: {t} {span}"
            if request.path not in ("/hijack",):
                assert t["end"] <= span.end + truth.SLACK, f"the handler ended after the span: {t} {span}"
            assert span.attrs["server.address"] == t["host"].rsplit(":", 1)[0]
            assert f'{span.attrs["network.peer.address"]}:{span.attrs["network.peer.port"]}' == t["remote"]


@pytest.mark.parametrize("version", VERSIONS)
def test_inbound_traceparent_is_found_among_any_number_of_other_headers(rig, version):
    """Field case 3."""
    target = rig.run(server(version))
    requests = []
    for others in (0, 3, 7, 8, 20, 40):
        for i in range(1000):
            headers = [(f"X-{secrets.token_hex(3)}-{n}", secrets.token_hex(4)) for n in range(others)]
            requests.append(Request("/fast", headers=headers, tag=True))
    send(target.port, requests, workers=8)
    spans = rig.spans(target, len(requests), timeout=40)
    pairs = truth.one_each(spans, requests)
    truth.check_ids(pairs)


def test_spelling_and_order_of_the_header_do_not_matter(rig):
    target = rig.run()
    requests = []
    for name in ("traceparent", "Traceparent", "TRACEPARENT", "tRaCePaReNt"):
        r = Request(trace=None)
        r.trace_id, r.parent_id = secrets.token_hex(16), secrets.token_hex(8)
        r.headers = [("A-First", "x"), (name, f"00-{r.trace_id}-{r.parent_id}-01"), ("Z-Last", "y")]
        requests.append(r)
    send(target.port, requests)
    for request, span in truth.one_each(rig.spans(target, len(requests)), requests):
        assert (span.trace_id, span.parent_id) == (request.trace_id, request.parent_id)


GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MALFORMED = {
    "54 characters": GOOD[:-1],
    "56 characters": GOOD + "0",
    "upper case": GOOD.upper(),
    "version ff": "ff" + GOOD[2:],
    "zero trace id": GOOD[:3] + "0" * 32 + GOOD[35:],
    "zero parent id": GOOD[:36] + "0" * 16 + GOOD[52:],
    "no hexadecimal digits": GOOD.replace("a", "g"),
    "other separators": GOOD.replace("-", "_"),
    "empty": "",
    "spaces inside": GOOD[:10] + " " + GOOD[11:],
}


def test_malformed_traceparents_are_absent_and_counted_and_harm_nothing(rig):
    """Field case 4."""
    target = rig.run()
    before = rig.agent.metrics()['spoor_trace_context_total{source="invalid"}']
    requests = []
    for text in MALFORMED.values():
        requests += [Request("/fast", trace=None, headers=[("Traceparent", text)]), Request("/fast")]
    twice = Request("/fast", trace=None, headers=[("Traceparent", GOOD), ("Traceparent", GOOD.replace("b7ad", "c7ad"))])
    send(target.port, [*requests, twice], workers=1)
    pairs = truth.one_each(rig.spans(target, len(requests) + 1), [*requests, twice])
    truth.check_ids(pairs)
    for request, span in pairs:
        if request.trace is None:
            assert span.trace_id != GOOD[3:35] and not span.parent_id, f"{request.headers}: {span}"
    after = rig.agent.metrics()['spoor_trace_context_total{source="invalid"}']
    # An empty header counts or not, as one likes; all others and the double one do.
    assert len(MALFORMED) <= after - before <= len(MALFORMED) + 1


def test_a_traceparent_of_a_later_version_is_read_as_far_as_it_is_known(rig):
    """W3C Trace Context, 3.2: a higher version with more behind the flags is parsed by the rules of version 00."""
    target = rig.run()
    r = Request("/fast", trace=None, headers=[("Traceparent", "01" + GOOD[2:] + "-what-the-future-brings")])
    s = Request("/fast", trace=None, headers=[("Traceparent", "01" + GOOD[2:])])
    send(target.port, [r, s], workers=1)
    for _, span in truth.one_each(rig.spans(target, 2), [r, s]):
        assert (span.trace_id, span.parent_id) == (GOOD[3:35], GOOD[36:52])


def test_tracestate_goes_along(rig):
    target = rig.run()
    r = Request("/fast", headers=[("Tracestate", "vendor=opaque,other=1")])
    alone = Request("/fast", trace=None, headers=[("Tracestate", "vendor=opaque")])
    send(target.port, [r, alone], workers=1)
    spans = truth.by_rid(rig.spans(target, 2))
    assert spans[r.rid][0].tracestate == "vendor=opaque,other=1"
    assert spans[alone.rid][0].tracestate == "", "without a parent there is no state of it"


def test_a_handler_that_needs_64_kilobytes_of_stack_loses_nothing(rig):
    """Field case 7, the server's part: stacks grow and move between begin and end."""
    target = rig.run()
    requests = send(target.port, [Request("/deep") for _ in range(2000)], workers=8, reconnect=True)
    truth.check(rig.spans(target, 2000, timeout=30), requests)


def test_requests_cut_short_by_the_client_end_with_what_was_sent(rig):
    target = rig.run()
    requests = send(target.port, [Request("/stream?n=100&ms=20", cancel=60) for _ in range(20)], workers=20)
    pairs = truth.one_each(rig.spans(target, 20), requests)
    for request, span in pairs:
        assert span.code == 200 and span.start <= span.end
        assert span.end - span.start < 2_000_000_000, "the handler returns when its client has gone"


def test_a_span_lasts_as_long_as_its_stream(rig):
    target = rig.run()
    requests = send(target.port, [Request("/stream?n=20&ms=50")])
    (_, span), = truth.check(rig.spans(target, 1), requests)
    assert 0.95 < (span.end - span.start) / 1e9 < 1.5


def test_methods_that_nobody_knows_are_other(rig):
    target = rig.run()
    known = [Request("/fast", method=m) for m in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE")]
    odd = [Request("/fast", method="BREW"), Request("/fast", method="get")]
    send(target.port, known + odd, workers=1)
    spans = truth.by_rid(rig.spans(target, len(known) + 2))
    for r in known:
        span = spans[r.rid][0]
        assert span.attrs["http.request.method"] == r.method and "http.request.method_original" not in span.attrs
        assert span.name == f"{r.method} /fast"
    for r in odd:
        span = spans[r.rid][0]
        assert span.attrs["http.request.method"] == "_OTHER" and span.attrs["http.request.method_original"] == r.method
        assert span.name == "HTTP /fast"


def test_sizes_are_those_of_the_bodies_when_asked_for(node):
    """They are opt-in attributes of the semantic conventions."""
    sink = node.sink()
    target = node.run()
    agent = node.agent(sink, http__body_sizes=True)
    agent.wait_traced(target.pid)
    requests = send(target.port, [Request("/echo", method="POST", body=n) for n in (1, 1000, 100_000)] + [Request("/nothing")], workers=1)
    for request, span in truth.one_each(sink.wait(4), requests):
        if request.body:
            assert span.attrs.get("http.request.body.size") == request.body, span
            assert span.attrs.get("http.response.body.size") == 8, span
        else:
            assert span.attrs.get("http.response.body.size", 0) == 0, span


def test_host_and_port_are_what_the_client_asked_for(rig):
    target = rig.run()
    hosts = {"shop.example": ("shop.example", 80), "shop.example:8080": ("shop.example", 8080),
             "[::1]:9090": ("::1", 9090), "10.0.0.7": ("10.0.0.7", 80)}
    requests = send(target.port, [Request("/fast", host=h) for h in hosts], workers=1)
    for request, span in truth.one_each(rig.spans(target, len(hosts)), requests):
        address, port = hosts[request.host]
        assert span.attrs["server.address"] == address, span
        assert span.attrs.get("server.port", port) == port, span


def test_paths_keep_what_was_sent_and_are_always_valid(rig):
    """Field case 22: percent signs, dots, very long ones, bytes that are no UTF-8; one series of names."""
    target = rig.run()
    odd = ["/items/a%2Fb", "/items/%F0%9F%90%B9", "/items/%ff%fe", "/a/../b", "/items/" + "x" * 2000, "/items/%00", "/a//double", "/items/a;b"]
    requests = send(target.port, [Request(p) for p in odd], workers=1)
    found = {s.trace_id: s for s in rig.spans(target, len(odd))}
    for request in requests:
        span = found[request.trace_id]
        path = span.attrs["url.path"]
        assert request.path.startswith(path) and len(path) >= min(len(request.path), 500), f"{request.path[:60]}: {path[:60]}"
        assert span.name in ("GET", "GET /items/{id}"), span.name


def test_ten_thousand_ids_are_one_route_and_one_name(rig):
    """Field case 22."""
    target = rig.run()
    requests = send(target.port, [Request(f"/items/{i}") for i in range(10_000)], workers=8)
    spans = rig.spans(target, 10_000, timeout=40)
    truth.one_each(spans, requests)
    assert {(s.name, s.route) for s in spans} == {("GET /items/{id}", "/items/{id}")}


def test_secrets_in_the_query_are_redacted(rig):
    target = rig.run()
    r = Request("/fast?a=1&sig=SECRET&X-Amz-Signature=SECRET&sigma=kept&Sig=kept")
    send(target.port, [r])
    span = truth.by_rid(rig.spans(target, 1))[r.rid][0]
    assert span.attrs["url.query"] == f"a=1&sig=REDACTED&X-Amz-Signature=REDACTED&sigma=kept&Sig=kept&rid={r.rid}"


def test_user_agents_are_recorded(rig):
    target = rig.run()
    r = Request("/fast", headers=[("User-Agent", "curl/8.5.0")])
    send(target.port, [r])
    assert truth.by_rid(rig.spans(target, 1))[r.rid][0].attrs["user_agent.original"] == "curl/8.5.0"


def test_patterns_with_a_host_lose_host_and_method(rig):
    target = rig.run()
    r = Request("/hosted/5", method="POST", host="example.test")
    send(target.port, [r])
    span = truth.by_rid(rig.spans(target, 1))[r.rid][0]
    assert span.route == "/hosted/{id}" and span.name == "POST /hosted/{id}"


def test_many_connections_opened_and_closed_leave_nothing_open(rig):
    target = rig.run()
    requests = send(target.port, [Request("/fast") for _ in range(3000)], workers=16, reconnect=True)
    truth.check(rig.spans(target, 3000, timeout=30), requests)
