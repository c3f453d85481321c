"""A monitor that prints nothing and asks nothing of the machine."""

import pytest

from flodl.monitor.monitor import Monitor


@pytest.fixture
def monitor():
    made = Monitor(0, quiet=True, resources=False, accepts=("save", "stop"))
    yield made
    made.finish()
