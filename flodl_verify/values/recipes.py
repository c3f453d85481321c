"""Values that can be made again on either side: packed on the original, unpacked on any.

Classes and functions of the program are packed by name, so that the port gets its own; modules are
packed by how they were constructed, so that a ported module is built by the port's constructor.
"""

from __future__ import annotations

import copy
import importlib
import io
import marshal
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from types import CellType, FunctionType, ModuleType
from typing import Any, Literal, Protocol, final

import torch
from torch import nn

from flodl_verify.sandbox.blank_memory import BlankMemory
from flodl_verify.sandbox.isolated_import import Side
from flodl_verify.sandbox.own_modules import HIDDEN

Arguments = tuple[tuple[object, ...], dict[str, object]]


@final
class UntransferableError(Exception):
    """Arguments that another process cannot be given."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """Positional and keyword arguments in packed form; `live` holds what cannot be packed."""

    data: bytes
    live: tuple[object, ...] = ()

    def for_another_process(self) -> bytes:
        """Return the packed arguments as bytes.

        Raises:
            UntransferableError: something in them cannot be packed.
        """
        if self.live:
            names = ", ".join(dict.fromkeys(type(item).__name__ for item in self.live))
            raise UntransferableError(f"its arguments hold what cannot be packed: {names}")
        return self.data


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Construction:
    """The recipe of a module.

    `class`: `module.qualname` is called with the packed arguments. `value`: the module-level value
    `qualname` is copied. `expression`: `qualname` is Python, evaluated among the file's globals.
    `double` says that its numbers become doubles then, as by `model.double()`.
    """

    kind: Literal["class", "value", "expression"]
    module: str
    qualname: str
    arguments: Packed
    double: bool = False

    def as_tuple(self) -> tuple[object, ...]:
        """Return the construction as plain values, for another process.

        Raises:
            UntransferableError: an argument cannot be packed.
        """
        arguments = self.arguments.for_another_process()
        return self.kind, self.module, self.qualname, arguments, self.double

    @classmethod
    def of_tuple(cls, values: tuple[Any, ...]) -> Construction:
        """Return the construction that plain values stand for."""
        kind, module, qualname, data, double = values
        arguments = Packed(data=data)
        return cls(kind=kind, module=module, qualname=qualname, arguments=arguments, double=double)

    def build(self, side: Side) -> nn.Module:
        """Make the module on one side, which must be active.

        Raises:
            TypeError: the result is no torch module.
        """
        with BlankMemory():
            result = self._make(side)
        if not isinstance(result, nn.Module):
            raise TypeError(f"`{self.qualname}` makes no torch module but {type(result).__name__}")
        return result.double() if self.double else result

    def _make(self, side: Side) -> object:
        if self.kind == "value":
            return copy.deepcopy(side.lookup(self.module, self.qualname))
        if self.kind == "expression":
            return evaluate(self.qualname, side)
        args, kwargs = unpack(self.arguments, side)
        made = side.lookup(self.module, self.qualname)
        if not callable(made):
            raise TypeError(f"{self.qualname} is not a class")
        return made(*args, **kwargs)


class Provenance(Protocol):
    """Knows how modules that are passed around were constructed."""

    def construction_of(self, module: nn.Module) -> Construction | None:
        """Return the construction of a module of the program, or None for any other."""


@final
class _NoProvenance:
    def construction_of(self, module: nn.Module) -> Construction | None:
        del module
        return None


NO_PROVENANCE: Provenance = _NoProvenance()


def evaluate(expression: str, side: Side) -> object:
    """Evaluate Python among a side's global names; `torch`, `nn` and `F` are always known."""
    names: dict[str, object] = {"torch": torch, "nn": nn, "F": nn.functional}
    names.update(side.namespace())
    return eval(expression, names)


def evaluate_arguments(text: str, side: Side) -> Arguments:
    """Evaluate `1, 2, key=3` to positional and keyword arguments."""
    result: Any = evaluate(f"(lambda *args, **kwargs: (args, kwargs))({text})", side)
    return result[0], result[1]


def replace_tensors(arguments: Arguments, by_id: Mapping[int, torch.Tensor]) -> Arguments:
    """Return the arguments with some tensors exchanged; other objects are shared, not copied."""

    def replace(value: object) -> Any:
        if isinstance(value, torch.Tensor):
            return by_id.get(id(value), value)
        if type(value) is list:
            return [replace(item) for item in value]
        if type(value) is tuple:
            return tuple(replace(item) for item in value)
        if type(value) is dict:
            return {key: replace(item) for key, item in value.items()}
        return value

    args, kwargs = arguments
    return replace(args), replace(kwargs)


def pack(arguments: Arguments, provenance: Provenance, *, keep_live: bool) -> Packed:
    """Pack arguments; the side they belong to must be active.

    Raises:
        pickle.PicklingError: something cannot be packed, and `keep_live` is off.
    """
    buffer = io.BytesIO()
    packer = _Packer(buffer, provenance, keep_live=keep_live)
    packer.dump(arguments)
    return Packed(data=buffer.getvalue(), live=tuple(packer.live))


def unpack(packed: Packed, side: Side) -> Arguments:
    """Make fresh arguments on a side, which must be active."""
    args, kwargs = _Unpacker(io.BytesIO(packed.data), packed.live, side).load()
    return args, kwargs


@final
class _Packer(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, provenance: Provenance, *, keep_live: bool) -> None:
        super().__init__(buffer, protocol=pickle.HIGHEST_PROTOCOL)
        self._provenance = provenance
        self._keep_live = keep_live
        self._keys: dict[int, int] = {}
        self.live: list[object] = []

    def persistent_id(self, value: Any) -> tuple[object, ...] | None:
        if isinstance(value, nn.Module):
            construction = self._provenance.construction_of(value)
            if construction is not None:
                return ("module", self._key(value), construction.as_tuple())
        if isinstance(value, FunctionType) and _is_local(value):
            parts = self._parts_of(value)
            if parts is not None:
                return ("function", self._key(value), *parts)
        if isinstance(value, ModuleType):
            return ("import", value.__name__)
        if isinstance(value, type | FunctionType) and value.__module__ in HIDDEN:
            return ("hidden", value.__module__, value.__qualname__)
        if self._keep_live and _is_unpicklable(value):
            self.live.append(value)
            return ("live", len(self.live) - 1)
        return None

    def reducer_override(self, value: Any) -> Any:
        # A tensor in the middle of a backward graph is packed as the number it holds.
        if isinstance(value, torch.Tensor) and value.grad_fn is not None:
            return (torch.Tensor.requires_grad_, (value.detach().clone(), value.requires_grad))
        return NotImplemented

    def _key(self, value: object) -> int:
        return self._keys.setdefault(id(value), len(self._keys))

    def _parts_of(self, value: FunctionType) -> tuple[object, ...] | None:
        """Return the parts of a local function, or None when they cannot be packed."""
        try:
            parts = _parts_of(value)
            _Packer(io.BytesIO(), self._provenance, keep_live=False).dump(parts)
        except Exception:  # of user code, or because a function captures itself
            return None
        return parts


@final
class _Unpacker(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, live: tuple[object, ...], side: Side) -> None:
        super().__init__(buffer)
        self._live = live
        self._side = side
        self._made: dict[int, object] = {}

    def find_class(self, module: str, name: str) -> Any:
        if self._side.is_local(module):
            return self._side.lookup(module, name)
        return super().find_class(module, name)

    def persistent_load(self, reference: tuple[Any, ...]) -> object:
        kind, first, *rest = reference
        if kind == "live":
            return self._live[first]
        if kind == "import":
            return importlib.import_module(first)
        if kind == "hidden":
            return _named(HIDDEN[first], rest[0])
        if first not in self._made:
            made: object
            if kind == "module":
                made = Construction.of_tuple(rest[0]).build(self._side)
            else:
                made = _function_of(rest, self._side)
            self._made[first] = made
        return self._made[first]


def _named(module: ModuleType, qualname: str) -> object:
    found: object = module
    for part in qualname.split("."):
        found = vars(found)[part]
    return found


def _is_local(value: FunctionType) -> bool:
    return "<lambda>" in value.__qualname__ or "<locals>" in value.__qualname__


def _parts_of(value: FunctionType) -> tuple[object, ...]:
    """Return a local function as its code and what it captures: each side gives it its own globals."""
    cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
    return (
        marshal.dumps(value.__code__), value.__module__, value.__name__, value.__qualname__,
        value.__defaults__, value.__kwdefaults__, cells, value.__dict__,
    )  # fmt: skip


def _function_of(parts: list[Any], side: Side) -> FunctionType:
    code, module, name, qualname, defaults, keyword_defaults, cells, own = parts
    is_main = module in {"__main__", side.name}
    names = side.namespace() if is_main else vars(importlib.import_module(module))
    closure = tuple(CellType(item) for item in cells)
    made = FunctionType(marshal.loads(code), names, name, defaults, closure)
    made.__qualname__, made.__module__, made.__kwdefaults__ = qualname, module, keyword_defaults
    made.__dict__.update(own)
    return made


def _is_unpicklable(value: object) -> bool:
    if isinstance(value, (nn.Module, torch.Tensor, type, *_SIMPLE)):
        return False
    qualname = getattr(value, "__qualname__", "")
    if "<lambda>" in qualname or "<locals>" in qualname:
        return True
    return type(value).__name__ in {"generator", "lock", "Generator", "TextIOWrapper"}


_SIMPLE = (int, float, str, bytes, bool, type(None), list, tuple, dict, Mapping, set, frozenset)
