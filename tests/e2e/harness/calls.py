"""A program that calls HTTP servers as it is told (net_http_client/app), and what its spans are by what it says of each call."""
import re
from urllib.parse import urlsplit

from .gobuild import build
from .otlp import CLIENT
from .paths import TESTS
from .wait import until

APP = TESTS / "e2e" / "net_http_client" / "app"
VERSIONS = {"HTTP/1.0": "1.0", "HTTP/1.1": "1.1", "HTTP/2.0": "2"}
KNOWN = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE", "QUERY")
SLACK = 2_000_000


class Caller:
    """The program, traced: do() runs one of its cases and pairs what it said of each call with the span of that call."""

    def __init__(self, node, agent, receiver, program=None, go="", **kw):
        self.receiver, self.agent = receiver, agent
        self.target = node.run(program or build(APP, go=go, name="caller"), **kw)
        agent.wait_traced(self.target.pid)
        self.ports = self.target.process.record("ports")
        self.seen = 0

    def spans(self):
        return [s for s in self.receiver.spans() if s.resource.get("container.id") == self.target.container.id]

    def client_spans(self):
        return [s for s in self.spans() if s.kind == CLIENT]

    def run(self, case, timeout=60):
        """What the program says of the calls of that case, in order."""
        process = self.target.process
        before = len(process.records)
        process.popen.stdin.write(f"{case}\n".encode())
        process.popen.stdin.flush()
        until(lambda: any(r.get("done") == case for r in process.records[before:]) or not process.running, timeout,
              lambda: f"the program has done {case!r}: {process.lines[-3:]}")
        assert process.running, f"the program ended in {case!r}"
        return [r["call"] for r in process.records[before:] if "call" in r]

    def do(self, case, timeout=60):
        """[(call, span)]: each call has exactly one span, each span a call. Calls without span: what goes to a protocol of the
        program's own, and calls that hand on ids which others have put on the wire."""
        before = len(self.client_spans())
        calls = self.run(case, timeout)
        real = [c for c in calls if not c["url"].startswith("shop:") and c["case"] not in ("via forward", "via proxy")]
        until(lambda: len(self.client_spans()) - before >= len(real), 20,
              lambda: f"{len(real)} spans of {case!r} arrive ({len(self.client_spans()) - before} did); dropped {self.agent.dropped()}")
        spans = {}
        for span in self.client_spans()[before:]:
            spans.setdefault(identity(span), []).append(span)
        twice = {i: s for i, s in spans.items() if len(s) > 1}
        assert not twice, f"calls with more than one span: {list(twice.items())[:3]}"
        missing = [c for c in real if c["id"] not in spans]
        assert not missing, f"{len(missing)} of {len(real)} calls have no span: {missing[:3]}"
        unknown = set(spans) - {c["id"] for c in real}
        assert not unknown, f"spans of no call: {[spans[u] for u in unknown][:3]}"
        return [(c, spans[c["id"]][0]) for c in real]


def identity(span):
    """The call's own id, which stands last in its query; long ones are cut."""
    found = re.search(r"[?&]cid=([\d.]+)", span.attrs.get("url.full", ""))
    return found[1] if found else ""


def error_type(call):
    if call["error"]:
        return None if call["cancelled"] else "timeout" if call["timeout"] else call["error"]
    return str(call["status"]) if call["status"] >= 400 else None


def check_call(call, span, url=None):
    where = f"{call}: {span}"
    method = call["method"] or "GET"
    parts = urlsplit(call["url"])
    attrs = dict(span.attrs)
    assert span.kind == 3, where
    if method in KNOWN:
        assert span.name == attrs["http.request.method"] == method, where
    else:
        assert (span.name, attrs["http.request.method"], attrs["http.request.method_original"]) == ("HTTP", "_OTHER", method), where
    assert attrs["url.full"] == (url or call["url"]), where
    assert attrs["server.address"] == parts.hostname, where
    assert attrs.get("server.port") == (parts.port or {"http": 80, "https": 443}.get(parts.scheme)), where
    if "network.peer.address" in attrs and not call["case"].endswith("proxy"):
        assert (attrs["network.peer.address"], attrs["network.peer.port"]) == (attrs["server.address"], attrs["server.port"]), where
    assert span.code == (call["status"] or None), where
    assert attrs.get("network.protocol.version") == VERSIONS.get(call["proto"]), where
    assert attrs.get("error.type") == error_type(call), where
    assert span.status == (2 if error_type(call) else 0), where
    assert attrs.get("http.request.resend_count", 0) == call["resends"], where
    assert call["start"] - SLACK <= span.start <= span.end <= call["end"] + SLACK, where
    assert not span.parent_id or span.trace_id, where


def check(pairs):
    assert pairs, "there were calls"
    for call, span in pairs:
        check_call(call, span)
    ids = [span.span_id for _, span in pairs]
    assert len(set(ids)) == len(ids) and "" not in ids, "span ids occur once"
    return pairs
