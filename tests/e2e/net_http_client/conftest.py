"""One agent and one real collector for all tests of a file."""
import pytest

from harness.calls import Caller


class Rig:
    def __init__(self, node, **options):
        self.node, self.collector = node, node.collector()
        self.agent = node.agent(self.collector, **options)

    def caller(self, **kw):
        return Caller(self.node, self.agent, self.collector, **kw)


@pytest.fixture(scope="module")
def rig(shared):
    return Rig(shared)
