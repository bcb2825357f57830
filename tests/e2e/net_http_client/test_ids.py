"""Parents of calls, and ids that the program puts on the wire itself (field case 5)."""
import re

import pytest

from harness.calls import check
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
