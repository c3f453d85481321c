"""Small convolutions as products: the same numbers as the kernels of torch, in every geometry."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from flodl.nn.optimizers import SGD
from flodl.step import convolutions
from flodl.step.binding import Binding
from flodl.step.convolutions import Geometry, convolution, convolution_backward, lowered
from flodl.step.program import record
from flodl.step.recipe import Recipe
from flodl.step.step import make_step

pytestmark = pytest.mark.torch
aten = torch.ops.aten


@st.composite
def cases(draw):
    """An input, weights and a geometry for which torch has a result."""
    ways = draw(st.integers(1, 2))
    each = st.lists(st.integers(1, 4), min_size=ways, max_size=ways)
    kernel, stride = draw(each), draw(each)
    padding = [draw(st.integers(0, k)) for k in kernel]
    size = [draw(st.integers(k, k + 5)) for k in kernel]
    transposed = draw(st.booleans())
    extra = [draw(st.integers(0, s - 1)) if transposed else 0 for s in stride]
    batch, into, out = (draw(st.integers(1, 3)) for _ in range(3))
    if transposed:
        ends = zip(size, stride, padding, kernel, extra, strict=True)
        # At least one place has to be left of what is cut off at both ends.
        size = [max(h, -(-(1 + 2 * p - k - e) // s) + 1) for h, s, p, k, e in ends]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 99)))
    shape = [into, out] if transposed else [out, into]
    x = torch.randn(batch, into, *size, generator=generator)
    weight = torch.randn(*shape, *kernel, generator=generator)
    bias = torch.randn(out, generator=generator) if draw(st.booleans()) else None
    return x, weight, bias, (stride, padding, [1] * ways, transposed, extra, 1)


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(cases())
def test_products_equal_the_kernels(case):
    x, weight, bias, how = case
    expected = aten.convolution(x, weight, bias, *how)
    found = convolution(x, weight, bias, *how)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert found.stride() == expected.stride() or 1 in found.shape
    gradient = torch.randn_like(expected)
    out = weight.shape[1] if how[3] else weight.shape[0]
    every = (gradient, x, weight, [out], *how, [True, True, True])
    for ours, theirs in zip(
        convolution_backward(*every), aten.convolution_backward(*every), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_only_wanted_gradients_are_made():
    x, weight = torch.randn(2, 3, 5, 5), torch.randn(4, 3, 3, 3)
    how = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    gradient = torch.randn(2, 4, 5, 5)
    found = convolution_backward(gradient, x, weight, [4], *how, [False, True, False])
    assert found[0] is None
    assert found[2] is None
    assert found[1].shape == weight.shape


@pytest.mark.parametrize(
    ("x", "weight", "how"),
    [
        ((64, 32, 32, 32), (32, 32, 3, 3), ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)),
        ((4, 16, 16, 16), (32, 16, 4, 4), ([2, 2], [1, 1], [1, 1], False, [0, 0], 1)),
        ((2, 4, 8, 8), (4, 2, 3, 3), ([1, 1], [1, 1], [1, 1], False, [0, 0], 2)),
        ((2, 4, 8, 8), (4, 4, 3, 3), ([1, 1], [1, 1], [2, 2], False, [0, 0], 1)),
        ((0, 4, 8, 8), (4, 4, 3, 3), ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)),
    ],
)
def test_what_is_large_grouped_dilated_or_empty_keeps_its_kernel(x, weight, how):
    x, weight = torch.randn(x), torch.randn(weight)
    assert not Geometry(*how).is_small(x, weight, Geometry(*how).size(x, weight))
    assert convolution(x, weight, None, *how) is NotImplemented


def test_other_memory_formats_and_devices_keep_their_kernels():
    x = torch.randn(2, 4, 8, 8).to(memory_format=torch.channels_last)
    how = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    assert convolution(x, torch.randn(4, 4, 3, 3), None, *how) is NotImplemented
    assert lowered(torch.device("cuda")) == {}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.down = nn.Conv2d(3, 4, 4, 2, 1)
        self.norm = nn.BatchNorm2d(4)
        self.up = nn.ConvTranspose2d(4, 3, 4, 2, 1)

    def forward(self, x):
        hidden = self.norm(self.down(x)).relu()
        # A view of the result: it has to be as contiguous as the kernel's.
        return self.up(hidden).view(x.shape[0], -1).tanh()


def squares(model, x):
    return (model(x) - x.flatten(1)).square().mean()


def test_a_recorded_step_has_products_in_place_of_small_convolutions(monkeypatch):
    model, x = Net(), torch.randn(2, 3, 8, 8)
    optimizer = SGD(model, 0.1)
    make_step(model, optimizer, squares, mode="eager")(x)
    recipe = Recipe(model=model, optimizer=optimizer, train_fn=squares)
    binding = Binding(recipe)
    code = record(recipe, binding.layout, x).graph.code
    assert "convolution" not in code
    assert code.count("aten.mm.default") == 5  # the batch needs no gradient
    monkeypatch.setattr(convolutions, "_MOST_OPERATIONS_STRIDED", 0)
    code = record(recipe, binding.layout, x).graph.code
    assert code.count("aten.convolution.default") == 2
    assert code.count("aten.convolution_backward.default") == 2
