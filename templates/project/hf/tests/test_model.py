"""The model: right shapes, gradients everywhere, no look at padding, weights from the seed."""

import torch

from {{ package }}.config import Config
from {{ package }}.data import PADDING, make_loader
from {{ package }}.model import build_model


def test_shapes_and_gradients(config: Config) -> None:
    model = build_model(config)
    tokens, mask, labels = next(iter(make_loader(config.data, 3, "train")))
    scores = model(tokens, mask)
    assert scores.shape == (len(labels), config.data.classes)
    scores.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


def test_padding_does_not_count(config: Config) -> None:
    model = build_model(config).eval()
    tokens, mask, _ = next(iter(make_loader(config.data, 3, "train")))
    assert (mask == 0).any()
    other = tokens.masked_fill(tokens == PADDING, 7)
    torch.testing.assert_close(model(other, mask), model(tokens, mask))


def test_weights_come_from_the_seed(config: Config) -> None:
    torch.manual_seed(5)
    first = build_model(config).state_dict()
    torch.manual_seed(5)
    second = build_model(config).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
