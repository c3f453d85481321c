"""A heavy model is compared on less and in fewer calls first; what its time leaves out is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from flodl_verify.compare.case_comparison import CaseComparison
from flodl_verify.sandbox.attempt import OutOfTimeError
from flodl_verify.sides import probe
from flodl_verify.sides.variants import short_batches, shrunk_variants
from tests.porter.verify.examining import EXAMPLES, examine_files, statuses
from tests.porter.verify.mutations import ALL
from tests.porter.verify.test_mutations import ORIGINAL, PORTED, examine_mutation

pytestmark = pytest.mark.torch

# One for each thing that a heavy model is called less often for.
SUBTLE = (
    "ConvBlock-activation",
    "Attention-batch-size-baked",
    "Refiner-start-state",
    "UpSkip-size-baked",
)


@pytest.fixture
def heavy(monkeypatch):
    monkeypatch.setattr(probe, "HEAVY_S", -1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", SUBTLE)
@pytest.mark.usefixtures("heavy")
def test_what_differs_is_found(name, tmp_path: Path) -> None:
    mutation = next(item for item in ALL if item.name == name)
    found = examine_mutation(mutation, tmp_path)
    assert found["status"] == "different", found


def examined(tmp_path: Path):
    return examine_files(
        ORIGINAL, PORTED, ("Affine",), workdir=tmp_path / "work", examples=EXAMPLES["Affine"]
    )["Affine"]


def over(*_):
    raise OutOfTimeError


@pytest.mark.usefixtures("heavy")
def test_the_checks_that_ran_stand_when_the_time_is_over(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(CaseComparison, "_train_first", over)
    found = examined(tmp_path)
    assert found["status"] == "equal"
    assert found["detail"] == "the 45 s were over before all calls were compared"
    assert set(list(statuses(found).values())[:7]) == {"equal"}


@pytest.mark.usefixtures("heavy")
def test_without_all_of_the_seven_checks_nothing_is_proved(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(CaseComparison, "_each_check_once", over)
    found = examined(tmp_path)
    assert (found["status"], found["error_code"]) == ("not-run", "time-limit")


def shapes(*tensors: torch.Tensor):
    found = shrunk_variants((tensors, {}))
    return [[tuple(item.shape) for item in variant.arguments[0]] for variant in found]


def test_images_and_sequences_are_cut_to_what_models_halve() -> None:
    image = torch.zeros(8, 3, 299, 299)
    assert shapes(image)[:4] == [
        [(2, 3, 96, 96)], [(8, 3, 96, 96)], [(2, 3, 160, 160)], [(8, 3, 160, 160)],
    ]  # fmt: skip
    assert shapes(torch.zeros(2, 3, 32, 32)) == [[(2, 2, 32, 32)]]


def test_what_has_one_length_is_cut_together_and_masks_stay_causal() -> None:
    tokens, mask = torch.zeros(2, 256), torch.ones(256, 256).tril()
    first = next(iter(shrunk_variants(((tokens, mask), {}))))
    short, causal = first.arguments[0]
    assert short.shape == (2, 64)
    assert torch.equal(causal, torch.ones(64, 64).tril())


ROWS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        if {condition}:
            return self.fc(x) + 1
        return self.fc(x)
"""


def of_rows(tmp_path: Path, condition: str):
    first, second = tmp_path / "net.py", tmp_path / "net_flodl.py"
    first.write_text(ROWS.format(condition="False"), encoding="utf-8")
    second.write_text(ROWS.format(condition=condition), encoding="utf-8")
    examples = ("Net(): torch.randn(20, 4)",)
    return examine_files(first, second, ("Net",), workdir=tmp_path / "work", examples=examples)[
        "Net"
    ]


@pytest.mark.parametrize(
    "condition",
    [
        "len(x) == 20 and self.training",
        "len(x) == 20 and not self.training",
        "len(x) == 4 and not self.training",
        "len(x) == 4 and self.training",
    ],
)
def test_large_model_is_compared_on_few_rows_and_on_all(condition, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(probe, "LARGE_S", -1.0)
    assert of_rows(tmp_path, condition)["status"] == "different"


def test_small_model_is_not_compared_on_few_rows(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(probe, "LARGE_S", 1e6)
    assert of_rows(tmp_path, "len(x) == 4")["status"] == "equal"


@pytest.mark.parametrize(("rows", "wanted"), [(8, []), (9, [4]), (100, [4])])
def test_short_batches_have_four_rows_of_more_than_eight(rows, wanted) -> None:
    x, mask = torch.randn(rows, 3, 5), torch.ones(rows, 5)
    found = [variant.arguments[0] for variant in short_batches(((x, mask), {}))]
    assert [[len(each) for each in arguments] for arguments in found] == [[n, n] for n in wanted]
