"""The model is a graph: right shapes, gradients everywhere, the same numbers as plain torch."""

import torch
import torch.nn.functional as F

from {{ package }}.config import Config
from {{ package }}.model import Block, build_model


def test_shapes_and_gradients(config: Config) -> None:
    model = build_model(config)
    scores = model(torch.randn(7, config.data.features))
    assert scores.shape == (7, config.data.classes)
    scores.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


def test_a_block_is_what_it_says() -> None:
    block = Block(8, 0.0).eval()
    x = torch.randn(3, 8)
    expected = x + block.narrow(F.gelu(block.widen(block.norm(x))))
    assert torch.equal(block(x), expected)


def test_weights_come_from_the_seed(config: Config) -> None:
    torch.manual_seed(5)
    first = build_model(config).state_dict()
    torch.manual_seed(5)
    second = build_model(config).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
