"""A program with an SDK that sends to the collector that the agent sends to: what arrives there is what a user sees."""
import http.client
import secrets
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from harness import gobuild
from harness.rig import Rig
from harness.wait import until

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import modules  # noqa: E402


class Sdk(Rig):
    def otel(self, go="1.26", *args, installed=True, flavour="stripped", traced=True, env=None):
        program = gobuild.build(HERE / "otel", go=go, flavour=flavour, require=modules.otel(go), name="otel")
        to = ["-collector", self.collector.url.removeprefix("http://")] if installed else []
        target = self.node.run(program, *to, *args, env=env)
        if traced:
            self.agent.wait_traced(target.pid)
        return target

    def rpc(self, go):
        program = gobuild.build(HERE / "rpc", go=go, flavour="stripped", require=modules.rpc(go), name="otel-rpc")
        target = self.node.run(program, "-collector", self.collector.url.removeprefix("http://"))
        self.agent.wait_traced(target.pid)
        return target

    def of(self, target):
        """All spans of that program, its own and ours."""
        pid = str(target.pid)
        return [s for s in self.collector.spans()
                if s.resource.get("program") == pid or s.resource.get("container.id") == target.container.id]

    def index(self):
        """{trace: spans} and {rid: traces} of all that arrived."""
        traces, rids = defaultdict(list), defaultdict(set)
        for s in self.collector.spans():
            traces[s.trace_id].append(s)
            rid = s.rid or str(s.attrs.get("url.full", "")).rpartition("rid=")[2]
            rids[rid.partition(".")[0]].add(s.trace_id)
        return traces, rids

    def ask(self, target, path, header=True):
        """One request; its rid, and the trace and parent that it was sent with."""
        rid, trace, parent = secrets.token_hex(6), secrets.token_hex(16), secrets.token_hex(8)
        connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=10)
        connection.request("GET", f"{path}?rid={rid}", headers={"traceparent": f"00-{trace}-{parent}-01"} if header else {})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        assert answer.status == 200, f"{path}: {answer.status}"
        return Story(self, target, path, rid, trace, parent)


class Story:
    """What arrives of one request."""

    def __init__(self, sdk, target, path, rid, trace, parent):
        self.sdk, self.target, self.path, self.rid, self.trace, self.parent = sdk, target, path, rid, trace, parent

    def all(self, index=None):
        """The spans of the request's trace, those that its leaves tell of, and all of the traces that these are in."""
        if index:
            return [s for trace in {self.trace, *index[1][self.rid]} for s in index[0][trace]]
        spans = self.sdk.collector.spans()
        mine = [s for s in spans if s.trace_id == self.trace or s.rid.split(".")[0] == self.rid or self.rid in str(s.attrs.get("url.full"))]
        traces = {s.trace_id for s in mine}
        return [s for s in spans if s.trace_id in traces]

    def tree(self, n, index=None):
        """{span: parent} by names, once n spans have arrived and no more: "sdk" spans by kind and name, ours by kind and mark."""
        until(lambda: len(self.all()) >= n, 15, lambda: f"{self.path}: {n} spans arrive: {self.told()}; "
              f"{self.sdk.agent.process_state(self.target.pid)}")
        spans = self.all(index)
        names = {s.span_id: self.name(s) for s in spans}
        assert len(names) == len(spans), f"span ids occur twice: {self.told()}"
        names[self.parent] = "caller"
        return {names[s.span_id]: names.get(s.parent_id, s.parent_id) if s.parent_id else None for s in spans}

    def name(self, span):
        kind = {1: "internal", 2: "server", 3: "client"}[span.kind]
        if span.resource.get("from") == "sdk":
            return f"sdk {kind}"
        if "rpc.system" in span.attrs or "rpc.system.name" in span.attrs:
            return f"rpc {kind}"
        mark = (span.rid or str(span.attrs.get("url.full", "")).rpartition("rid=")[2]).partition(".")[2]
        return f"{kind} {mark}".strip()

    def told(self):
        return [(self.name(s), s.name, s.trace_id[:6], s.span_id[:6], s.parent_id[:6]) for s in self.all()]


@pytest.fixture(scope="module")
def sdk(shared):
    return Sdk(shared, traces__health_probes="true")  # the gRPC service that we call is that of health


@pytest.fixture(scope="session")
def sdk_of():
    return Sdk
