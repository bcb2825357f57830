"""The agent, a real collector, and the program that calls itself in random trees."""
import json

import pytest

from harness import gobuild
from harness.paths import TESTS
from harness.rig import Rig
from harness.wait import until

TREES = TESTS / "e2e" / "parents" / "trees"


class Forest(Rig):
    def trees(self, version, requests, seed=1, xnet="", sampled=False):
        """Lets the program make that many calls: (what it says of each by id, spans of clients by id, spans of servers by id)."""
        more = {"require": (f"golang.org/x/net@{xnet}",), "tags": "xnet"} if xnet else {}
        target = self.node.run(gobuild.build(TREES, go=version, **more))
        self.agent.wait_traced(target.pid)
        target.process.record("ports")
        target.process.popen.stdin.write(f"go {requests} {seed}\n".encode())
        target.process.popen.stdin.flush()
        target.process.record("done", timeout=120)
        calls = {r["call"]["id"]: r["call"] for r in target.process.records if "call" in r}
        served = sum(not c["error"] for c in calls.values())

        if sampled:
            until(lambda: self.agent.metric("spoor_spans_produced_total") >= len(calls) + served, 30, "all that was done is seen")
            until(lambda: self.agent.conservation()["queued"] == 0, 10, "what is sampled arrives")
            served = -len(calls)
        until(lambda: len(self.of(target)) >= len(calls) + served, 30, lambda: f"{len(calls)} calls and {served} requests arrive "
              f"({len(self.of(target))} did); dropped {self.agent.dropped()}; {json.dumps(self.agent.process_state(target.pid))}")
        target.stop()
        return calls, self.of(target)


@pytest.fixture(scope="module")
def rig(shared):
    # Ten thousand calls, of which on a quiet machine more are under way at a time than one process may have by default.
    return Forest(shared, operations__max=65536, operations__max_per_process=32768)


@pytest.fixture(scope="session")
def rig_of():
    return Forest
