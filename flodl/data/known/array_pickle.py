"""Pickled tables of numbers, read without importing or running anything that the file names.

A batch of CIFAR-10 is a pickle of a dictionary with a NumPy array in it:

    numpy.core.multiarray _reconstruct(numpy.ndarray, (0,), b"b")   <- the file names a function
    BUILD (1, (10000, 3072), dtype("u1"), False, b"...")            <- and gives it a state

`pickle.load` would import and call any name there, so a changed file could run any program. This reader
replaces the five names that arrays need by stand-ins, which only record their arguments. It refuses every
other name, and needs no NumPy.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

import torch

from flodl.errors import DataError

if TYPE_CHECKING:
    from pathlib import Path

_ARRAYS: Final = ("numpy.core.multiarray", "numpy._core.multiarray")
_NUMERIC: Final = ("numpy.core.numeric", "numpy._core.numeric")
# They reach objects in ways that `find_class` does not see, and no array needs them.
_REFUSED_OPCODES: Final = frozenset(
    {"EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "INST", "OBJ", "NEXT_BUFFER"}
)


def read_pickled_table(data: bytes, path: Path) -> dict[str, Any]:
    """Return a pickled dictionary; its arrays of bytes become tensors `uint8`.

    Args:
        data: the pickle.
        path: where it came from, for messages.

    Raises:
        DataError: the pickle names anything but an array, is damaged, or holds no dictionary.
    """
    try:
        _refuse_opcodes(data)
        value = _ArrayUnpickler(io.BytesIO(data), encoding="bytes").load()
    except Exception as problem:  # a damaged pickle raises nearly anything
        raise DataError(f"{path} cannot be read as a pickle of arrays: {problem}") from problem
    if not isinstance(value, dict):
        raise DataError(f"{path} holds a {type(value).__name__}, not a dictionary")
    return {_text(key): _tensor(each, path) for key, each in value.items()}


def _refuse_opcodes(data: bytes) -> None:
    for opcode, _, _ in pickletools.genops(data):
        if opcode.name in _REFUSED_OPCODES:
            raise pickle.UnpicklingError(f"it uses {opcode.name}, which no array needs")


@final
class _ArrayUnpickler(pickle.Unpickler):
    """Finds stand-ins for the names that arrays need, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        known = (module, name)
        if known == ("numpy", "ndarray"):
            return _Name("ndarray")
        if known == ("numpy", "dtype"):
            return _Call("dtype")
        if name == "_reconstruct" and module in _ARRAYS:
            return _Call("array")
        if name == "_frombuffer" and module in _NUMERIC:
            return _Call("buffer")
        if known == ("_codecs", "encode"):
            return _Call("encode")
        raise pickle.UnpicklingError(
            f"it names `{module}.{name}`; only arrays of numbers are read, because any other name "
            "could run a program"
        )


class _AbstractStandIn(ABC):
    """Something that a file may name, and not change."""

    __slots__ = ()

    @abstractmethod
    def __setstate__(self, state: Any) -> None:
        """Take the state that the file gives, or refuse it."""


@final
@dataclass(frozen=True, slots=True)
class _Name(_AbstractStandIn):
    """A class that is named and never used."""

    name: str

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError(f"it changes the class {self.name}")


@final
@dataclass(frozen=True, slots=True)
class _Call(_AbstractStandIn):
    """A function that is named: calling it notes its arguments."""

    kind: str

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError(f"it changes the function that makes a {self.kind}")

    def __call__(self, *given: Any) -> Any:
        match self.kind, given:
            case "dtype", (code, *_):
                return _DType(_text(code))
            case "array", _:
                return _Array()
            case "buffer", (data, _DType() as dtype, shape, *order):
                return _Array([1, tuple(shape), dtype, order == ["F"], bytes(data)])
            case "encode", (str() as text, "latin1" | b"latin1" | "latin-1"):
                return text.encode("latin1")
            case _:
                raise pickle.UnpicklingError(f"it makes a {self.kind} in an unknown way")


@final
@dataclass(frozen=True, slots=True)
class _DType(_AbstractStandIn):
    """The type of the elements; its state is the byte order, which bytes do not have."""

    code: str

    def __setstate__(self, state: Any) -> None:
        """Ignore the byte order."""


@final
@dataclass(slots=True)
class _Array(_AbstractStandIn):
    """An array: its version, shape, type, order and bytes."""

    state: list[Any] = field(default_factory=list)

    def __setstate__(self, state: Any) -> None:
        self.state = list(state)


def _tensor(value: Any, path: Path) -> Any:
    if not isinstance(value, _Array):
        return value
    match value.state:
        case [_, tuple(shape), _DType("u1" | "uint8"), fortran, bytes(data)] if all(
            isinstance(size, int) and size >= 0 for size in shape
        ) and math.prod(shape) == len(data):
            if not data:
                return torch.empty(shape, dtype=torch.uint8)
            flat = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            if fortran:
                return flat.reshape(shape[::-1]).permute(*range(len(shape))[::-1]).contiguous()
            return flat.reshape(shape)
        case _:
            raise DataError(f"{path} holds an array that is not of bytes, or is damaged")


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)
