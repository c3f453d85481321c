"""Models that say by an assertion or a raise which arguments they take."""

from __future__ import annotations

from pathlib import Path

import pytest

from flodl_verify.inputs.case_finder import CaseFinder
from tests.flodl_verify.opened import opened

pytestmark = pytest.mark.torch

MODELS = """
import torch
from torch import nn


class Equal(nn.Module):
    def __init__(self, configs):
        super().__init__()
        assert configs.first_part == configs.second_part + 1, "they must fit"
        self.fc = nn.Linear(configs.first_part, configs.second_part)

    def forward(self, x):
        return self.fc(x)


class Product(nn.Module):
    def __init__(self, model_dim, head_dim, num_heads):
        super().__init__()
        assert num_heads * head_dim == model_dim, "num_heads * head_dim must equal model_dim"
        self.fc = nn.Linear(model_dim, head_dim)

    def forward(self, x):
        return self.fc(x)


class Divided(nn.Module):
    def __init__(self, width, parts=6):
        super().__init__()
        self.width = width
        if self.width % parts:
            raise ValueError("cannot be divided")
        self.fc = nn.Linear(width, width // parts)

    def forward(self, x):
        return self.fc(x)


class Longer(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        if after <= before:
            raise ValueError(
                "too short"
            )
        self.fc = nn.Linear(before, after - before)

    def forward(self, x):
        return self.fc(x)


class Chosen(nn.Module):
    def __init__(self, configs):
        super().__init__()
        self.task = configs.task
        self.fc = nn.Linear(configs.width, 2)

    def forward(self, x):
        if self.task == "first" or self.task == "second":
            raise NotImplementedError(
                "not for this"
            )
        if self.task == "third":
            raise NotImplementedError("nor for this")
        if self.task == "fourth":
            return self.fc(x)
        return None


class Listed(nn.Module):
    def __init__(self, kind, width):
        super().__init__()
        modes = ("no", "good")
        if kind not in ("best", "second"):
            raise ValueError(kind)
        self.fc = nn.Linear(width, {"best": 3}[kind])

    def forward(self, x):
        return self.fc(x)


class Placed(nn.Module):
    def __init__(self, width, device):
        super().__init__()
        self.at = device.type
        self.fc = nn.Linear(width, width, device=device)

    def forward(self, x):
        return self.fc(x)


class Around(nn.Module):
    def __init__(self, loss_function):
        super().__init__()
        self.inner = loss_function
        self.reduction = loss_function.reduction
        self.inner.reduction = "none"

    def forward(self, given, wanted):
        return self.inner(given, wanted).mean()


class Otherwise(nn.Module):
    def __init__(self, configs):
        super().__init__()
        if configs.task == "old":
            self.fc = nn.Linear(configs.width, 2)
        elif configs.task == "new":
            self.fc = nn.Linear(configs.width, 3)
        else:
            raise ValueError(f"{configs.task} is not valid")

    def forward(self, x):
        return self.fc(x)


class Never(nn.Module):
    def __init__(self, width):
        super().__init__()
        assert width == width + 1
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return self.fc(x)
"""


@pytest.mark.parametrize(
    "name",
    ["Equal", "Product", "Divided", "Longer", "Chosen", "Listed", "Placed", "Around", "Otherwise"],
)
def test_what_a_condition_wants_is_given(tmp_path: Path, name: str) -> None:
    book = CaseFinder(opened(tmp_path, MODELS), (name,), budget_s=30.0)
    book.add_guesses()
    assert not book.missing, book.reasons


def test_what_cannot_hold_is_said(tmp_path: Path) -> None:
    book = CaseFinder(opened(tmp_path, MODELS), ("Never",), budget_s=10.0)
    book.add_guesses()
    assert book.missing == ("Never",)
    assert "AssertionError" in book.reasons["Never"]
