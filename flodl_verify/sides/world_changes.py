"""Changes of the world between two calls of a model: flags that its forwards read, swapped tensors, a dtype.

A port may hold on to a value that it has read while its flow was traced. Comparing the same calls
again does not show that; a call after a change does.

Worked example.  For

    class Block(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config, self.pre_norm = config, True      # config.scale == 2.0
        def forward(self, x):
            x = x * self.config.scale
            return self.norm(x) if self.pre_norm else x

`changes_of(block)` gives

    Swap(table="_parameters"), DType(torch.float64)
    Flag(module="", path=("config", "scale"), value=3.0)
    Flag(module="", path=("pre_norm",), value=False)

Each one is applied to the original and to the port alike, both are called, and it is taken back.  A
change under which the original raises says nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any, TypeAlias, final

import torch
from torch import nn

# So many flags of one model are changed, those of its outermost modules first.
MOST_FLAGS = 32
# Other texts that one flag may be set to.
MOST_TEXTS = 8
_PLAIN = (bool, int, float, str)
_NEVER = frozenset({"training", "call_super_init", "dump_patches"})
_FOREIGN = ("torch", "builtins", "flodl", "flodl_verify")
_TABLES = frozenset({"_parameters", "_buffers"})
_DTYPES = {
    str(each): each for each in (torch.float64, torch.float32, torch.float16, torch.bfloat16)
}

Undo: TypeAlias = Callable[[], None]


@final
@dataclass(frozen=True, slots=True)
class Flag:
    """Another value of a plain attribute of a module, or of an object that the module holds."""

    module: str
    path: tuple[str, ...]
    value: Any

    def __str__(self) -> str:
        place = ".".join(filter(None, (self.module, *self.path)))
        return f"{place} = {self.value!r}"

    def apply(self, model: nn.Module) -> Undo:
        """Set the attribute; return a function that sets it back.

        Raises:
            AttributeError: this model has no such attribute.
        """
        owner: Any = model.get_submodule(self.module)
        *holders, name = self.path
        for each in holders:
            owner = getattr(owner, each)
        before = getattr(owner, name)
        setattr(owner, name, self.value)
        return lambda: setattr(owner, name, before)


@final
@dataclass(frozen=True, slots=True)
class Swap:
    """Other tensors in the place of all parameters or buffers of a model, not written into them."""

    table: str

    def __str__(self) -> str:
        return f"other {self.table.removeprefix('_')}"

    def apply(self, model: nn.Module) -> Undo:
        """Put new tensors into the tables of all modules; return a function that puts the old ones back."""
        before: list[tuple[dict[str, Any], str, torch.Tensor]] = []
        made: dict[int, torch.Tensor] = {}
        for module in model.modules():
            table = vars(module)[self.table]
            for name, tensor in table.items():
                if tensor is not None:
                    before.append((table, name, tensor))
                    table[name] = made.setdefault(id(tensor), _other(tensor))
        return lambda: _put_back(before)


@final
@dataclass(frozen=True, slots=True)
class DType:
    """Another floating point type of all parameters and buffers."""

    dtype: torch.dtype

    def __str__(self) -> str:
        return f"model.to({self.dtype})"

    def apply(self, model: nn.Module) -> Undo:
        """Convert the model; return a function that restores its tensors."""
        before = [
            (table, name, tensor)
            for module in model.modules()
            for table in (module._parameters, module._buffers)
            for name, tensor in table.items()
            if tensor is not None
        ]
        data = [tensor.data for _, _, tensor in before]
        model.to(self.dtype)

        def undo() -> None:
            for (_, _, tensor), each in zip(before, data, strict=True):
                tensor.data = each
            _put_back(before)

        return undo


Change: TypeAlias = Flag | Swap | DType


def as_fields(change: Change) -> dict[str, Any]:
    """Return a change as plain values, for another process."""
    match change:
        case Flag(module, path, value):
            return {"kind": "flag", "module": module, "path": list(path), "value": value}
        case Swap(table):
            return {"kind": "swap", "table": table}
        case DType(dtype):
            return {"kind": "dtype", "dtype": str(dtype)}


def of_fields(fields: dict[str, Any]) -> Change:
    """Return the change that plain values stand for.

    Raises:
        KeyError, TypeError, ValueError: they stand for none.
    """
    match fields["kind"]:
        case "flag":
            path = tuple(_text(each) for each in fields["path"])
            value = fields["value"]
            if type(value) not in _PLAIN or not path:
                raise TypeError(f"a flag cannot be set to a {type(value).__name__}")
            return Flag(_text(fields["module"]), path, value)
        case "swap" if fields["table"] in _TABLES:
            return Swap(fields["table"])
        case "dtype" if fields["dtype"] in _DTYPES:
            return DType(_DTYPES[fields["dtype"]])
    raise ValueError(f"no change is of this kind: {fields['kind']}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a name cannot be a {type(value).__name__}")
    return value


def changes_of(model: nn.Module) -> tuple[Change, ...]:
    """Return the changes to try on a model, the likeliest faults first."""
    swaps: list[Change] = []
    if any(True for _ in model.buffers()):
        swaps.append(Swap("_buffers"))
    if any(True for _ in model.parameters()):
        swaps.append(Swap("_parameters"))
    flags = list(_flags(model))[:MOST_FLAGS]
    floats = any(each.is_floating_point() for each in (*model.parameters(), *model.buffers()))
    return (*swaps, *((DType(torch.float64),) if floats else ()), *flags)


def _flags(model: nn.Module) -> Iterator[Flag]:
    seen: set[tuple[int, str]] = set()
    for path, module in model.named_modules():
        kind = type(module)
        if _is_foreign(kind):
            continue
        words, texts = _words_of(kind)
        for names, owner, value in _settings(module, words):
            key = (id(owner), names[-1])
            if key in seen:
                continue  # one configuration that all modules share
            seen.add(key)
            for other in _others(value, texts):
                yield Flag(path, names, other)


def _settings(
    module: nn.Module, words: frozenset[str]
) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the plain attributes that the class mentions: their path, their owner, their value."""
    for name, value in list(vars(module).items()):
        if name in _NEVER or name not in words:
            continue
        if type(value) in _PLAIN:
            yield (name,), module, value
        elif not isinstance(value, (nn.Module, torch.Tensor)) and not _is_foreign(type(value)):
            inside = getattr(value, "__dict__", {})
            for inner in sorted(words):
                if inner in inside or isinstance(getattr(type(value), inner, None), property):
                    found = _read(value, inner)
                    if type(found) in _PLAIN:
                        yield (name, inner), value, found


def _read(owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except Exception:  # a property of the user's may raise anything
        return None


def _others(value: Any, texts: frozenset[str]) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int):
        return (value + 1, value - 1)
    if isinstance(value, float):
        return (value + 1.0,)
    # A text is compared with other texts of the same code: `if self.mode == "sum"`.
    return tuple(sorted(each for each in texts if each.isidentifier() and each != value))[
        :MOST_TEXTS
    ]


def _words_of(kind: type) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names and the texts in the methods of a class, its constructor left out."""
    found: set[str] = set()
    texts: set[str] = set()
    for above in kind.__mro__:
        if _is_foreign(above):
            continue
        for name, value in vars(above).items():
            function = value.fget if isinstance(value, property) else value
            function = getattr(function, "__func__", function)
            if isinstance(function, FunctionType) and name not in ("__init__", "__new__"):
                _collect(function.__code__, found, texts, function.__doc__)
    return frozenset(found | texts), frozenset(texts)


def _collect(code: CodeType, names: set[str], texts: set[str], doc: str | None) -> None:
    names.update(code.co_names)
    for const in code.co_consts:
        if isinstance(const, str) and const != doc:
            texts.add(const)
        elif isinstance(const, (tuple, frozenset)):
            texts.update(each for each in const if isinstance(each, str))
        elif isinstance(const, CodeType):
            _collect(const, names, texts, doc)


def _is_foreign(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in _FOREIGN


def _other(tensor: torch.Tensor) -> torch.Tensor:
    """Return another tensor of the same kind, with other numbers where numbers may differ."""
    made = tensor.detach().clone()
    if made.is_floating_point():
        made = made.mul(1.25).add(0.125)
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(made, requires_grad=tensor.requires_grad)
    return made


def _put_back(before: list[tuple[dict[str, Any], str, torch.Tensor]]) -> None:
    for table, name, tensor in before:
        table[name] = tensor
