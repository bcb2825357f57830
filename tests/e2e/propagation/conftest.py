"""The sender and the receiver of these tests, and what a run of the sender came to."""
import json
import os
from pathlib import Path

import pytest

from harness import gobuild
from harness.agent import CHART_CAPABILITIES
from harness.pods import Pod
from harness.wait import until

# ./run e2e takes a part; SPOOR_PROPAGATION_REQUESTS=100000 is the whole.
REQUESTS = int(os.environ.get("SPOOR_PROPAGATION_REQUESTS", "20000"))
CAPABILITIES = (*CHART_CAPABILITIES, "net_admin")


def program(go=""):
    return gobuild.build(Path(__file__).parent / "app", go=go, name="propagation")


class Sender:
    """A run of the sender in a pod: it waits for go(), then results()."""

    def __init__(self, world, n, go="", opted_in=True, **options):
        self.n, self.out = n, world.node.folder / f"sent{len(world.node.targets)}.json"
        options = {"address": f"127.0.0.1:{world.port}", "n": n, "out": self.out, **options}
        words = [w for k, v in options.items() for w in ([f"-{k}"] if v is True else [f"-{k}", str(v)])]
        self.target = world.node.run(program(go), "send", *words, pod=Pod.of_deployment(opted_in=opted_in))
        self.target.process.record("ready")

    @property
    def pid(self):
        return self.target.pid

    def go(self):
        self.target.process.popen.stdin.write(b"go\n")
        self.target.process.popen.stdin.flush()
        return self

    @property
    def done(self):
        return any("done" in r for r in self.target.process.records)

    def results(self, timeout=600):
        until(lambda: self.done or not self.target.process.running, timeout, "the sender is done")
        assert self.done, f"the sender ended: {self.target.process.lines[-5:]}"
        return [json.loads(line) for line in self.out.read_text().splitlines()]


class World:
    """One receiver, and what arrives there when nobody is in between."""

    def __init__(self, node):
        self.node = node
        self.receiver = self.receive()
        self.port = self.receiver.process.record("port")
        self._untouched = {}

    def untouched(self, n, **options):
        """The same requests by a sender that no agent has seen."""
        key = (n, tuple(sorted(options.items())))
        if key not in self._untouched:
            sender = Sender(self, n, opted_in=False, **options).go()
            self._untouched[key] = sender.results()
            sender.target.stop()
        return self._untouched[key]

    def receive(self, address="127.0.0.1:0"):
        return self.node.run_outside(program(), "serve", "-address", address)

    def sender(self, n, **options):
        return Sender(self, n, **options)

    def broken(self):
        return [r for r in self.receiver.process.records if "broken" in r]

    def compare(self, got, n, plain=False):
        """Each request arrived as it would have without an agent, but for lines of traceparent behind the Host line."""
        want = self.untouched(n, **({"plain": True} if plain else {}))
        assert not self.broken(), self.broken()[:3]
        assert len(got) == len(want) == n
        for a, b in zip(got, want):
            assert a["got"] and not a.get("error"), f"request {a['i']} ({a['shape']}): {a.get('error')}"
            assert a["got"]["sha"] == b["got"]["sha"], f"request {a['i']} was changed: {a['shape']}: {a['got']}"
            values, at = a["got"]["values"] or [], a["got"]["at"] or []
            assert len(values) <= 1, f"request {a['i']}: {values}"
            if not a["own"]:
                assert at in ([], [2]), f"request {a['i']}: behind the Host line, not {at}"
            else:
                assert values == b["got"]["values"] and at == b["got"]["at"], f"the program's own is left alone: {a}"

    def agent(self, receiver=None, **options):
        return self.node.agent(receiver, capabilities=CAPABILITIES, **{"propagation": "headers", **options})


@pytest.fixture(scope="module")
def world(shared):
    return World(shared)


@pytest.fixture(autouse=True)
def nobody_is_left(shared):
    """An agent that a failed test has left behind would put its lines into the next one's requests."""
    yield
    for agent in shared.agents:
        agent.kill()


@pytest.fixture(scope="module")
def requests():
    return REQUESTS
