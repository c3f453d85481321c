"""Settings that a program has a class for: `BertConfig()`, made small."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from functools import partial

from torch import nn

from flodl.verify.attempt import Failure, attempt
from flodl.verify.lighter_sizes import smaller_setting

_ENDINGS = ("Config", "Configuration", "Settings", "HParams", "Options")


def own_settings(
    made: type, parameter: inspect.Parameter, read: frozenset[str]
) -> Iterator[object]:
    """Yield small settings of the class that the parameter, the model or its module names for them.

    `read` are the names that the module reads from settings: one of several classes in it must have half
    of them, and be the only one.
    """
    for kind in dict.fromkeys(_kinds(made, parameter, read)):
        settings = attempt(kind)
        if isinstance(settings, Failure):
            continue
        taken = _parameters(kind)
        values = {
            name: smaller_setting(name, value)
            for name, value in _values(settings).items()
            if name in taken and smaller_setting(name, value) != value
        }
        small = attempt(partial(kind, **values))
        if not isinstance(small, Failure):
            yield small


def _kinds(made: type, parameter: inspect.Parameter, read: frozenset[str]) -> Iterator[type]:
    module = vars(sys.modules.get(made.__module__)) if made.__module__ in sys.modules else {}
    wanted = parameter.annotation
    if isinstance(wanted, str):
        wanted = module.get(wanted.strip("'\""))
    # transformers keeps the class of a model's settings in an attribute of the model's class.
    for kind in (wanted, inspect.getattr_static(made, "config_class", None)):
        if _is_settings(kind):
            yield kind
    suits = [
        value
        for value in module.values()
        if _is_settings(value)
        and value.__name__.endswith(_ENDINGS)
        and 2 * len(read & _values(attempt(value)).keys()) >= len(read)
    ]
    if len(suits) == 1:
        yield suits[0]


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


def _values(settings: object) -> dict[str, object]:
    found = attempt(partial(vars, settings))
    return {} if isinstance(found, Failure) or isinstance(settings, Failure) else dict(found)
