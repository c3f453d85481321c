"""What is known of the cost of inputs: which larger ones are not tried any more."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from flodl_verify.inputs.heavy_inputs import Weights
from flodl_verify.inputs.input_search import find_arguments
from flodl_verify.inputs.progress import CallProgress
from flodl_verify.sandbox.attempt import Failure
from flodl_verify.values.recipes import Arguments


def image(side: int) -> Arguments:
    return (torch.empty(1, 1, side, side),), {}


def refused(places: int, text: str = "ValueError: no") -> CallProgress:
    return CallProgress(places=places, steps=places, failure=Failure(text=text, line=None))


def test_time_that_grows_faster_than_the_inputs_leaves_out_the_larger_ones() -> None:
    weights = Weights()
    weights.note(image(16), 0.01, refused(5))
    weights.note(image(64), 3.0, refused(5))
    assert weights.is_too_heavy(image(64))
    assert weights.is_too_heavy(image(224))
    assert not weights.is_too_heavy(image(32))


def test_time_that_grows_with_the_inputs_is_no_reason() -> None:
    weights = Weights()
    weights.note(image(16), 0.2, refused(5))
    weights.note(image(64), 3.2, refused(5))
    assert not weights.is_too_heavy(image(224))


def test_what_came_further_is_worth_its_time() -> None:
    weights = Weights()
    weights.note(image(16), 0.01, refused(5))
    weights.note(image(64), 3.0, refused(6))
    assert not weights.is_too_heavy(image(64))


def test_memory_that_cannot_be_had_leaves_out_the_larger_ones() -> None:
    weights = Weights()
    weights.note(image(16), 0.01, refused(5))
    weights.note(
        image(128), 0.01, refused(3, "RuntimeError: can't allocate memory: 80564191232 bytes")
    )
    assert weights.is_too_heavy(image(128))
    assert not weights.is_too_heavy(image(96))


class Attention(nn.Module):
    """Has memory for small images only, and wants two of them side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)
        self.refused: list[int] = []
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if x.shape[-1] > 28:
            self.refused.append(x.numel())
            raise RuntimeError("can't allocate memory: you tried to allocate 80564191232 bytes")
        y: torch.Tensor = self.conv(x)
        if x.shape[-1] != 2 * x.shape[-2]:
            raise ValueError("too narrow")
        return y


def test_a_search_goes_on_with_what_a_model_can_hold() -> None:
    model = Attention()
    find_arguments(model, Path(__file__), lambda: model.calls > 60)
    assert model.refused
    assert model.refused == sorted(set(model.refused), reverse=True)
