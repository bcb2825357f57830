"""What the files of this folder share: points as they are at the end of an agent."""
import pytest

from harness.otlp import last_points
from harness.wait import until


@pytest.fixture
def measured():
    """The last point of each series of that metric, once the operations that it counts are `count`."""
    def wait(receiver, metric, count, timeout=15, of=lambda p: True):
        def found():
            return [p for p in last_points(receiver.points() if callable(receiver.points) else receiver.points)
                    if p.metric == metric and of(p)]
        until(lambda: sum(p.count for p in found()) >= count, timeout,
              lambda: f"{count} operations in {metric}: {[(p.attrs, p.count) for p in found()]}")
        assert sum(p.count for p in found()) == count
        return found()
    return wait
