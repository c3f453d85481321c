"""One model under proof: noise that is drawn once, calls that are only tried."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from flodl_verify.sandbox.isolated_import import Place, Side
from flodl_verify.sides.subject import Call, KeptNoise, Subject
from flodl_verify.values.recipes import NO_PROVENANCE, Packed, pack
from flodl_verify.values.snapshot import Freezer

pytestmark = pytest.mark.torch


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([(2,), (3, 4), (30,)])), max_size=20))
def test_kept_noise_is_that_of_its_seed_and_never_more_than_allowed(requests):
    kept = KeptNoise(40)
    for seed, shape in requests:
        generator = torch.Generator().manual_seed(seed)
        wanted = torch.randn(shape, generator=generator, dtype=torch.float64)
        assert torch.equal(kept.noise(seed, shape, torch.float64), wanted)
        assert kept.size <= 40


def test_kept_noise_is_drawn_once_while_there_is_room():
    kept = KeptNoise(40)
    first = kept.noise(1, (30,), torch.float64)
    assert kept.noise(1, (30,), torch.float64) is first
    kept.noise(2, (30,), torch.float64)
    assert kept.noise(1, (30,), torch.float64) is not first


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.modes = []

    def forward(self, x):
        if x.shape[0] > 5:
            raise ValueError("too many rows")
        self.modes.append(self.training)
        return self.fc(x)


def call_of(rows: int, mode: str) -> Call:
    inputs: Packed = pack(((torch.randn(rows, 4),), {}), NO_PROVENANCE, keep_live=True)
    return Call(inputs=inputs, seed=1, mode=mode, backward=True, input_gradients=True)


@pytest.fixture
def subject(tmp_path) -> Subject:
    file = tmp_path / "net.py"
    file.write_text("import torch\n", encoding="utf-8")
    place = Place(name="net", root=tmp_path)
    side = Side("original", file=file, place=place, folders=(tmp_path,), home=file)
    return Subject(side, Net(), Freezer().freeze([], ""))


def test_rehearsed_call_takes_the_backward_pass_and_leaves_no_gradients(subject):
    seen = []
    subject.model.fc.weight.register_hook(lambda gradient: seen.append(gradient.shape))
    subject.rehearse(call_of(3, "train"))
    subject.rehearse(call_of(3, "eval"))
    assert subject.model.modes == [True, False]
    assert seen == [(4, 4)] * 2
    assert all(each.grad is None for each in subject.model.parameters())


def test_rehearsed_call_raises_what_the_model_raises(subject):
    with pytest.raises(ValueError, match="too many rows"):
        subject.rehearse(call_of(6, "train"))
