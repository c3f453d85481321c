"""Guesses of arguments that are no numbers: lists of sizes, layers, kinds of layers, functions."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping

import torch
from torch import nn

from flodl_verify.inputs.rules.named_modules import modules_beside, named_after

UNKNOWN = object()
# The owner of `fn` or `layer` calls it; one that keeps the size fits anywhere.
_LAYERS = frozenset({
    "fn", "module", "sublayer", "submodule", "sub_layer", "layer", "inner", "wrapped", "net",
    "network", "backbone", "model", "base_model", "core",
})  # fmt: skip
_BLOCKS = frozenset({"block", "block_type", "block_cls", "block_class", "block_fn", "blk"})
_KINDS: Mapping[str, type[nn.Module]] = {
    "norm": nn.BatchNorm2d, "conv": nn.Conv2d, "act": nn.ReLU, "nonlin": nn.ReLU,
    "non_lin": nn.ReLU, "pool": nn.MaxPool2d,
}  # fmt: skip
_LIST = re.compile(r"^(typing\.|collections\.abc\.)?(list|tuple|sequence|iterable|modulelist)\b")
_OF_LISTS = re.compile(r"\w+\[((?:list|tuple|sequence|iterable)\[[^\]]*\])(?:, ?\.\.\.)?\]")
_LENGTH = 4
_COUNTS = re.compile(r"layers|depth|repeat|blocks|num_heads|mult")

Make = Callable[[type], object]


def guess_value(
    made: type, parameter: inspect.Parameter, size: int, make: Make, choice: int = 0
) -> object:
    """Return a value for a constructor argument that is no number, or `UNKNOWN`.

    `make` constructs a module of the program, for an argument that is annotated with its class;
    `choice` is the place of a kind of blocks among those that suit.
    """
    module = module_wanted(made, parameter)
    if module is not None:
        return make(module)
    wanted = _resolved(made, parameter.annotation)
    name = parameter.name.lower()
    text = _text(wanted)
    if name in _BLOCKS and (not text or "type" in text or "block" in text):
        return _block_of(made, choice)
    is_module = wanted is nn.Module
    named = _named(made, name, make) if choice == 0 and (is_module or not text) else UNKNOWN
    if named is not UNKNOWN:
        return named
    if is_module or (name in _LAYERS and not text):
        return nn.Linear(size, size)
    return _by_text(name, text, size)


def module_wanted(made: type, parameter: inspect.Parameter) -> type | None:
    """Return the class of modules that an argument is annotated with, if it is one."""
    wanted = _resolved(made, parameter.annotation)
    if isinstance(wanted, type) and issubclass(wanted, nn.Module) and wanted is not nn.Module:
        return wanted
    return None


def _named(made: type, name: str, make: Make) -> object:
    """Return a module of the class that the argument is called by, or `UNKNOWN`."""
    for kind in named_after(made, name):
        named = make(kind)
        if named is not UNKNOWN:
            return named
    return UNKNOWN


def _by_text(name: str, text: str, size: int) -> object:
    if _LIST.match(text):
        return _list(text, 1 if _COUNTS.search(name) else size)
    if "callable" in text or text.startswith(("type[", "typing.type[")):
        kind = _kind(name)
        if kind is not None and ("module" in text or name.endswith("layer")):
            return kind
        return torch.relu if "callable" in text else kind or nn.Identity
    if text:
        return UNKNOWN
    return _kind(name) or UNKNOWN if name.endswith(("_layer", "_block")) else UNKNOWN


def _block_of(made: type, choice: int) -> object:
    """Return a class of blocks from the module of a network, the simplest first."""
    known = list(modules_beside(made))
    # One that others extend is less likely a block by itself; one that widens is the wanted one.
    leaves = sorted(known, key=lambda kind: any(kind in other.__mro__[1:] for other in known))
    words = ("basicblock", "block", "bottleneck", "unit", "cell", "layer")
    widening = [kind for kind in leaves if isinstance(vars(kind).get("expansion"), int)]
    found = dict.fromkeys(
        kind
        for kinds in (widening, leaves)
        for word in words
        for kind in kinds
        if word in kind.__name__.lower()
    )
    return [*found, UNKNOWN][min(choice, max(len(found) - 1, 0))]


def _resolved(made: type, annotation: object) -> object:
    """Return the value of an annotation, where its text names something in the module."""
    if annotation is inspect.Parameter.empty:
        return None
    if isinstance(annotation, str):
        module = sys.modules.get(made.__module__)
        return getattr(module, annotation.strip("'\""), annotation)
    return annotation


def _text(wanted: object) -> str:
    if wanted is None:
        return ""
    text = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", "")
    if not isinstance(wanted, str) and (not text or "[" in str(wanted)):
        text = str(wanted)
    lowered = text.lower().replace("typing.", "")
    optional = re.fullmatch(r"optional\[(.*)\]", lowered)
    return optional.group(1) if optional else lowered


def _list(text: str, size: int) -> object:
    if "module" in text:
        return [nn.Linear(size, size) for _ in range(2)]
    inner = _OF_LISTS.fullmatch(text)
    if inner is not None:
        nested = [_list(inner[1], size) for _ in range(_LENGTH)]
        return tuple(nested) if text.startswith("tuple") else nested
    item: object = 0.5 if "float" in text else "relu" if "str" in text else size
    fixed = re.fullmatch(r"tuple\[((?:\w+, ?)*\w+)\]", text)
    length = len(fixed.group(1).split(",")) if fixed else _LENGTH
    made = [item] * length
    return tuple(made) if text.startswith("tuple") else made


def _kind(name: str) -> type[nn.Module] | None:
    return next((kind for word, kind in _KINDS.items() if word in name), None)
