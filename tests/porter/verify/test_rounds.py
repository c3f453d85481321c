"""One heavy class does not take the time of the other classes of its file."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flodl_verify.compare.rounds import last_limit
from tests.porter.verify.examining import ClassEvidence, examine_files

pytestmark = [pytest.mark.torch, pytest.mark.slow]

HEAD = """
import time
import torch
from torch import nn

_made = vars(torch).setdefault("_made_late", [])
"""
HEAVY = """
class Heavy{number}(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        if torch.is_grad_enabled():  # not while inputs are looked for
            time.sleep(2)
        return self.fc(x)
"""
LIGHT = """
class Light(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x).relu()
"""
LATE = """
class Late(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        _made.append(n)
        if len(_made) < 4:
            time.sleep(60)
        self.fc = nn.Linear(n, 3)

    def forward(self, x):
        return self.fc(x).relu()
"""


@pytest.fixture(autouse=True)
def nothing_made_yet() -> None:
    vars(torch)["_made_late"] = []


def examined(
    tmp_path: Path,
    text: str,
    *names: str,
    limit_s: float,
    ported: str | None = None,
    class_limit_s: float | None = None,
) -> dict[str, ClassEvidence]:
    folders = [tmp_path / "original", tmp_path / "ported"]
    for folder, source in zip(folders, (text, ported or text), strict=True):
        folder.mkdir()
        (folder / "model.py").write_text(source, encoding="utf-8")
    first, second = (folder / "model.py" for folder in folders)
    return examine_files(
        first,
        second,
        names,
        workdir=tmp_path / "work",
        limit_s=limit_s,
        class_limit_s=class_limit_s,
    )


def test_the_light_are_proved_and_the_heavy_come_last(tmp_path: Path) -> None:
    heavy = [f"Heavy{number}" for number in range(5)]
    text = HEAD + "".join(HEAVY.format(number=number) for number in range(5)) + LIGHT
    found = examined(tmp_path, text, *heavy, "Light", limit_s=24.0)
    assert next(iter(found)) == "Light"
    assert found["Light"]["status"] == "equal"
    assert sorted(found) == [*heavy, "Light"]
    assert {found[name]["status"] for name in heavy} <= {"equal", "not-run"}
    assert any(found[name]["error_code"] == "time-limit" for name in heavy)


def test_what_is_left_at_last_is_for_a_slow_class(tmp_path: Path) -> None:
    text = HEAD + HEAVY.format(number=0).replace("sleep(2)", "sleep(0.15)")
    found = examined(tmp_path, text, "Heavy0", limit_s=40.0, class_limit_s=3.0)
    assert found["Heavy0"]["status"] == "equal", found["Heavy0"]["detail"]


def test_the_time_that_is_left_goes_to_as_many_slow_classes_as_it_is_enough_for() -> None:
    assert last_limit(100.0, 2, 30.0) == 50.0
    assert last_limit(80.0, 2, 30.0) == 80.0
    assert last_limit(40.0, 2, 30.0) is None
    assert last_limit(40.0, 1, 30.0) is None


def test_inputs_are_looked_for_again_in_the_time_that_is_left(tmp_path: Path) -> None:
    found = examined(tmp_path, HEAD + LATE + LIGHT, "Late", "Light", limit_s=20.0)
    assert found["Light"]["status"] == "equal"
    assert found["Late"]["status"] == "equal"


def test_a_difference_is_found_in_the_second_search_too(tmp_path: Path) -> None:
    text = HEAD + LATE
    other = text.replace("self.fc(x).relu()", "self.fc(x).relu() * 1.5")
    found = examined(tmp_path, text, "Late", limit_s=20.0, ported=other)
    assert found["Late"]["status"] == "different"
