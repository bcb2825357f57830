import pytest

from harness.rig import Rig


@pytest.fixture(scope="module")
def rig(shared):
    return Rig(shared)
