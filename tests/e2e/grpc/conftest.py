"""One agent and one real collector for all tests of a file."""
import pytest

from harness.wait import until


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


@pytest.fixture(scope="module")
def rig(shared):
    return Rig(shared)
