"""One agent and one real collector for all tests of a file; each test brings a program of its own."""
from .wait import until


class Rig:
    def __init__(self, node, **options):
        self.node, self.collector = node, node.collector()
        self.agent = node.agent(self.collector, **options)

    def run(self, program=None, *args, **kw):
        """A program in a pod of its own, traced."""
        target = self.node.run(program, *args, **kw)
        self.agent.wait_traced(target.pid)
        return target

    def of(self, target):
        """The spans of that target that have arrived."""
        return [s for s in self.collector.spans() if s.resource.get("container.id") == target.container.id]

    def spans(self, target, n, timeout=20):
        """The same, once n of them (or more, a moment later) have arrived."""
        until(lambda: len(self.of(target)) >= n, timeout, lambda: f"{n} spans of {target.pod.name} arrive ({len(self.of(target))} did); "
              f"{self.agent.process_state(target.pid)}; dropped {self.agent.dropped()}")
        return self.of(target)
