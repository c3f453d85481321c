"""Guesses of the settings object (`config`, `args`, `hparams`) that a constructor takes."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import keyword
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from torch import nn

from flodl_verify.inputs.rules.settings_classes import SettingsMemory, own_settings
from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.sources.class_sources import class_node, constructor_node, module_node
from flodl_verify.sources.written_settings import Settings

NAMES = frozenset({
    "args", "cfg", "conf", "config", "configs", "configuration", "hp", "hparams", "hps",
    "model_args", "model_config", "opt", "options", "opts", "params", "settings",
})  # fmt: skip
_DEFAULT = re.compile(r"default_?(config|settings|args|options|params|hparams)$")
# Attributes of a module or a tensor, not of settings.
_OF_MODULES = frozenset(
    {*dir(nn.Module), "shape", "size", "dim", "ndim", "dtype", "device", "numel"}
)
# Whole numbers up to this are kept as a data class has them: they are counts, not sizes.
_SMALL = 8
_LARGE = 256
_PARTS = 16

Guess = Callable[[str], object]
Declared = Callable[[frozenset[str]], Sequence[dict[str, object]]]


def guess_settings(
    made: type,
    parameter: inspect.Parameter,
    guess: Guess,
    declared: Declared,
    memory: SettingsMemory | None = None,
) -> Iterator[object]:
    """Yield possible settings for one parameter, if it looks like settings.

    `declared` returns the values that command lines and files of the program give to names, the likeliest
    first.
    """
    kind = _data_class(made, parameter)
    if kind is not None:
        yield from _filled(kind, guess)
    if parameter.name.lower() in NAMES:
        names = _names_read(made)
        yield from own_settings(made, parameter, names, memory)
        yield from _made_by_default(made, guess)
        yield from _declared(names, guess, declared)
        if names:
            yield Settings({name: guess(name) for name in sorted(names)})
    else:
        yield from settings_declared(made, parameter, guess, declared)


def settings_declared(
    made: type, parameter: inspect.Parameter, guess: Guess, declared: Declared
) -> Iterator[object]:
    """Yield the settings for a parameter that the program declares, if it looks like settings."""
    is_named = parameter.name.lower() in NAMES
    names = _names_read(made) if is_named else settings_read(made, parameter)
    constructor = constructor_node(made)
    if not names and constructor is not None and _keys_read(constructor, parameter.name):
        names = _keys_read(module_node(made), parameter.name)
    yield from _declared(names, guess, declared)


def _declared(names: frozenset[str], guess: Guess, declared: Declared) -> Iterator[object]:
    """Yield settings with the values that the program declares, a small version of them first."""
    for known in declared(names) if names else ():
        missing = (name for name in sorted(names - known.keys()) if name.isidentifier())
        values = {
            **known,
            **{name: guess(name) for name in missing if not keyword.iskeyword(name)},
        }
        small = {name: _smaller(value) for name, value in values.items()}
        for found in (small, values) if small != values else (values,):
            # Options of a command line are read by attribute, values of a file also by key.
            yield Settings(found) if isinstance(known, Settings) else Namespace(**found)


def settings_read(made: type, parameter: inspect.Parameter) -> frozenset[str]:
    """Return the names that a constructor reads from one parameter, if that makes it settings."""
    if parameter.name.lower() in NAMES:
        return frozenset()
    constructor = constructor_node(made)
    own = _attributes_read(constructor, parameter.name) if constructor is not None else None
    if not own or own & _OF_MODULES:
        return frozenset()
    # An argument that is passed on has the same name in other functions of the file.
    everywhere = _attributes_read(module_node(made), parameter.name)
    return everywhere if len(everywhere) > 1 and not everywhere & _OF_MODULES else frozenset()


def _made_by_default(made: type, guess: Guess) -> Iterator[object]:
    """Yield the result of `get_default_config()` of the class or its module, without its gaps.

    A text in it may stand for a choice among ready sets of values: then the values are enough.
    """
    module = sys.modules.get(made.__module__)
    places = (made, module) if module is not None else (made,)
    makers = [
        getattr(place, name) for place in places for name in dir(place) if _DEFAULT.search(name)
    ]
    for maker in makers:
        for with_texts in (True, False):
            settings = attempt(maker)
            values = None if isinstance(settings, Failure) else _fields(settings)
            if values is None:
                break
            for name, value in values.items():
                if value is None:
                    values[name] = guess(name)
                elif isinstance(value, str) and not with_texts:
                    values[name] = None
            yield settings


def _fields(settings: object) -> dict[str, Any] | None:
    try:
        return vars(settings)
    except TypeError:
        return None


def _data_class(made: type, parameter: inspect.Parameter) -> type | None:
    """Return the data class that a parameter is annotated with, or the only one that suits."""
    module = vars(sys.modules.get(made.__module__)) if made.__module__ in sys.modules else {}
    wanted = parameter.annotation
    if isinstance(wanted, str):
        wanted = module.get(wanted.strip("'\""))
    if isinstance(wanted, type) and dataclasses.is_dataclass(wanted):
        return wanted
    if parameter.name.lower() not in NAMES:
        return None
    found = [
        value
        for value in module.values()
        if isinstance(value, type) and dataclasses.is_dataclass(value)
    ]
    read = _names_read(made)
    suits = [item for item in found if read & {field.name for field in dataclasses.fields(item)}]
    return suits[0] if len(suits) == 1 else None


def _filled(kind: type, guess: Guess) -> Iterator[object]:
    """Yield a small version of a data class, then what it is by itself."""
    small: dict[str, object] = {}
    for field in dataclasses.fields(kind):
        default = field.default
        whole = isinstance(default, int) and not isinstance(default, bool)
        missing = default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if (missing or (whole and default > _SMALL)) and field.init:  # type: ignore[operator]
            small[field.name] = guess(field.name)
    for values in (small, {}):
        made = attempt(partial(kind, **values))
        if not isinstance(made, Failure):
            yield made


def _smaller(value: object) -> object:
    """Return a sixteenth of a large size: one that heads and groups still divide."""
    if type(value) is int and value >= _LARGE and value % _PARTS == 0:
        return value // _PARTS
    return value


@functools.lru_cache(maxsize=256)
def _attributes_read(tree: ast.AST, owner: str) -> frozenset[str]:
    """Return the attributes that code reads from what it calls `owner`, or stores under another name."""
    stored = {
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
        for target in node.targets
        if node.value.id == owner and isinstance(target, ast.Attribute)
    }
    return frozenset(
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name | ast.Attribute)
        and ast.unparse(node.value) in {owner, *stored}
    )


@functools.lru_cache(maxsize=256)
def _keys_read(tree: ast.AST, owner: str) -> frozenset[str]:
    """Return the texts by which code reads from what it calls `owner`: `owner["width"]`."""
    return frozenset(
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == owner
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    )


def _names_read(made: type) -> frozenset[str]:
    """Return the names that constructors of the module read from settings."""
    module = sys.modules.get(made.__module__)
    values = (made, *vars(module).values()) if module is not None else (made,)
    return frozenset().union(
        *(
            _names_read_by(value)
            for value in values
            if isinstance(value, type) and value.__module__ == made.__module__
        )
    )


@functools.lru_cache(maxsize=512)  # every class of a file is searched for each of them
def _names_read_by(kind: type) -> frozenset[str]:
    found: set[str] = set()
    tree = class_node(kind)
    for node in ast.walk(tree) if tree is not None else ():
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in NAMES:
                found.add(name)
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id="self"), attr=owner), attr=name
            ) if owner in NAMES:
                found.add(name)
            case ast.Subscript(value=ast.Name(id=owner), slice=ast.Constant(value=str(name))):
                if owner in NAMES:
                    found.add(name)
            case _:
                pass
    return frozenset(name for name in found if not name.startswith("__"))
