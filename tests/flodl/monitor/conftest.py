"""A monitor that prints nothing and asks nothing of the machine, and a browser for its page."""

import pytest

from flodl.monitor.monitor import Monitor
from tests.flodl.monitor.chromium import Chromium


@pytest.fixture
def monitor():
    made = Monitor(0, quiet=True, resources=False, accepts=("save", "stop"))
    yield made
    made.finish()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def page(browser):
    """The browser with nothing remembered and nothing to complain about afterwards."""
    browser.resize(1280, 2400)
    browser.theme("light")
    browser.requests.clear()
    browser.problems.clear()
    yield browser
    browser.open("about:blank")
    assert browser.problems == []
