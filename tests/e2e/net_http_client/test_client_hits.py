"""What a call costs in probe hits, counted by the kernel."""
import os
import time
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


def per_call(agent, caller, case):
    """Hits of each of a thousand calls. A connection costs one or two of its own."""
    before = hits(agent)
    check(caller.do(f"{case} #1000"))
    return (hits(agent) - before) / 1000


@pytest.mark.parametrize("case", ("get", "tls", "http2"))
@pytest.mark.parametrize("version", VERSIONS)
def test_two_hits_a_call(node, statistics, version, case):
    """The program serves itself, which is not counted. HTTP/1 over TLS: net/http asks HTTP/2 first, and the answer passes two
    branches that may end the call."""
    collector = node.collector()
    agent = node.agent(collector, libraries__disabled=["net_http"])
    caller = Caller(node, agent, collector, go=version)
    caller.do(f"{case} #50")
    most = 4 if case == "tls" else 2
    assert 2.0 <= per_call(agent, caller, case) < most + 0.01


def test_a_server_in_the_same_program_costs_its_two_hits_as_ever(node, statistics):
    collector = node.collector()
    agent = node.agent(collector)
    caller = Caller(node, agent, collector)
    caller.do("get #1200")
    time.sleep(5)  # a probe on trial may have been taken away by now
    assert 4.0 <= per_call(agent, caller, "get") < 4.02
