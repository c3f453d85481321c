"""Smaller sizes for models with large defaults: the comparison is about the code, not the size."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, final

from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy

from flodl_verify.inputs.rules.asked_arguments import own_parameters
from flodl_verify.sandbox.attempt import attempt

# From this on, building and three steps take longer than all other checks of a small model.
_HEAVY_PARAMETERS = 10_000_000
_LARGE = 256
# Heads and groups still divide what is left.
_PARTS = 16
FEW = 2
_HEADS = re.compile(r"head(s|_num|_count)?$|^n_?heads?$", re.IGNORECASE)
_WIDTH_OF_HEAD = 8
REPEATED = re.compile(
    r"depth|(n|num|number)_?(of_)?\w*(layers?|blocks?|stages?)|layers|repeats?(_num)?|\w+_(depth|layers)"
)


def lighter_defaults(made: type, given: Mapping[str, object]) -> dict[str, object]:
    """Return smaller values for the defaults of a class that makes a large model of them.

    A sixteenth of a large size, two of many layers; nothing if the model is not large.
    """
    defaults = {
        item.name: item.default
        for item in own_parameters(made)
        if item.name not in given and type(item.default) is int
    }
    less = smaller_settings({**given, **defaults})
    smaller = {name: less[name] for name, default in defaults.items() if less[name] != default}
    return smaller if smaller and _is_heavy(made, given) else {}


def smaller_settings(values: Mapping[str, object]) -> dict[str, object]:
    """Return values with a sixteenth of large sizes, which heads still divide, and two of many layers.

    Example:
        >>> smaller_settings({"hidden_size": 1152, "num_heads": 16, "depth": 28, "rate": 0.1})
        {'hidden_size': 128, 'num_heads': 16, 'depth': 2, 'rate': 0.1}
    """
    heads = [value for name, value in values.items() if type(value) is int and _HEADS.search(name)]
    return {
        name: _divided(value, smaller_setting(name, value), heads)
        for name, value in values.items()
    }


def _divided(size: Any, less: Any, heads: Sequence[int]) -> Any:
    """Return a smaller size as a multiple of the heads that divide the size."""
    if type(less) is not int or less == size or less <= FEW:
        return less
    for each in heads:
        if each > 1 and size % each == 0 and less % each:
            return each * math.gcd(size // each, _WIDTH_OF_HEAD)
    return less


def smaller_setting(name: str, value: Any) -> Any:
    """Return a sixteenth of a large size, two of many layers, any other value as it is."""
    if type(value) is not int:
        return value
    if value >= _LARGE and value % _PARTS == 0:
        return value // _PARTS
    return FEW if value > FEW and REPEATED.fullmatch(name.lower()) else value


def _is_heavy(made: type, given: Mapping[str, object]) -> bool:
    """Construct until there are too many parameters; most models are small, and done soon."""
    count = 0

    def note(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal count
        del module, name
        count += 0 if parameter is None or is_lazy(parameter) else parameter.numel()
        if count > _HEAVY_PARAMETERS:
            raise _TooLargeError

    watching = register_module_parameter_registration_hook(note)
    try:
        attempt(partial(made, **given))
    finally:
        watching.remove()
    return count > _HEAVY_PARAMETERS


@final
class _TooLargeError(Exception):
    """There are enough parameters to know."""
