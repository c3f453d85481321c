"""Compilation without a compiler."""

import pytest

from flodl.step import tiering as tiering_module
from tests.flodl.step.helpers import Replay


@pytest.fixture
def replay(monkeypatch):
    """Let recorded steps be replayed where others are compiled, and at once."""
    monkeypatch.setattr(tiering_module, "Compilation", Replay)
    monkeypatch.setattr(tiering_module, "compiler_missing", lambda device: None)
    monkeypatch.setattr(tiering_module, "_SECONDS_BEFORE_TRYING", 0.0)
