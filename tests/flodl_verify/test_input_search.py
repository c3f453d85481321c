"""Inputs that no layer tells are searched by what the model says about those it refused."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from flodl_verify.inputs.input_search import find_arguments
from flodl_verify.inputs.progress import reach_of
from flodl_verify.inputs.rules.said_inputs import said_shapes
from flodl_verify.sandbox.attempt import Failure
from flodl_verify.values.input_slots import Slot
from tests.flodl_verify import asserting
from tests.flodl_verify.asserting import Mixer

HERE = Path(asserting.__file__)

pytestmark = pytest.mark.torch


class Forecast(nn.Module):
    """Sequences whose channels stand last, with marks of the time beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Conv1d(5, 12, 3, padding=1, padding_mode="circular")
        self.marks = nn.Linear(4, 12)
        self.along_time = nn.Linear(24, 10)
        self.head = nn.Linear(12, 5)

    def forward(self, x_enc, x_mark_enc, x_dec, x_mark_dec, mask=None):
        mean = x_enc.mean(1, keepdim=True)
        h = self.tokens((x_enc - mean).permute(0, 2, 1)).transpose(1, 2) + self.marks(x_mark_enc)
        h = self.along_time(h.permute(0, 2, 1)).permute(0, 2, 1)
        return self.head(h) + mean + x_dec[:, -10:, :] * x_mark_dec[:, -10:, :1]


class Patches(nn.Module):
    """A sequence of patches, and how many of them make up the height and the width."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)

    def forward(self, x, height, width):
        batch, _, channels = x.shape
        grid = self.norm(x).transpose(1, 2).view(batch, channels, height, width)
        return x + self.depthwise(grid).flatten(2).transpose(1, 2)


class Positions(nn.Module):
    """As many positions as the parameter has, and channels that are split into heads."""

    def __init__(self) -> None:
        super().__init__()
        self.at = nn.Parameter(torch.randn(50, 1, 24))

    def forward(self, x):
        b, c, h, w = x.shape
        rows = x.reshape(b, c, h * w).permute(2, 0, 1)
        rows = torch.cat([rows.mean(0, keepdim=True), rows]) + self.at
        return rows.view(50, b, 3, 8).softmax(-1)


class Edges(nn.Module):
    """A graph: features of nodes, and pairs of node numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.own = nn.Linear(6, 9)
        self.other = nn.Linear(6, 9)

    def forward(self, x, edge_index):
        source, target = edge_index
        gathered = torch.zeros_like(x).index_add(0, target, x[source])
        return functional.relu(self.own(x) + self.other(gathered))


class Attention(nn.Module):
    """A decoder's step, which looks back at what the encoder said."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 10)
        self.score = nn.Linear(10 + 14, 1)
        self.cell = nn.GRUCell(10 + 14, 14)

    def forward(self, token, hidden, memory):
        word = self.embedding(token)
        seen = torch.cat([word.unsqueeze(1).expand(-1, memory.size(1), -1), memory], dim=2)
        weights = self.score(seen).softmax(1)
        return self.cell(torch.cat([word, (weights * memory).sum(1)], dim=1), hidden)


class Pixels(nn.Module):
    """Pictures of one side only, which a linear layer behind the convolutions knows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(9, 8, 3, stride=2)
        self.then = nn.Conv2d(8, 8, 3)
        self.head = nn.Linear(8 * 39 * 39, 5)

    def forward(self, x):
        x = functional.relu(self.then(functional.relu(self.first(x / 255))))
        return self.head(x.reshape(len(x), -1))


class Skip(nn.Module):
    """A picture is enlarged, joined to a larger one, and to one of other channels."""

    def __init__(self) -> None:
        super().__init__()
        self.above = nn.Conv2d(9, 6, 3, padding=1)
        self.beside = nn.Conv2d(5, 6, 1)

    def forward(self, x, skip, further):
        wide = functional.interpolate(self.above(x), scale_factor=2.0)
        joined = wide + self.beside(skip)
        return torch.cat([functional.interpolate(joined, scale_factor=2.0), further], dim=1)


class Pyramid(nn.Module):
    """A decoder of feature maps, each half as large as the one before."""

    def __init__(self, channels) -> None:
        super().__init__()
        self.sides = nn.ModuleList(nn.Conv2d(count, 4, 1) for count in channels)

    def forward(self, features: list[torch.Tensor]):
        found = self.sides[-1](features[-1])
        for side, feature in list(zip(self.sides, features, strict=True))[-2::-1]:
            found = functional.interpolate(found, scale_factor=2.0) + side(feature)
        return found


class Merged(nn.Module):
    """Several maps of one size, one after another."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 3, 1)

    def forward(self, *features):
        first, second, third = features
        return self.conv(torch.stack([first, second, third]).sum(0))


class Reversed(nn.Module):
    """Nothing but what is done with it says that this is a list."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, parts):
        parts = parts.copy()
        parts.reverse()
        return sum(self.fc(part) for part in parts)


class Keyword(nn.Module):
    """An argument that has to be given by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.time = nn.Linear(8, 3)

    def forward(self, x, *, times):
        return self.fc(x) + self.time(times)


class Conditioned(nn.Module):
    """A label is spread over a picture: both together have the channels of the first layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 16, 7, padding=3)

    def forward(self, x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        label = label.view(label.size(0), label.size(1), 1, 1)
        return self.conv(torch.cat([x, label.repeat(1, 1, x.size(2), x.size(3))], dim=1))


class Around(nn.Module):
    """What is called on the values is given with them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(12)

    def forward(self, x: torch.Tensor, sublayer: nn.Module) -> torch.Tensor:
        return x + sublayer.forward(self.norm(x))


class Frozen(nn.Module):
    """Only a part of it is to be trained, says a method of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.other = nn.Linear(12, 5), nn.Linear(5, 3)

    def parameters(self) -> Any:
        return self.other.parameters()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.other(self.fc(x))


class Likelihood(nn.Module):
    """The logarithm of what is below zero is no number."""

    def forward(self, p: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
        return (p.log() * size + torch.log1p(-p)).sum()


class Targets(nn.Module):
    """The target of a loss is as large as what it is compared with."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(6, 9, 1)

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return nn.functional.binary_cross_entropy_with_logits(self.conv(x).reshape(-1, 1), gate)


class Shifted(nn.Module):
    """An image, and a vector of features that no name tells of, for each of its channels."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, 24)
        self.shift = nn.Linear(40, 24)

    def forward(self, x: torch.Tensor, emb: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        x += self.shift(torch.relu(emb))[:, :, None, None]
        return x


class Strict(nn.Module):
    """Nothing is good enough."""

    def forward(self, x, y):
        raise ValueError("never")


class Ahead(nn.Module):
    """Marks beside both parts of a sequence, which have as many features as nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.values = nn.Linear(1, 8)
        self.marks = nn.Linear(4, 8)

    def forward(self, x_enc, x_mark_enc, x_dec, x_mark_dec):
        x = torch.cat([x_enc, x_dec[:, -2:]], dim=1)
        marks = torch.cat([x_mark_enc, x_mark_dec[:, -2:]], dim=1)
        return self.values(x) + self.marks(marks)


class Hidden(nn.Module):
    """A mask that is needed though it is optional, and that must leave something."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(6, 6)

    def forward(self, x, attention_mask=None):
        mask = attention_mask
        scores = torch.bmm(self.query(x), x.transpose(1, 2))
        scores = scores.masked_fill(mask.unsqueeze(0).bool(), -torch.inf)
        return scores.softmax(-1) @ x


class Calendar(nn.Module):
    """Marks beside both parts of a sequence, of which it makes whole numbers: month and hour."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Conv1d(5, 12, 3, padding=1)
        self.month, self.hour = nn.Embedding(13, 12), nn.Embedding(24, 12)

    def embedded(self, x, mark):
        mark = mark.long()
        times = self.month(mark[:, :, 0]) + self.hour(mark[:, :, 1])
        return self.tokens(x.permute(0, 2, 1)).transpose(1, 2) + times

    def forward(self, x_enc, x_mark_enc, x_dec, x_mark_dec):
        memory = self.embedded(x_enc, x_mark_enc)
        return self.embedded(x_dec, x_mark_dec) @ memory.transpose(1, 2)


MODELS = (
    Ahead, Calendar, Hidden, Forecast, Patches, Positions, Edges, Attention, Pixels, Skip, Keyword,
    Conditioned, Around, Frozen, Likelihood, Targets, Shifted,
)  # fmt: skip


@pytest.mark.parametrize("made", MODELS, ids=lambda made: made.__name__)
def test_inputs_are_found(made: type[nn.Module]) -> None:
    torch.manual_seed(0)
    model = made()
    deadline = time.monotonic() + 60
    found = find_arguments(model, Path(__file__), lambda: time.monotonic() > deadline)
    assert isinstance(found, tuple), found
    args, kwargs = found
    result = model(*args, **kwargs)
    assert isinstance(result, torch.Tensor)
    assert not result.isnan().all()


@pytest.mark.parametrize(
    ("made", "given"), [(Pyramid, ((3, 5, 7),)), (Merged, ()), (Reversed, ())]
)
def test_lists_of_inputs_are_found(made: type[nn.Module], given: tuple[object, ...]) -> None:
    torch.manual_seed(0)
    model = made(*given)
    deadline = time.monotonic() + 60
    found = find_arguments(model, Path(__file__), lambda: time.monotonic() > deadline, (given, {}))
    assert isinstance(found, tuple), found
    args, kwargs = found
    assert isinstance(model(*args, **kwargs), torch.Tensor)


def test_one_tensor_is_given_where_it_must_be_one() -> None:
    found = find_arguments(Mixer(), HERE, lambda: False)
    assert isinstance(found, tuple), found
    query, key, value = found[0]
    assert query is key
    assert key is value


def test_an_assertion_without_a_message_is_said_by_its_line() -> None:
    x = torch.zeros(2, 6)
    failure = reach_of(lambda: Mixer()(x, x + 1, x), HERE).failure
    assert failure is not None
    assert failure.text.startswith("AssertionError: assert query is key and key is value")


def test_what_the_likeliest_inputs_met_is_said() -> None:
    deadline = time.monotonic() + 60
    found = find_arguments(Strict(), Path(__file__), lambda: time.monotonic() > deadline)
    assert isinstance(found, Failure)
    assert "never" in found.text


def test_a_call_that_comes_further_reaches_more() -> None:
    model = Positions()
    near = reach_of(lambda: model(torch.randn(2, 3)), Path(__file__))
    far = reach_of(lambda: model(torch.randn(2, 24, 6, 6)), Path(__file__))
    done = reach_of(lambda: model(torch.randn(2, 24, 7, 7)), Path(__file__))
    assert near.progress < far.progress < done.progress
    assert near.failure is not None
    assert done.failure is None


@pytest.mark.parametrize(
    ("text", "shapes", "wanted"),
    [
        ("shape '[2, 5, 1, 1]' is invalid for input of size 90",
         [(2, 5, 3, 3), (2, 5, 3, 3)], [(2, 5, 3, 3), (2, 5)]),
        ("expected input[2, 12, 3, 3] to have 8 channels, but got 12 channels",
         [(2, 9, 3, 3), (2, 3)], [(2, 5, 3, 3), (2, 3)]),
        ("expected input[2, 32, 7, 7] to have 8 channels, but got 32 channels",
         [(2, 16, 7, 7), (2, 16)], [(2, 4, 7, 7), (2, 4)]),
        ("mat1 and mat2 shapes cannot be multiplied (2x13 and 10x4)",
         [(2, 7), (2, 6)], [(2, 4), (2, 6)]),
        ("target size (torch.size([2])) must be the same as input size (torch.size([2, 3]))",
         [(2, 5), (2,)], [(2, 5), (2, 3)]),
    ],
)  # fmt: skip
def test_what_a_message_says_of_shapes(text, shapes, wanted) -> None:
    state = tuple(Slot("float", shape) for shape in shapes)
    assert wanted in [[slot.shape for slot in found] for found in said_shapes(state, text)]
