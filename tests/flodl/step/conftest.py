"""Compilation without a compiler."""

import pytest

from flodl.step import tiering as ladder_module
from tests.flodl.step.helpers import Replay


@pytest.fixture
def replay(monkeypatch):
    """Let recorded steps be replayed where others are compiled, and at once."""
    monkeypatch.setattr(ladder_module, "Compilation", Replay)
    monkeypatch.setattr(ladder_module, "compiler_missing", lambda device: None)
    monkeypatch.setattr(ladder_module, "_SECONDS_BEFORE_TRYING", 0.0)
