"""The model: right shapes, gradients everywhere, padding is not seen, weights of seed or folder."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import BertConfig, BertModel

from {{ package }}.config import Config, ConfigError
from {{ package }}.data import PADDING, VOCABULARY, make_loader
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


def with_encoder(config: Config, name: str) -> Config:
    return replace(config, model=replace(config.model, pretrained=name))


def test_published_weights_are_those_of_their_folder(config: Config, tmp_path: Path) -> None:
    shape = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    encoder = BertModel(BertConfig(vocab_size=VOCABULARY, intermediate_size=16, **shape))
    encoder.save_pretrained(tmp_path)
    model = build_model(with_encoder(config, str(tmp_path)))
    found = model.encoder.state_dict()
    assert all(torch.equal(each, found[name]) for name, each in encoder.state_dict().items())
    tokens, mask, labels = next(iter(make_loader(config.data, 3, "train")))
    assert model(tokens, mask).shape == (len(labels), config.data.classes)


def test_published_weights_that_are_missing_are_refused_by_name(
    config: Config, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"model\.pretrained: .*nowhere"):
        build_model(with_encoder(config, str(tmp_path / "nowhere")))
