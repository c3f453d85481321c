"""Settings that a program has a class for: `BertConfig()`, made small."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any, Protocol, final, runtime_checkable

from torch import nn

from flodl_verify.inputs.rules.lighter_sizes import smaller_setting
from flodl_verify.inputs.rules.tiny_settings import self_contained, tiny_values
from flodl_verify.sandbox.attempt import Failure, attempt

_ENDINGS = ("Config", "Configuration", "Settings", "HParams", "Options")
# Of several classes in a module that have the names which a constructor reads.
_MAX_KINDS = 3
# Settings inside of settings, as of a text and an image model in one.
_MAX_DEPTH = 3


@final
class SettingsMemory:
    """The recipes of settings that a model was made of: all classes of a file mostly share one.

    A recipe is what a class of settings is called with. The one that fitted first is tried first for
    the next model, before those that are as small.
    """

    def __init__(self) -> None:
        self._made: list[tuple[object, type, int]] = []
        self._fitting: dict[type, int] = {}

    def ordered(self, kind: type, count: int) -> list[int]:
        """Return the numbers of the recipes of a class, in the order to try them."""
        first = self._fitting.get(kind)
        return sorted(range(count), key=lambda number: number != first)

    def note_made(self, settings: object, kind: type, number: int) -> None:
        """Keep which recipe some settings are made by."""
        self._made.append((settings, kind, number))

    def note_fitting(self, arguments: Mapping[str, object]) -> None:
        """Keep that a model took some arguments, and ran."""
        for value in arguments.values():
            for settings, kind, number in self._made:
                if settings is value:
                    self._fitting.setdefault(kind, number)


def own_settings(
    made: type,
    parameter: inspect.Parameter,
    read: frozenset[str],
    memory: SettingsMemory | None = None,
) -> Iterator[object]:
    """Yield small settings of the class that the parameter, the model or its module names for them.

    `read` are the names that the module reads from settings: a class that is only in the module must
    have half of them.
    """
    memory = SettingsMemory() if memory is None else memory
    for kind in dict.fromkeys(_kinds(made, parameter, read)):
        recipes = _recipes(kind)
        for number in memory.ordered(kind, len(recipes)):
            # Each model gets its own settings: some constructors write into them.
            settings = attempt(partial(kind, **recipes[number]))
            if not isinstance(settings, Failure):
                attempt(partial(_choose_attention, made, settings))
                memory.note_made(settings, kind, number)
                yield settings


@runtime_checkable
class _Attending(Protocol):
    _attn_implementation: object


def _choose_attention(made: type, settings: object) -> None:
    """Choose how a block attends; a whole model of transformers chooses for its blocks."""
    if not isinstance(settings, _Attending) or settings._attn_implementation is not None:
        return
    if inspect.getattr_static(made, "config_class", None) is None:
        settings._attn_implementation = "eager"


@functools.lru_cache(maxsize=256)
def _recipes(kind: type, depth: int = 0) -> tuple[dict[str, Any], ...]:
    """Return arguments for a class of settings that make it small, the likeliest first."""
    settings = attempt(kind)
    if isinstance(settings, Failure):
        return ()
    alone = self_contained(_values(settings, kind))
    found: list[dict[str, Any]] = []
    for base in (alone, {}) if alone else ({},):
        known = attempt(partial(kind, **base))
        if isinstance(known, Failure):
            continue
        values = _values(known, kind)
        sixteenth = {n: smaller_setting(n, v) for n, v in values.items()}
        less = {n: v for n, v in sixteenth.items() if v != values[n]}
        # Tiny widths may not divide each other as the usual ones do.
        for smaller in (tiny_values(values), tiny_values(values, widths=False), less):
            for inner in _inner(values, depth):
                recipe = {**base, **smaller, **inner}
                works = not isinstance(attempt(partial(kind, **recipe)), Failure)
                if works and recipe not in found:
                    found.append(recipe)
    return tuple(found)


def _inner(values: Mapping[str, object], depth: int) -> Iterator[dict[str, object]]:
    """Yield the settings inside of settings, made small: as they are, then with all of their stages.

    A head on several feature maps needs a backbone that returns as many.
    """
    kinds: dict[str, type] = {
        name: type(value)
        for name, value in values.items()
        if depth < _MAX_DEPTH
        and _is_settings(type(value))
        and type(value).__name__.endswith(_ENDINGS)
    }
    plain: dict[str, object] = {}
    staged: dict[str, object] = {}
    for name, kind in kinds.items():
        recipes = _recipes(kind, depth + 1)
        given = {**_texts_given(values[name], kind), **(recipes[0] if recipes else {})}
        small = attempt(partial(kind, **given))
        stages = small.stage_names if isinstance(small, _Staged) else None
        if not isinstance(small, Failure):
            plain[name] = _as_taken(small)
        if isinstance(stages, list) and "out_features" in _parameters(kind):
            wider = attempt(partial(kind, **{**given, "out_features": stages[1:]}))
            if not isinstance(wider, Failure):
                staged[name] = _as_taken(wider)
    yield plain
    if staged:
        yield {**plain, **staged}


def _texts_given(settings: object, kind: type) -> dict[str, object]:
    """Return the texts, and lists of texts, that some settings were made of: `out_features=["stage4"]`."""
    defaults = _values(attempt(kind), kind)
    return {
        name: value
        for name, value in _values(settings, kind).items()
        if isinstance(value, str | list)
        and all(isinstance(item, str) for item in value)
        and value != defaults.get(name)
    }


@runtime_checkable
class _Tabular(Protocol):
    def to_dict(self) -> object:
        """Return the settings as a table."""


@runtime_checkable
class _Staged(Protocol):
    stage_names: object


def _as_taken(settings: object) -> object:
    """Return settings as those around them take them: transformers wants a table."""
    return settings.to_dict() if isinstance(settings, _Tabular) else settings


def _kinds(made: type, parameter: inspect.Parameter, read: frozenset[str]) -> Iterator[type]:
    module = vars(sys.modules.get(made.__module__)) if made.__module__ in sys.modules else {}
    wanted = parameter.annotation
    if isinstance(wanted, str):
        wanted = _named(wanted, module)
    # transformers keeps the class of a model's settings in an attribute of the model's class.
    own = inspect.getattr_static(made, "config_class", None)
    for kind in (*_alternatives(wanted), own):
        if isinstance(kind, type) and _is_settings(kind):
            yield kind
    known = [
        (kind, len(read & names)) for kind, names in _settings_in(sys.modules.get(made.__module__))
    ]
    known.sort(key=lambda item: -item[1])
    yield from (kind for kind, count in known[:_MAX_KINDS] if 2 * count >= len(read) > 0)


@functools.lru_cache(maxsize=64)
def _settings_in(module: ModuleType | None) -> tuple[tuple[type, frozenset[str]], ...]:
    """Return the classes of settings in a module, and the names that each knows."""
    return tuple(
        (kind, _names_known(kind))
        for kind in ({} if module is None else vars(module)).values()
        if isinstance(kind, type) and _is_settings(kind) and kind.__name__.endswith(_ENDINGS)
    )


def _named(annotation: str, module: Mapping[str, Any]) -> object:
    """Return the class that the text of an annotation names in the module."""
    for text in annotation.strip("'\"").replace("Optional[", "").rstrip("]").split("|"):
        if isinstance(module.get(text.strip()), type):
            return module[text.strip()]
    return None


def _alternatives(annotation: object) -> tuple[object, ...]:
    """Return the classes of a union, or the annotation itself."""
    return typing.get_args(annotation) or (annotation,)


def _is_settings(kind: object) -> bool:
    return (
        isinstance(kind, type)
        and not issubclass(kind, nn.Module)
        and not dataclasses.is_dataclass(kind)
        and kind.__module__ not in {"builtins", "typing"}
        and bool(_parameters(kind))
    )


def _parameters(kind: type) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(kind).parameters)
    except (TypeError, ValueError):
        return frozenset()


def _values(settings: object, kind: type) -> dict[str, object]:
    """Return the values of what a class of settings takes; some are properties of other names."""
    if isinstance(settings, Failure):
        return {}
    found = {name: attempt(partial(getattr, settings, name, None)) for name in _parameters(kind)}
    return {name: value for name, value in found.items() if not isinstance(value, Failure)}


def _names_known(kind: type) -> frozenset[str]:
    settings = attempt(kind)
    if isinstance(settings, Failure):
        return frozenset()
    own = attempt(partial(vars, settings))
    return _parameters(kind) | (frozenset() if isinstance(own, Failure) else own.keys())
