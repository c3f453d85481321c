"""Configuration files load, and a wrong key or value is named."""

from pathlib import Path

import pytest

from {{ package }}.config import (
    Config,
    ConfigError,
    from_dict,
    load,
    to_dict,
)

CONFIGS = Path(__file__).parent.parent / "configs"


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.toml")), ids=lambda path: path.stem)
def test_every_file_loads(path: Path) -> None:
    assert load([path], []).name == path.stem


def test_the_default_file_holds_the_defaults() -> None:
    assert load([CONFIGS / "default.toml"], []) == Config()


def test_words_change_values_and_later_ones_win() -> None:
    words = ["train.epochs=9", "train.epochs=2", "train.learning_rate=1", "name=mine"]
    config = load([CONFIGS / "debug.toml"], words)
    assert (config.train.epochs, config.train.learning_rate, config.name) == (2, 1.0, "mine")
    assert config.data.samples == 64


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("train.epoch=3", "train.epochs"),
        ("train=3", "must be a table"),
        ("train.epochs=many", "must be int"),
        ("train.amp=1", "must be bool"),
        ("epochs", "KEY=VALUE"),
    ],
)
def test_mistakes_are_named(word: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load([], [word])


def test_plain_values_and_back() -> None:
    config = load([], ["model.width=32"])
    assert from_dict(to_dict(config)) == config
