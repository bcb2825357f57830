"""Parents of calls, and ids that the program puts on the wire itself (field case 5)."""
import re
import urllib.request

import pytest

from harness.calls import Caller, check
from harness.gobuild import VERSIONS
from harness.otlp import SERVER
from harness.wait import until


@pytest.fixture(scope="module", params=VERSIONS)
def caller(rig, request):
    return rig.caller(go=request.param)


def header_ids(call):
    return call["traceparent"][3:35], call["traceparent"][36:52]


def test_calls_without_a_cause_are_roots(caller):
    pairs = check(caller.do("get #20"))
    assert all(not span.parent_id for _, span in pairs)
    assert len({span.trace_id for _, span in pairs}) == 20


def test_ids_that_the_program_sends_itself_are_those_of_the_span(caller):
    for call, span in check(caller.do("own ids #50")):
        assert (span.trace_id, span.span_id) == header_ids(call) and not span.parent_id


def test_ids_that_the_program_sends_again_are_those_of_the_first_call(caller):
    first = {}
    for call, span in check(caller.do("own ids again #20")):
        trace, sent = header_ids(call)
        assert span.trace_id == trace
        if sent not in first:
            first[sent] = span
            assert span.span_id == sent and not span.parent_id
        else:
            assert span.span_id != sent and span.parent_id == sent
    assert len(first) == 20
    ids = [span.span_id for span in caller.client_spans()]
    assert len(ids) == len(set(ids))


def test_calls_of_a_handler_are_its_children_and_own_ids_win(caller):
    pairs = check(caller.do("via #20"))
    by_id = {call["id"]: (call, span) for call, span in pairs}

    def servers():
        return {s.parent_id: s for s in caller.spans() if s.kind == SERVER and s.attrs.get("url.path") == "/via"}
    outer = [(call, span) for call, span in pairs if call["case"] == "to via"]
    assert len(outer) == 100
    until(lambda: all(span.span_id in servers() for _, span in outer), 10, "servers' spans of all calls")
    kinds = set()
    for call, span in outer:
        server, (inner, child) = servers()[span.span_id], by_id.get(call["id"] + ".1", (None, None))
        assert (span.trace_id, span.span_id) == header_ids(call) and server.trace_id == span.trace_id
        if not inner:
            kinds.add(re.search("how=([a-z]+)", call["url"])[1])
            continue
        kinds.add(inner["case"])
        if inner["case"] == "via other":
            assert (child.trace_id, child.span_id, child.parent_id) == (*header_ids(inner), "")
            continue
        assert (child.trace_id, child.parent_id) == (server.trace_id, server.span_id)
        if inner["case"] == "via own":
            assert (child.trace_id, child.span_id) == header_ids(inner)
    assert kinds == {"via context", "via own", "via other", "forward", "proxy"}
    assert caller.agent.metrics()['spoor_operations_skipped_total{reason="ids_of_another"}'] >= 40


@pytest.mark.parametrize("disabled", ([], ["net_http"]))
@pytest.mark.parametrize("go", ("1.19", "1.23", "1.26", "1.27"))
def test_a_header_that_is_handed_on_later_or_unseen_makes_no_span_of_that_id(node, go, disabled):
    """By a worker, when the request is over and without its context; and where the library for servers is off."""
    collector = node.collector()
    agent = node.agent(collector, libraries__disabled=disabled)
    caller = Caller(node, agent, collector, go=go)
    sent = {}
    for i in range(40):
        trace, span = f"{i + 1:032x}", f"{0xabc000 + i:016x}"
        sent[str(9000 + i)] = span
        request = urllib.request.Request(f"{caller.ports['plain']}/via?how={('later', 'forward')[i % 2]}&cid={9000 + i}",
                                         headers={"Traceparent": f"00-{trace}-{span}-01"})
        urllib.request.urlopen(request).read()
    records = caller.target.process.records

    def handed_on():
        return [r["call"] for r in records if r.get("call", {}).get("case") in ("via later", "via forward")]
    until(lambda: len(handed_on()) == 40, 20, "all headers are handed on")
    assert {c["traceparent"][36:52] for c in handed_on()} == set(sent.values())
    assert len(check(caller.do("get #5"))) == 5
    assert not {s.span_id for s in caller.spans()} & set(sent.values())
    assert len(caller.client_spans()) == 5
    assert agent.metrics()['spoor_operations_skipped_total{reason="ids_of_another"}'] >= 40
