"""Rotary positions and gated feed-forwards equal the formulations in use, alone and in flows."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Flow, FlowBuilder, FlowModule, MultiheadAttention, RotaryEmbedding, SwiGLU

pytestmark = pytest.mark.torch


def llama(x, positions, dim, base):
    """As LLaMA in transformers writes it: `rotate_half` and tables of angles."""
    inverse = 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).float() / dim))
    angles = positions[:, None].float() @ inverse[None, :]
    table = torch.cat((angles, angles), dim=-1)
    cos, sin = table.cos().to(x.dtype), table.sin().to(x.dtype)
    first, second = x[..., : dim // 2], x[..., dim // 2 :]
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def complex_numbers(x, positions, dim, base):
    """As the first code of LLaMA writes it: neighbours are the parts of complex numbers."""
    inverse = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
    turns = torch.polar(
        torch.ones(len(positions), dim // 2), torch.outer(positions.float(), inverse)
    )
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).type_as(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_rotary_equals_rotate_half_to_the_bit(dtype, base):
    x = torch.randn(2, 3, 17, 8, dtype=dtype)
    expected = llama(x, torch.arange(17), 8, base)
    assert torch.equal(RotaryEmbedding(8, base=base)(x), expected)


def test_rotary_interleaved_equals_complex_numbers():
    x = torch.randn(2, 3, 17, 8)
    expected = complex_numbers(x, torch.arange(17), 8, 10000.0)
    torch.testing.assert_close(RotaryEmbedding(8, interleaved=True)(x), expected)


@pytest.mark.parametrize("interleaved", [False, True])
def test_rotary_scores_depend_on_the_distance_alone(interleaved):
    rotary = RotaryEmbedding(16, interleaved=interleaved)
    q, k = torch.randn(1, 16).expand(12, 16), torch.randn(1, 16).expand(12, 16)
    scores = rotary(q) @ rotary(k).T
    for distance in range(-11, 12):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert not torch.allclose(scores[0, 0], scores[0, 1])


def test_rotary_rotates_the_first_features_and_leaves_the_others():
    x = torch.randn(2, 5, 12)
    rotated = RotaryEmbedding(8)(x)
    assert torch.equal(rotated[..., :8], RotaryEmbedding(8)(x[..., :8]))
    assert torch.equal(rotated[..., 8:], x[..., 8:])


def test_rotary_positions_go_on_after_a_cache():
    rotary = RotaryEmbedding(8)
    x = torch.randn(2, 3, 9, 8)
    assert torch.equal(rotary(x[:, :, 5:], torch.arange(5, 9)), rotary(x)[:, :, 5:])
    each = torch.stack((torch.arange(9), torch.arange(9) + 4))
    both = rotary(x, each)
    assert torch.equal(both[0], rotary(x[0]))
    assert torch.equal(both[1], rotary(x[1], each[1]))


def test_rotary_has_no_state_that_a_cast_could_spoil():
    rotary = RotaryEmbedding(64)
    x = torch.randn(1, 2000, 64, dtype=torch.bfloat16)
    assert rotary.state_dict() == {}
    assert torch.equal(copy.deepcopy(rotary).to(torch.bfloat16)(x), rotary(x))


def test_rotary_sizes_that_do_not_fit_are_refused():
    for dim in (0, 3, -2):
        with pytest.raises(ValueError, match=f"dim must be even, got {dim}"):
            RotaryEmbedding(dim)
    with pytest.raises(ValueError, match=r"got an input of shape \(2, 3, 4\)"):
        RotaryEmbedding(6)(torch.ones(2, 3, 4))


@pytest.mark.parametrize("bias", [False, True])
def test_swiglu_equals_its_formula_to_the_bit(bias):
    layer = SwiGLU(6, 10, 4, bias=bias)
    x = torch.randn(3, 5, 6)
    expected = layer.down(F.silu(layer.gate(x)) * layer.up(x))
    assert torch.equal(layer(x), expected)
    assert expected.shape == (3, 5, 4)
    assert len(list(layer.parameters())) == (6 if bias else 3)


@pytest.mark.parametrize(("features", "hidden"), [(48, 128), (768, 2048), (10, 32)])
def test_swiglu_hidden_size_keeps_the_number_of_parameters(features, hidden):
    assert SwiGLU(features).up.out_features == hidden


class Plain(nn.Module):
    """A block of attention as people write it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.qkv = nn.Linear(32, 96, bias=False)
        self.rotary = RotaryEmbedding(8)
        self.out = nn.Linear(32, 32)
        self.feed = SwiGLU(32)

    def forward(self, x):
        batch, length, _ = x.shape
        heads = self.qkv(self.norm(x)).view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind(0)
        y = F.scaled_dot_product_attention(self.rotary(q), self.rotary(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, 32))
        return x + self.feed(x)


class Ported(FlowModule):
    """The same block as a flow."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.qkv = nn.Linear(32, 96, bias=False)
        self.rotary = RotaryEmbedding(8)
        self.out = nn.Linear(32, 32)
        self.feed = SwiGLU(32)

    def flow(self, x: Flow) -> Flow:
        batch, length, _ = x.shape
        heads = x.through(
            self.norm,
        ).through(self.qkv)
        q, k, v = heads.view(batch, length, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = q.through(self.rotary), k.through(self.rotary)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + y.transpose(1, 2).reshape(batch, length, 32).through(self.out)
        return x.also(self.feed)


def test_block_with_rotary_attention_is_the_same_as_a_flow():
    torch.manual_seed(0)
    plain, ported = Plain(), Ported()
    ported.load_state_dict(plain.state_dict())
    x = torch.randn(2, 7, 32)
    expected, found = plain(x), ported(x)
    assert torch.equal(found, expected)
    assert "scaled_dot_product_attention" in ported.code
    gradients = [
        torch.autograd.grad(y.sum(), list(m.parameters()))
        for y, m in ((expected, plain), (found, ported))
    ]
    assert all(map(torch.equal, *gradients))


def test_builder_gives_rotary_its_positions_by_name():
    graph = FlowBuilder.from_(RotaryEmbedding(8)).input("positions").using("positions").build()
    x, positions = torch.randn(2, 5, 8), torch.arange(3, 8)
    assert torch.equal(graph(x, positions), RotaryEmbedding(8)(x, positions))


def test_multihead_attention_goes_through_scaled_dot_product_attention(monkeypatch):
    called = []
    attend = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *a, **k: called.append(1) or attend(*a, **k)
    )
    layer = MultiheadAttention(16, 4)
    layer(torch.randn(2, 5, 16))
    assert called
