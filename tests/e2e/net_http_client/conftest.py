"""One agent and one real collector for all tests of a file."""
import pytest

from harness.calls import Caller
from harness.rig import Rig


class Callers(Rig):
    def caller(self, **kw):
        return Caller(self.node, self.agent, self.collector, **kw)


@pytest.fixture(scope="module")
def rig(shared):
    return Callers(shared)
