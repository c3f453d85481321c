"""The configuration of a run: typed, frozen, read from files, changed by `KEY=VALUE` words."""

import dataclasses
import itertools
import json
import tomllib
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

DEFAULT = Path(__file__).resolve().parents[2] / "configs" / "default.toml"
STORED = "project.json"
LOGGERS = ("monitor", "tensorboard", "wandb", "none")


class ConfigError(Exception):
    """A key or a value is wrong; the message names the keys that exist."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The synthetic data set, and how it is fed to the model."""

    samples: int = 2048
    features: int = 16
    classes: int = 4
    batch_size: int = 64
    workers: int = 0
    noise: float = 1.6


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The size of the network."""

    width: int = 64
    blocks: int = 3
    dropout: float = 0.1
{%- if with_hf %}
    pretrained: str = ""
{%- endif %}


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long and how fast it learns."""

    epochs: int = 5
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2
    warmup_epochs: int = 1
    clip_norm: float = 1.0
    accumulate: int = 1
    amp: bool = False
    device: str = "auto"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that a run depends on."""

    name: str = "default"
    seed: int = 0
    output: str = "runs"
    keep_checkpoints: int = 2
    logger: str = "monitor"
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


def load(files: list[Path], overrides: list[str]) -> Config:
    """Read `configs/default.toml` and other files in order, then apply words; later ones win."""
    values: dict[str, Any] = {}
    for path in ([DEFAULT] if DEFAULT.is_file() else []) + files:
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as problem:
            raise ConfigError(f"cannot read {path}: {problem.strerror}") from problem
        except tomllib.TOMLDecodeError as problem:
            raise ConfigError(f"{path}: {problem}") from problem
        _merge(values, found)
    return changed(from_dict(values), overrides)


def changed(config: Config, overrides: list[str]) -> Config:
    """Apply words such as `train.epochs=3`."""
    values = to_dict(config)
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals:
            raise ConfigError(f"`{word}` is not KEY=VALUE, for example `train.epochs=3`")
        _merge(values, _nested(key.split("."), _value(text)))
    return from_dict(values)


def combinations(words: list[str]) -> list[list[str]]:
    """Return the words of each run of a sweep: `seed=1,2` stands for a run with each value."""
    choices = []
    for word in words:
        key, _, text = word.partition("=")
        # A comma in quotes or brackets is a part of one value.
        several = "," in text and _value(text) == text
        choices.append([f"{key}={each}" for each in text.split(",")] if several else [word])
    return [list(each) for each in itertools.product(*choices)]


def with_logger(config: Config) -> Config:
    """Return the configuration, if its logger exists and is installed."""
    name = config.logger
    if name not in LOGGERS:
        raise ConfigError(f"`logger` must be one of {', '.join(LOGGERS)}, not {name!r}")
    if name in ("tensorboard", "wandb") and find_spec(name) is None:
        raise ConfigError(f"logger={name}: it is not installed; `python -m pip install {name}`")
    return config


def store(config: Config, folder: Path) -> None:
    """Keep the configuration of a run in its folder."""
    text = json.dumps(to_dict(config), indent=2) + "\n"
    unfinished = folder / f"{STORED}.tmp"
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(folder / STORED)


def stored(folder: Path) -> Config:
    """Return the configuration of a run."""
    path = folder / STORED
    if not path.is_file():
        raise ConfigError(f"{folder} is not the folder of a run: it has no {STORED}")
    return from_dict(json.loads(path.read_text(encoding="utf-8")))


def from_dict(values: dict[str, Any]) -> Config:
    """Check keys and types, and return the configuration."""
    sections = {"data": DataConfig, "model": ModelConfig, "train": TrainConfig}
    ready = dict(values)
    for name, kind in sections.items():
        if name in ready:
            ready[name] = _build(kind, ready[name], f"{name}.")
    config: Config = _build(Config, ready, "")
    return config


def to_dict(config: Config) -> dict[str, Any]:
    """Return plain values, which `from_dict` reads."""
    return dataclasses.asdict(config)


def words_of(config: Config) -> list[str]:
    """Return every setting as the word that sets it: `train.epochs=5`."""
    words = []
    for key, value in to_dict(config).items():
        for name, plain in value.items() if isinstance(value, dict) else [("", value)]:
            text = plain if isinstance(plain, str) and _value(plain) == plain else json.dumps(plain)
            words.append(f"{key}.{name}={text}" if name else f"{key}={text}")
    return words


def _build(kind: Any, values: Any, prefix: str) -> Any:
    if not isinstance(values, dict):
        raise ConfigError(f"`{prefix.rstrip('.')}` must be a table")
    known: dict[str, Any] = {item.name: item.type for item in dataclasses.fields(kind)}
    for key, value in values.items():
        if key not in known:
            names = ", ".join(f"{prefix}{name}" for name in known)
            raise ConfigError(f"unknown key `{prefix}{key}`; there are: {names}")
        expected = known[key]
        if not dataclasses.is_dataclass(value):
            if expected is float and type(value) is int:
                values = {**values, key: float(value)}
            elif type(value) is not expected:
                raise ConfigError(f"`{prefix}{key}` must be {expected.__name__}, not {value!r}")
    return kind(**values)


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _nested(keys: list[str], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
