"""One agent and one real collector for all tests of a file."""
import json
import socket

import pytest

from harness import gobuild
from harness.paths import TESTS
from harness.wait import until

CALLS = TESTS / "e2e" / "grpc" / "calls"
SCOPE = "spoor/google.golang.org/grpc"


def program(go, grpc, flavour="stripped"):
    """The program of these tests with that release of gRPC, built for that Go version."""
    return gobuild.build(CALLS, go=go, flavour=flavour, require=(f"google.golang.org/grpc@v{grpc}",), name=f"grpc{grpc}")


class Rig:
    def __init__(self, node, **options):
        self.node, self.collector = node, node.collector()
        self.agent = node.agent(self.collector, **options)

    def run(self, program, *args, **kw):
        """A program in a pod of its own, traced."""
        target = self.node.run(program, *args, **kw)
        self.agent.wait_traced(target.pid)
        return target

    def spans(self, target, n, timeout=20):
        """The spans of that target, once n of them (or more, a moment later) have arrived."""
        def mine():
            return [s for s in self.collector.spans() if s.resource.get("container.id") == target.container.id]
        until(lambda: len(mine()) >= n, timeout, lambda: f"{n} spans of {target.pod.name} arrive ({len(mine())} did); "
              f"{self.agent.process_state(target.pid)}; dropped {self.agent.dropped()}")
        return mine()


def order(target, calls, workers=1, repeat=1, timeout=60):
    """Lets the program make these calls; what it saw of each."""
    with socket.create_connection(("127.0.0.1", target.ports["control"]), timeout=timeout) as s:
        s.sendall(json.dumps({"Workers": workers, "Repeat": repeat, "Calls": calls}).encode() + b"\n")
        report = json.loads(s.makefile("rb").readline())
    assert not report["Errors"], report["Errors"]
    return report["Truths"]


@pytest.fixture(scope="module")
def rig(shared):
    return Rig(shared)
