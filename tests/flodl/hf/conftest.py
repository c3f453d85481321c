"""One folder of ports for all tests of `flodl.hf`: to port a model file takes seconds."""

import pytest

from tests.hugging_face import transformers


@pytest.fixture(scope="session")
def ports(tmp_path_factory):
    """Return the folder; the processes of one run share it."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if base.name.startswith("popen-") else base) / "ports"


@pytest.fixture
def library(ports, monkeypatch):
    """Return transformers, silent and with the shared folder of ports."""
    found = transformers()
    monkeypatch.setenv("FLODL_CACHE_DIR", str(ports))
    before = found.logging.get_verbosity()
    found.logging.set_verbosity_error()
    yield found
    found.logging.set_verbosity(before)
