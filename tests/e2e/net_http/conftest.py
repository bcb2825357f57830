import pytest

from harness.rig import Rig


@pytest.fixture(scope="module")
def rig(shared):
    return Rig(shared)


@pytest.fixture(scope="session")
def rig_of():
    """Makes a rig on a node, its agent with other options."""
    return Rig
