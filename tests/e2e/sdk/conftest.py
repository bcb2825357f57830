"""A program with an SDK that sends to the collector that the agent sends to: what arrives there is what a user sees."""
import http.client
import secrets
import sys
from pathlib import Path

import pytest

from harness import gobuild
from harness.wait import until

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import modules  # noqa: E402


class Sdk:
    """One agent and one collector."""

    def __init__(self, node, **options):
        self.node, self.collector = node, node.collector()
        self.agent = node.agent(self.collector, **options)

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

    def all(self):
        """The spans of the request's trace, those that its leaves tell of, and all of the traces that these are in."""
        spans = self.sdk.collector.spans()
        mine = [s for s in spans if s.trace_id == self.trace or s.rid.split(".")[0] == self.rid or self.rid in str(s.attrs.get("url.full"))]
        traces = {s.trace_id for s in mine}
        return [s for s in spans if s.trace_id in traces]

    def tree(self, n):
        """{span: parent} by names, once n spans have arrived and no more: "sdk" spans by kind and name, ours by kind and mark."""
        until(lambda: len(self.all()) >= n, 15, lambda: f"{self.path}: {n} spans arrive: {self.told()}; "
              f"{self.sdk.agent.process_state(self.target.pid)}")
        spans = self.all()
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
