"""Finite differences of every differentiable operation, written as flodl programs write it."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck

import flodl.nn.modules as nn
from flodl import FlowModule
from flodl.ops import (
    add_scalar,
    cat_many,
    div_scalar,
    max_dim,
    mean_dim,
    min_dim,
    mul_scalar,
    pad_mode,
    pow_scalar,
    prod_dim,
    std_dim,
    sum_dim,
    unsqueeze_many,
    var_dim,
)

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
]

MASK = torch.tensor([[True, False, True, False]])
INDEX = torch.tensor([2, 0, 1])
# Away from the kinks and jumps of rounding, clamping and the like.
ELEMENTWISE = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a / (b * b + 1), "Matmul": lambda a, b: a @ b.T,
    "MulScalar": lambda a, b: mul_scalar(a, 3.0), "AddScalar": lambda a, b: add_scalar(a, 3.0),
    "DivScalar": lambda a, b: div_scalar(a, 3.0), "Neg": lambda a, b: -a,
    "ReLU": lambda a, b: nn.ReLU()(a), "Sigmoid": lambda a, b: nn.Sigmoid()(a),
    "Tanh": lambda a, b: nn.Tanh()(a), "GELU": lambda a, b: nn.GELU()(a),
    "SiLU": lambda a, b: nn.SiLU()(a),
    "LeakyReLU": lambda a, b: nn.LeakyReLU()(a), "ELU": lambda a, b: nn.ELU()(a),
    "Softplus": lambda a, b: nn.Softplus(2.0, 20.0)(a), "Mish": lambda a, b: nn.Mish()(a),
    "SELU": lambda a, b: nn.SELU()(a), "Hardswish": lambda a, b: nn.Hardswish()(a),
    "Hardsigmoid": lambda a, b: nn.Hardsigmoid()(a), "PReLU": lambda a, b: F.prelu(a, b[0, :1]),
    "Softmax": lambda a, b: nn.Softmax(-1)(a), "LogSoftmax": lambda a, b: nn.LogSoftmax(-1)(a),
    "Exp": lambda a, b: a.exp(), "Log": lambda a, b: (a * a + 1).log(),
    "Sqrt": lambda a, b: (a * a + 1).sqrt(),
    "Abs": lambda a, b: a.abs(), "Pow": lambda a, b: pow_scalar(a, 3.0), "Sin": lambda a, b: a.sin(),
    "Cos": lambda a, b: a.cos(), "Sign": lambda a, b: a.sign() + a, "Floor": lambda a, b: a.floor() + a,
    "Ceil": lambda a, b: a.ceil() + a, "Round": lambda a, b: a.round() + a,
    "Reciprocal": lambda a, b: (a * a + 1).reciprocal(), "Clamp": lambda a, b: a.clamp(-0.55, 0.55),
    "ClampMin": lambda a, b: a.clamp_min(0.05), "ClampMax": lambda a, b: a.clamp_max(0.05),
    "Log1p": lambda a, b: (a * a).log1p(), "Expm1": lambda a, b: a.expm1(),
    "Log2": lambda a, b: (a * a + 1).log2(), "Log10": lambda a, b: (a * a + 1).log10(),
    "Atan2": lambda a, b: a.atan2(b * b + 1), "Maximum": lambda a, b: a.maximum(b),
    "Minimum": lambda a, b: a.minimum(b), "MaskedFill": lambda a, b: a.masked_fill(MASK, 2.0),
    "Normalize": lambda a, b: F.normalize(a), "CosineSimilarity": F.cosine_similarity,
    "Triu": lambda a, b: a.triu(), "Tril": lambda a, b: a.tril(),
}  # fmt: skip
REDUCTIONS_AND_SHAPES = {
    "Sum": lambda a, b: a.sum(), "SumDim": lambda a, b: sum_dim(a, 1), "Mean": lambda a, b: a.mean(),
    "MeanDim": lambda a, b: mean_dim(a, 0, True), "Var": lambda a, b: a.var(),
    "Std": lambda a, b: a.std(),
    "VarDim": lambda a, b: var_dim(a, 1), "StdDim": lambda a, b: std_dim(a, 1),
    "Min": lambda a, b: a.min(),
    "Max": lambda a, b: a.max(), "MinDim": lambda a, b: min_dim(a, 1),
    "MaxDim": lambda a, b: max_dim(a, 1),
    "Prod": lambda a, b: a.prod(), "ProdDim": lambda a, b: prod_dim(a, 1),
    "Cumsum": lambda a, b: a.cumsum(1),
    "Logsumexp": lambda a, b: a.logsumexp(1), "Reshape": lambda a, b: a.reshape(4, 3) ** 2,
    "Transpose": lambda a, b: a.transpose(0, 1) ** 2, "Permute": lambda a, b: a.permute(1, 0) ** 2,
    "Squeeze": lambda a, b: a[:, :1].squeeze(1) ** 2, "Unsqueeze": lambda a, b: a.unsqueeze(1) ** 2,
    "UnsqueezeMany": lambda a, b: unsqueeze_many(a, [0, 2]) ** 2,
    "Flatten": lambda a, b: a.flatten() ** 2,
    "Expand": lambda a, b: a[:1].expand(5, 4) ** 2, "Select": lambda a, b: a.select(1, 2) ** 2,
    "Narrow": lambda a, b: a.narrow(1, 1, 2) ** 2, "Cat": lambda a, b: torch.cat([a, b], 1) ** 2,
    "CatMany": lambda a, b: cat_many([a, b, a]) ** 2, "Stack": lambda a, b: torch.stack([a, b]) ** 2,
    "Chunk": lambda a, b: a.chunk(2, 1)[1] ** 2, "Repeat": lambda a, b: a.repeat(2, 1) ** 2,
    "Pad": lambda a, b: pad_mode(a, [1, 2], "constant", 3.0) ** 2,
    "IndexSelect": lambda a, b: a.index_select(0, INDEX) ** 2,
    "Gather": lambda a, b: a.gather(1, INDEX.unsqueeze(1)) ** 2, "TopK": lambda a, b: a.topk(2).values,
    "Sort": lambda a, b: a.sort().values ** 2,
}  # fmt: skip
GRID = torch.tensor(
    [[[[-0.53, 0.21], [0.37, -0.44]], [[0.11, 0.72], [-0.83, 0.05]]]], dtype=torch.float64
)
# Image [1, 4, 4, 4], weights drawn from a second tensor.
LAYERS = {
    "Conv1d": lambda x, w: F.conv1d(x[0], w[:2, :, 0, :2]),
    "Conv2d": lambda x, w: F.conv2d(x, w, padding=1),
    "Conv3d": lambda x, w: F.conv3d(x.unsqueeze(0), w[:1, :1, :2, :2].unsqueeze(0)),
    "ConvTranspose1d": lambda x, w: F.conv_transpose1d(x[0], w[:, :2, 0, :2]),
    "ConvTranspose2d": lambda x, w: F.conv_transpose2d(x, w[:, :2]),
    "ConvTranspose3d": lambda x, w: F.conv_transpose3d(x.unsqueeze(0), w[:1, :1, :2, :2].unsqueeze(0)),
    "MaxPool2d": lambda x, w: nn.MaxPool2d(2)(x), "AvgPool2d": lambda x, w: nn.AvgPool2d(2)(x),
    "MaxPool1d": lambda x, w: nn.MaxPool1d(2)(x[0]), "AvgPool1d": lambda x, w: nn.AvgPool1d(2)(x[0]),
    "AdaptiveAvgPool2d": lambda x, w: nn.AdaptiveAvgPool2d(3)(x),
    "AdaptiveMaxPool2d": lambda x, w: nn.AdaptiveMaxPool2d(3)(x),
    "InstanceNorm": lambda x, w: nn.InstanceNorm(4)(x),
    "GroupNorm": lambda x, w: F.group_norm(x, 2, w[0, :, 0, 0]),
    "LayerNorm": lambda x, w: F.layer_norm(x, (4,), w[0, :, 0, 0]),
    "GridSample": lambda x, w: F.grid_sample(x, GRID, align_corners=False),
    "PixelShuffle": lambda x, w: nn.PixelShuffle(2)(x),
    "PixelUnshuffle": lambda x, w: nn.PixelUnshuffle(2)(x),
    "Bilinear": lambda x, w: F.bilinear(x[0, 0], x[0, 1], w[..., 0]),
    "EmbeddingBag": lambda x, w: F.embedding_bag(INDEX.view(1, -1), x[0, 0], mode="mean"),
    "Im2col": lambda x, w: nn.Unfold(2)(x), "Col2im": lambda x, w: nn.Fold((3, 3), 2)(x.view(1, 16, 4)),
}  # fmt: skip
INPUTS = {
    **dict.fromkeys(ELEMENTWISE | REDUCTIONS_AND_SHAPES, ((3, 4), (3, 4))),
    **dict.fromkeys(LAYERS, ((1, 4, 4, 4), (4, 4, 4, 4))),
}
OPERATIONS = ELEMENTWISE | REDUCTIONS_AND_SHAPES | LAYERS


def inputs(name):
    """Return values that are at least 0.02 apart and away from zero and from halves."""
    generator = torch.Generator().manual_seed(len(name))
    found = []
    for shape in INPUTS[name]:
        count = torch.Size(shape).numel()
        order = torch.randperm(count, generator=generator).double()
        values = (order - count / 2 + 0.31) * (1.9 / count) + 0.007 * len(found)
        found.append(values.reshape(shape).requires_grad_())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_gradients_match_finite_differences(name):
    assert gradcheck(OPERATIONS[name], inputs(name), eps=1e-7, atol=1e-4)


class Described(FlowModule):
    def __init__(self, operation):
        super().__init__()
        self.operation = operation

    def flow(self, a, b):
        return self.operation(a, b)


@pytest.mark.parametrize("name", OPERATIONS)
def test_in_a_flow_values_and_gradients_are_the_same(name):
    a, b = inputs(name)
    flow = Described(OPERATIONS[name])
    direct = OPERATIONS[name](a, b)
    (wanted,) = torch.autograd.grad(direct.sum(), a)
    flow(a, b)
    value = flow(a, b)  # the first call records, this one runs what was generated
    (got,) = torch.autograd.grad(value.sum(), a)
    assert torch.equal(value, direct)
    assert torch.equal(got, wanted)


def test_the_list_is_the_documented_one():
    assert len(OPERATIONS) == len(ELEMENTWISE) + len(REDUCTIONS_AND_SHAPES) + len(LAYERS) == 109


# torch's parser reads a Flow in these places as if it were a tensor in memory.
WITH_A_NUMBER = {
    "pow": lambda a, b: torch.pow(a, 3.0),
    "where": lambda a, b: torch.where(a > 0, a, 0.0),
    "where by name": lambda a, b: torch.where(condition=a > 0, input=a, other=b),
    "remainder": lambda a, b: torch.remainder(a, 2.0),
    "float_power": lambda a, b: torch.float_power(a, 2),
    "xlogy": lambda a, b: torch.xlogy(a, 2.0),
    "isin": lambda a, b: torch.isin(a, 2.0),
    "xlog1py": lambda a, b: torch.special.xlog1py(a, 2.0),
    "zeta": lambda a, b: torch.special.zeta(a * a + 2, 2.0),
    "shift": lambda a, b: torch.bitwise_left_shift(a.long(), 2),
    "mask": lambda a, b: torch.bitwise_and(a > 0, b > 0),
}


@pytest.mark.parametrize("name", WITH_A_NUMBER)
def test_a_number_beside_a_flow(name):
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(3, 4, generator=generator) for _ in range(2))
    flow = Described(WITH_A_NUMBER[name])
    expected = WITH_A_NUMBER[name](a, b)
    for _ in range(2):
        torch.testing.assert_close(flow(a, b), expected, equal_nan=True, rtol=0, atol=0)
