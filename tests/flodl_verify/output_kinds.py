"""Kinds of values that a model may return, each made around one part."""

from __future__ import annotations

import collections
import functools
import itertools
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn


class Plain:
    def __init__(self, part: object) -> None:
        self.part = part


class Slotted:
    __slots__ = ("part",)

    def __init__(self, part: object) -> None:
        self.part = part


class SlottedBelow(Slotted):
    __slots__ = ("other",)

    def __init__(self, part: object) -> None:
        super().__init__(part)
        self.other = 1


class SlottedAndMore(Slotted):
    def __init__(self, part: object) -> None:
        super().__init__(0)
        self.more = part


class Private:
    __slots__ = ("__part",)

    def __init__(self, part: object) -> None:
        self.__part = part


class Secretive:
    """Hides its attributes from `vars` and `getattr`."""

    def __init__(self, part: object) -> None:
        object.__setattr__(self, "part", part)

    def __getattribute__(self, name: str) -> Any:
        return {} if name == "__dict__" else None

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None


class Pair(NamedTuple):
    first: object
    second: object


class Rows(tuple[Any, ...]):  # noqa: SLOT001 - it has attributes
    extra: object


class Table(dict[str, Any]):
    extra: object


class Lines(list[Any]):
    extra: object


class Count(int):
    extra: object


class Word(str):  # noqa: SLOT000 - it has attributes
    extra: object


class Quiet(dict[str, Any]):
    """A dictionary that shows nothing of what it holds."""

    def items(self) -> Any:
        return ()

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class View(Mapping[str, Any]):
    def __init__(self, part: object) -> None:
        self._data = {"part": part}

    def __getitem__(self, key: str) -> Any:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)


class Steps(Sequence[Any]):
    def __init__(self, part: object) -> None:
        self._data = [0, part]

    def __getitem__(self, index: Any) -> Any:
        return self._data[index]

    def __len__(self) -> int:
        return len(self._data)


class Walk:
    """An iterator of its user."""

    def __init__(self, part: object) -> None:
        self.left = [part]

    def __iter__(self) -> Walk:
        return self

    def __next__(self) -> Any:
        return self.left.pop()


class Held:
    def __init__(self, part: object) -> None:
        self.part = part

    def method(self) -> object:
        return self.part


class OddError(Exception):
    pass


@dataclass
class Data:
    part: object


@dataclass(frozen=True, slots=True)
class FrozenData:
    part: object


class Output(collections.OrderedDict[str, Any]):
    """As the outputs of transformers: items that are attributes as well."""

    def __init__(self, part: object) -> None:
        super().__init__(part=part)
        self.part = part
        self.missing = None


class Layer(nn.Module):
    def __init__(self, part: object) -> None:
        super().__init__()
        self.part = part


def with_extra(value: Any, part: object) -> Any:
    value.extra = part
    return value


def generated(part: object) -> Iterator[object]:
    yield 0
    yield part


def failing(part: object) -> Iterator[object]:
    yield part
    raise OddError


def captured(part: object) -> Callable[[], object]:
    return lambda: part


def by_default(part: object) -> Callable[[], object]:
    return lambda part=part: part


def deep(part: object, depth: int = 200) -> object:
    value = part
    for _ in range(depth):
        value = [value]
    return value


def array_of(part: object) -> Any:
    made = np.empty(2, dtype=object)
    made[1] = part
    return made


def cycle(part: object) -> list[object]:
    made: list[object] = [part]
    made.append(made)
    return made


def in_module(part: object) -> nn.Module:
    layer = nn.Linear(1, 1)
    with torch.no_grad():
        layer.weight.fill_(1)
        layer.bias.fill_(2)
    layer.note = part
    return layer


def referred(part: object) -> object:
    held = Held(part)
    return [weakref.ref(held), held]


# Around any part.
AROUND: dict[str, Callable[[Any], object]] = {
    "list": lambda part: [0, part],
    "tuple": lambda part: (0, part),
    "dict": lambda part: {"a": 0, "b": part},
    "dict of numbers": lambda part: {1: part},
    "dict of tuples": lambda part: {(1, 2): part},
    "item 5,001": lambda part: [*range(5000), part],
    "nested 200 deep": deep,
    "cycle": cycle,
    "set of objects": lambda part: {Plain(part), Plain(0)},
    "frozenset": lambda part: frozenset([Plain(part)]),
    "deque": lambda part: collections.deque([0, part]),
    "OrderedDict": lambda part: collections.OrderedDict(a=part),
    "defaultdict": lambda part: collections.defaultdict(list, a=part),
    "UserDict": lambda part: collections.UserDict(a=part),
    "UserList": lambda part: collections.UserList([part]),
    "ChainMap": lambda part: collections.ChainMap({}, {"a": part}),
    "mappingproxy": lambda part: types.MappingProxyType({"a": part}),
    "dict values": lambda part: {"a": part}.values(),
    "dict items": lambda part: {"a": part}.items(),
    "SimpleNamespace": lambda part: types.SimpleNamespace(a=part),
    "object": Plain,
    "__slots__": Slotted,
    "inherited __slots__": SlottedBelow,
    "__slots__ and __dict__": SlottedAndMore,
    "private slot": Private,
    "secretive object": Secretive,
    "namedtuple": lambda part: Pair(0, part),
    "tuple subclass": lambda part: with_extra(Rows([1]), part),
    "dict subclass": lambda part: with_extra(Table(a=1), part),
    "quiet dict": lambda part: Quiet(a=part),
    "list subclass": lambda part: with_extra(Lines([1]), part),
    "int subclass": lambda part: with_extra(Count(1), part),
    "str subclass": lambda part: with_extra(Word("a"), part),
    "custom mapping": View,
    "custom sequence": Steps,
    "custom iterator": Walk,
    "dataclass": Data,
    "frozen dataclass": FrozenData,
    "model output": Output,
    "generator": generated,
    "failing generator": failing,
    "map": lambda part: map(Plain, [part]),
    "zip": lambda part: zip([0], [part], strict=True),
    "list iterator": lambda part: iter([0, part]),
    "reversed": lambda part: reversed([part, 0]),
    "chain": lambda part: itertools.chain([0], [part]),
    "endless repeat": itertools.repeat,
    "partial": lambda part: functools.partial(print, part),
    "closure": captured,
    "default of a function": by_default,
    "bound method": lambda part: Held(part).method,
    "built-in method": lambda part: [part].append,
    "exception": OddError,
    "attribute of an exception": lambda part: with_extra(OddError(), part),
    "array of objects": array_of,
    "attribute of a tensor": lambda part: with_extra(torch.ones(2), part),
    "attribute of a parameter": lambda part: with_extra(nn.Parameter(torch.ones(2)), part),
    "module": Layer,
    "attribute of a layer": in_module,
    "weak reference": referred,
    "slice": slice,
}
