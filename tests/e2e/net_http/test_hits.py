"""Field case 18: what a request costs in probe hits, counted by the kernel."""
import os
from pathlib import Path

import pytest

from harness import gobuild
from harness.load import Request, send
from harness.node import NET_HTTP, server

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


CASES = {"http1": ("h1", "h1"), "tls_http2": ("tls", "h2"), "h2c": ("h2c", "h2c")}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("version", ("1.26", "1.27", "1.19"))
def test_two_hits_a_request(node, statistics, version, case):
    port, proto = CASES[case]
    if version == "1.19" and case == "h2c":
        program, args = gobuild.build(NET_HTTP / "xh2c", go="1.19", require=("golang.org/x/net@v0.17.0",)), []
    else:
        program, args = server(version), ["-tls"] + (["-h2c"] if case == "h2c" else [])
    sink = node.sink()
    target = node.run(program, *args)
    agent = node.agent(sink)
    agent.wait_traced(target.pid)
    send(target.ports[port], [Request("/fast")], proto=proto, workers=1)
    sink.wait(1)
    before = hits(agent)
    send(target.ports[port], [Request("/fast") for _ in range(1000)], proto=proto, workers=1, conns=1)
    sink.wait(1001)
    per_request = (hits(agent) - before) / 1000
    # A connection costs one or two of its own, at its beginning and end.
    assert 2.0 <= per_request < 2.01, f"{per_request} hits a request"
