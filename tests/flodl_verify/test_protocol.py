"""A verification process counts its time from when its parent began to wait for it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from flodl_verify.protocol import Request

ASKED = Request(
    task="check",
    original=Path("old.py"),
    ported=Path("new.py"),
    classes=("Net",),
    examples=(),
    search_path=(),
    workdir=Path(),
    recording=None,
    limit_s=60.0,
    class_limit_s=30.0,
    memory_mb=1024,
)


@pytest.mark.parametrize(
    ("ago", "left"), [(None, 60.0), (0.0, 60.0), (7.0, 53.0), (1e6, 30.0), (-1e6, 60.0)]
)
def test_what_is_left_of_the_limit(ago: float | None, left: float) -> None:
    started = None if ago is None else time.time() - ago
    assert replace(ASKED, started_at=started).left_s() == pytest.approx(left, abs=0.5)
