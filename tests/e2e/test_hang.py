"""A traced program's file on a file system that does not answer any more: it costs that program's spans, never the agent or others."""
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import truth
from harness.load import Request, send
from harness.node import server
from harness.paths import WORK
from harness.process import Process
from harness.wait import until


class Hang:
    """A FUSE file system with one program on it, that can be made to hang."""

    def __init__(self, folder):
        folder.mkdir()
        tool = WORK / "bin" / "hang"
        tool.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-O1", "-Wall", "-o", tool, Path(__file__).parent / "hang" / "hang.c"], check=True)
        self.folder, self.process = folder, Process([tool, folder, server()])
        self.process.record("mounted")
        self.program = folder / "web"

    def hang(self):
        os.kill(self.process.pid, signal.SIGSTOP)

    def answer(self):
        os.kill(self.process.pid, signal.SIGCONT)

    def close(self):
        self.answer()
        subprocess.run(["umount", "-l", self.folder], check=True)
        self.process.stop()


@pytest.fixture
def disk(tmp_path):
    it = Hang(tmp_path / "disk")
    yield it
    it.close()


def spans_arrive(sink, target, path="/fast", n=5):
    requests = send(target.port, [Request(path) for _ in range(n)])
    until(lambda: {r.rid for r in requests} <= {s.rid for s in sink.spans}, 10, "its spans arrive")
    return [span for _, span in truth.one_each([s for s in sink.spans if s.rid in {r.rid for r in requests}], requests)]


def healthy(agent):
    status, body = agent.get("/healthz")
    assert status == 200, body


@pytest.mark.slow
def test_a_program_whose_file_cannot_be_read_is_told_and_others_are_traced(node, disk):
    sink, stuck = node.sink(), node.run(disk.program)
    send(stuck.port, [Request("/fast") for _ in range(5)])  # what it runs is in memory now
    disk.hang()
    agent = node.agent(sink)
    state = until(lambda: (it := agent.process_state(stuck.pid)).get("state") == "failed" and it, 15, "it is given up for now")
    assert "does not answer" in state["reason"], state
    fine = node.run()
    assert agent.wait_traced(fine.pid) < 4, "nobody waits for it a second time"
    spans_arrive(sink, fine)
    for _ in range(35):  # /healthz bears 30 s without a sign of life
        time.sleep(1)
        healthy(agent)
    threads = [Path(f"/proc/{agent.real_pid}/task/{t}/comm").read_text().strip() for t in os.listdir(f"/proc/{agent.real_pid}/task")]
    assert threads.count("slow") == 1, f"however often it was tried: {threads}"
    assert agent.metrics()['spoor_binary_analysis_failures_total{reason="timeout"}'] >= 2
    disk.answer()
    agent.wait_traced(stuck.pid, 70)
    assert spans_arrive(sink, stuck, "/items/1")[0].attrs["http.route"], "from the file"
    assert "slow" not in [Path(f"/proc/{agent.real_pid}/task/{t}/comm").read_text().strip() for t in os.listdir(f"/proc/{agent.real_pid}/task")]


def test_a_file_that_hangs_while_it_is_traced_costs_new_routes_only(node, disk):
    sink, target, other = node.sink(), node.run(disk.program), node.run()
    agent = node.agent(sink)
    agent.wait_traced(target.pid), agent.wait_traced(other.pid)
    assert spans_arrive(sink, target, "/items/1")[0].attrs["http.route"]
    send(other.port, [Request("/users/u/posts/p/q")])
    warm = subprocess.run(["dd", f"if={disk.program}", "of=/dev/null", "bs=1M"], capture_output=True)
    assert warm.returncode == 0
    disk.hang()
    assert spans_arrive(sink, target, "/items/1")[0].attrs["http.route"], "it is known"
    assert "http.route" not in spans_arrive(sink, target, "/users/u/posts/p/q")[0].attrs
    assert spans_arrive(sink, other, "/users/u/posts/p/q")[0].attrs["http.route"], "of another disk"
    for _ in range(3):
        time.sleep(1)
        healthy(agent)
    target.pod.annotations.clear()
    node.kubelet.set(target.pod)
    agent.wait_untraced(target.pid)
    healthy(agent)
    disk.answer()  # what FUSE has handed out no signal ends: the kernel keeps such a thread, and with it the process
    assert agent.stop() < 8
