"""What a call costs in probe hits, counted by the kernel, and what it takes away from no one."""
import os
from pathlib import Path

import pytest

from harness.calls import Caller, check
from harness.gobuild import VERSIONS

SWITCH = Path("/proc/sys/kernel/bpf_stats_enabled")


@pytest.fixture
def statistics():
    before = SWITCH.read_text()
    SWITCH.write_text("1")
    yield
    SWITCH.write_text(before)


def hits(agent):
    """How often the agent's BPF programs for uprobes have run."""
    total, pid = 0, agent.real_pid
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            info = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/fdinfo/{fd}").read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if info.get("prog_type") == "2" and "run_cnt" in info:  # BPF_PROG_TYPE_KPROBE: what uprobes are to BPF
            total += int(info["run_cnt"])
    return total


# The program serves itself: two hits for the server's span of each call.
CASES = {"get": 2, "http2": 2}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("version", VERSIONS)
def test_two_hits_a_call_and_two_for_its_server(node, statistics, version, case):
    sink = node.collector()
    agent = node.agent(sink, start=True, routes="free")  # without the trial of the server's mux
    caller = Caller(node, agent, sink, go=version)
    caller.do(f"{case} #50")
    before = hits(agent)
    check(caller.do(f"{case} #1000"))
    assert 2 * 1000 + 2 * 1000 <= hits(agent) - before < 4 * 1000 + 20
