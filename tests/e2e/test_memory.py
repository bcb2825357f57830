"""Where memory is short: whatever allocation fails, the agent goes on or ends with a reason, never by a signal."""
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.load import Request, send
from harness.paths import WORK
from harness.wait import until

# One of so many allocations fails, from the n-th to the m-th: while it starts, while it attaches, while it runs.
PHASES = {"the_configuration": (40, 0, 400), "the_start": (400, 200, 4000), "the_run": (40, 3500, 6000), "everywhere": (1500, 0, 9000)}


@pytest.fixture(scope="module")
def nomem():
    """A library that makes allocations fail; see memory/nomem.c."""
    if "asan" in os.environ.get("SPOOR", "") or "tsan" in os.environ.get("SPOOR", ""):
        pytest.skip("a sanitizer has allocations of its own")
    out = WORK / "bin" / "nomem.so"
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", out, Path(__file__).parent / "memory" / "nomem.c"], check=True)
    return out


def use(agent, target):
    """Whatever it may be asked for while memory is short. False: it has ended by itself."""
    until(lambda: not agent.process.running or " runs\"" in agent.log, 20, lambda: f"it starts or ends: {agent.tail()}")
    for path in ("/status", "/metrics", "/readyz", "/healthz", "/nothing"):
        try:
            if agent.process.running:
                agent.get(path)
        except (OSError, ValueError, AssertionError):
            pass  # no memory for an answer
    send(target.port, [Request("/fast") for _ in range(20)])
    return agent.process.running


def asks(agent):
    """How often it asked the kubelet so far; 0: it does not say."""
    try:
        return agent.metric("spoor_kubelet_requests_total")
    except (OSError, ValueError):
        return 0


def recovers(agent, target, sink):
    """There is memory again: all is as it should be, but for what libraries cannot get over. Of these it tells, and goes on trying."""
    asked = until(lambda: asks(agent), 10, lambda: f"the pages answer again: {agent.tail()}")
    try:
        until(lambda: agent.ready()[0], 8)
    except AssertionError:  # OpenSSL's random numbers, for one, stay away
        assert agent.process.running and "level=warn" in agent.log and asks(agent) > asked + 1, agent.tail()
        return
    if "is not traced" in agent.log:  # the kernel's objects are loaded once
        return
    agent.wait_traced(target.pid, 20)
    requests = send(target.port, [Request("/fast") for _ in range(20)])
    until(lambda: {r.rid for r in requests} <= {s.rid for s in list(sink.spans)}, 10, "all of them are told")


@pytest.mark.parametrize("phase", PHASES)
def test_allocations_that_fail_never_end_the_agent_by_a_signal_and_it_recovers(node, nomem, phase):
    every, begin, end = PHASES[phase]
    target, sink = node.run(), node.sink()
    for seed in range(5):
        env = {"LD_PRELOAD": str(nomem), "NOMEM_SEED": str(seed), "NOMEM_EVERY": str(every), "NOMEM_FROM": str(begin),
               "NOMEM_UNTIL": str(end)}
        agent = node.agent(sink, ready=False, env=env, batch__delay="50ms", shutdown__timeout="2s")
        lives = use(agent, target)
        if lives:
            recovers(agent, target, sink)
        agent.stop(signal.SIGTERM, code=None)
        code = agent.process.popen.returncode
        assert code in (0, 1, 2) and "CRASHED" not in agent.log, f"seed {seed}: it ended with {code}:\n{agent.tail(60)}"
        assert lives or code, f"seed {seed}: it ended by itself, but says that all is well"
        assert code == 0 or "level=error" in agent.log or "memory" in agent.log, f"seed {seed}: no reason is told:\n{agent.tail()}"
    assert target.process.running


@pytest.mark.parametrize("limit", ("nofile=24", "nofile=64", "as=60000000", "data=4000000", "fsize=0", "nproc=1"))
def test_limits_of_the_process_end_it_with_a_reason_or_not_at_all(node, limit):
    target = node.run()
    agent = node.agent(node.sink(), ready=False, wrap=["prlimit", f"--{limit}:{limit.split('=')[1]}"])
    until(lambda: not agent.process.running or " runs\"" in agent.log or limit == "fsize=0", 15, lambda: f"it runs or ends: {agent.tail()}")
    time.sleep(0.5)
    send(target.port, [Request("/fast") for _ in range(5)])
    agent.stop(signal.SIGTERM, code=None)
    code = agent.process.popen.returncode
    assert code in (0, 1), f"it ended with {code}:\n{agent.tail()}"
    assert code == 0 or "level=error" in agent.log, agent.tail()
    assert "not exact" not in agent.log, f"the kernel is not to blame:\n{agent.tail()}"
