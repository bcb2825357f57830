"""Fixtures: a node for each test, one that a whole file shares, and the two that decide what a machine cannot run."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from harness.gobuild import NoGo  # noqa: E402
from harness.hits import SWITCH  # noqa: E402
from harness.node import Node, make_pki  # noqa: E402
from harness.paths import WORK, agent_binary  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes its time; CI runs it, `-m 'not slow'` leaves it out")


def pytest_sessionstart(session):
    if os.geteuid() != 0:
        pytest.exit("these tests load BPF programs and make control groups: run them as root", returncode=1)
    if not agent_binary().exists():
        pytest.exit(f"{agent_binary()} is missing: ./run build", returncode=1)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem):
    """A Go version that this machine cannot have is a reason to skip; test_versions.py tells which ones may be missing."""
    try:
        return (yield)
    except NoGo as e:
        pytest.skip(str(e))


@pytest.fixture(scope="session")
def pki(tmp_path_factory):
    return make_pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def node(tmp_path, pki):
    """A node of one's own."""
    it = Node(tmp_path, pki)
    yield it
    it.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory, pki, request):
    """A node that all tests of a file share, for those that need no agent of their own."""
    it = Node(tmp_path_factory.mktemp(request.module.__name__), pki)
    yield it
    it.close()


@pytest.fixture(scope="session")
def pretend():
    """A program whose process shows any file as its own; see hostile/pretend.c."""
    source, out = Path(__file__).parent / "hostile" / "pretend.c", WORK / "bin" / "pretend"
    out.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-O1", "-fno-stack-protector", "-fcf-protection=none", "-static", "-no-pie", "-o", out, source], check=True)
    return out


@pytest.fixture
def statistics():
    """The kernel counts the runs of BPF programs: harness/hits.py."""
    before = SWITCH.read_text()
    SWITCH.write_text("1")
    yield
    SWITCH.write_text(before)
