"""Configuration files load, and a wrong key or value is named."""

from pathlib import Path

import pytest

from {{ package }} import config as module
from {{ package }}.config import (
    Config,
    ConfigError,
    changed,
    combinations,
    from_dict,
    load,
    store,
    stored,
    to_dict,
    words_of,
)

CONFIGS = Path(__file__).parent.parent / "configs"


@pytest.fixture
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another default file, so that these tests pass whatever the project's contains."""
    path = tmp_path / "default.toml"
    monkeypatch.setattr(module, "DEFAULT", path)
    return path


@pytest.mark.parametrize("path", sorted(CONFIGS.rglob("*.toml")), ids=lambda path: path.stem)
def test_every_file_loads(path: Path) -> None:
    assert isinstance(load([path], []), Config)


def test_every_run_begins_with_the_default_file(default: Path) -> None:
    assert load([], []) == Config()
    default.write_text("seed = 41\n[train]\nepochs = 9\n")
    assert load([], []) == changed(Config(), ["seed=41", "train.epochs=9"])
    assert load([], ["seed=1"]).seed == 1


def test_the_default_file_is_the_one_of_the_project() -> None:
    assert CONFIGS.resolve() / "default.toml" == module.DEFAULT


@pytest.mark.usefixtures("default")
def test_words_change_values_and_later_ones_win(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text("[data]\nsamples = 64\n[train]\nepochs = 1\n")
    words = ["train.epochs=9", "train.epochs=2", "train.learning_rate=1", "name=mine"]
    config = load([path], words)
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


def test_words_with_commas_are_a_run_for_each_combination() -> None:
    assert combinations([]) == [[]]
    assert combinations(["seed=1", "name=a b"]) == [["seed=1", "name=a b"]]
    assert combinations(["seed=1,2", "x=3", "name=a,b"]) == [
        [seed, "x=3", name] for seed in ("seed=1", "seed=2") for name in ("name=a", "name=b")
    ]
    assert combinations(['name="a,b"', "sizes=[1, 2]"]) == [['name="a,b"', "sizes=[1, 2]"]]


def test_plain_values_and_back() -> None:
    config = changed(Config(), ["model.width=32"])
    assert from_dict(to_dict(config)) == config


def test_the_words_of_a_configuration_make_it_again() -> None:
    config = changed(Config(), ["seed=7", "train.amp=true", "train.learning_rate=1e-5", "name=a b"])
    assert "name=a b" in words_of(config)
    for each in (config, Config(name="7"), Config(name='"')):
        assert changed(Config(), words_of(each)) == each


def test_a_run_keeps_its_configuration(tmp_path: Path) -> None:
    config = changed(Config(), ["model.width=32"])
    with pytest.raises(ConfigError, match="not the folder of a run"):
        stored(tmp_path)
    store(config, tmp_path)
    assert stored(tmp_path) == config
