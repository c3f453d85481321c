"""Readers of built-in types: each takes a value apart past the methods of its subclasses."""

from __future__ import annotations

import array
import collections
import copyreg
import enum
import hashlib
import itertools
import logging
import pathlib
import threading
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, final

import torch

from flodl.pytree.tree import Branch, Code, Content, Leaf, Plain

# A generator may have no end.
MAX_DRAWN = 100_000
# Longer texts are kept as digests.
_LONG = 4096
_PICKLE_PROTOCOL = 4

# The content of a value's node, and its labelled parts, or those of a set.
Parts: TypeAlias = "tuple[Content, Iterable[tuple[str, object]] | Unordered]"
Reader: TypeAlias = Callable[[Any], Parts]


# Attributes of types, past what their metaclasses make of them.
MRO = type.__dict__["__mro__"].__get__
NAMESPACE = type.__dict__["__dict__"].__get__


@final
class Unordered(list[object]):
    """Items in no order."""


@final
class CannotLookError(Exception):
    """A value hides what it holds."""


def kind_of(kind: type) -> str:
    """Return the name of a type, with its module where that is not `builtins`."""
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def numbered(items: Iterable[object]) -> Iterator[tuple[str, object]]:
    """Return items under their numbers."""
    return ((str(number), item) for number, item in enumerate(items))


def entries(
    items: Callable[[], Iterable[tuple[Any, Any]]], *, immutable: bool = False
) -> tuple[Branch, Iterator[tuple[str, object]]]:
    """Return entries under the text of their keys; a key with parts is a child before its value."""
    runs = itertools.groupby(type(key).__name__ for key, _ in items())
    kinds = [(name, sum(1 for _ in run)) for name, run in runs]
    text = "" if [name for name, _ in kinds] in ([], ["str"]) else shortened(f"keys {kinds}")

    def children() -> Iterator[tuple[str, object]]:
        for number, (key, item) in enumerate(items()):
            if type(key) in ATOMS:
                yield str(key), item
            else:
                yield f"key {number}", key
                yield str(number), item

    return Branch(text, immutable), children()


def _read_default(value: Any) -> Parts:
    content, children = entries(lambda: dict.items(value))
    return content, itertools.chain([("default_factory", _DEFAULT_FACTORY(value))], children)


def _read_tuple(value: Any) -> Parts:
    fields: Iterable[tuple[str, object]] = ()
    if any("n_sequence_fields" in NAMESPACE(base) for base in MRO(type(value))):
        # Tuples of C may have fields that only their pickles show.
        _, arguments = value.__reduce__()
        fields = sorted(arguments[1].items())
    return Branch(immutable=True), itertools.chain(numbered(tuple.__iter__(value)), fields)


def _read_deque(value: Any) -> Parts:
    items = collections.deque.__iter__(value)
    return Branch(f"maxlen {_MAXLEN(value)}"), numbered(items)


def _read_view(value: Any) -> Parts:
    return Branch(), numbered(value)


def _read_method(value: types.MethodType) -> Parts:
    parts = [("self", value.__self__), ("function", value.__func__)]
    return Branch(immutable=True), parts


def _read_builtin(value: types.BuiltinFunctionType) -> Parts:
    owner = value.__self__
    name = f"{value.__module__}.{value.__qualname__}"
    if owner is None or isinstance(owner, type | types.ModuleType):
        return Plain(name), ()
    return Branch(name, immutable=True), [("self", owner)]


def _read_function(value: types.FunctionType) -> Parts:
    """Name a function that a module defines; take a local one apart into code and what it captures."""
    name = f"{value.__module__}.{value.__qualname__}"
    if "<" not in value.__qualname__:
        return Plain(name), ()
    # Not by its name, which tells in which method it was made.
    parts: list[tuple[str, object]]
    parts = [("defaults", value.__defaults__), ("keyword defaults", value.__kwdefaults__)]
    cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
    return Code(_digest_of(value.__code__)), [*parts, *cells, *value.__dict__.items()]


def _read_cell(value: types.CellType) -> Parts:
    try:
        return Branch(), [("value", value.cell_contents)]
    except ValueError:
        return Branch("empty"), ()


def _digest_of(value: types.CodeType) -> str:
    state = hashlib.blake2b(digest_size=16)
    pending = [value]
    while pending:
        code = pending.pop()
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        inner = [item for item in code.co_consts if isinstance(item, types.CodeType)]
        plain = [
            sorted(map(repr, item)) if isinstance(item, frozenset) else repr(item)
            for item in code.co_consts
            if not isinstance(item, types.CodeType)
        ]
        state.update(code.co_code + code.co_exceptiontable)
        state.update(repr((names, plain, code.co_flags)).encode("utf-8", "backslashreplace"))
        pending += inner
    return state.hexdigest()


def _read_weak(value: Any) -> Parts:
    target = weakref.ref.__call__(value)
    return Branch(immutable=True), [("target", target)]


def _read_enum(value: Any) -> Parts:
    own = vars(value)
    return Branch(str(own.get("_name_")), immutable=True), [("value", own.get("_value_"))]


def _read_storage(value: Any) -> Parts:
    data = torch.empty(0, dtype=torch.uint8, device=value.device).set_(value)
    return Branch(), [("bytes", data)]


def _read_bytes(value: Any) -> Parts:
    view = memoryview(value)
    facts = view.format, view.shape, view.readonly
    return Branch(f"{facts} {shortened(repr(view.tobytes()))}"), ()


def _read_numpy(value: Any) -> Parts:
    """Return an array of numbers as a leaf, any other one by its fields or items."""
    dtype = value.dtype
    if dtype.names:
        return Branch(f"{dtype} {value.shape}"), [(name, value[name]) for name in dtype.names]
    if dtype.hasobject:
        return Branch(f"{dtype} {value.shape}"), numbered(value.reshape(-1).tolist())
    return Leaf(value), ()


def _read_number(value: Any) -> Parts:
    if value.dtype.names or value.dtype.hasobject:
        return Branch(str(value.dtype), immutable=True), [("item", value.item())]
    return Plain(f"{value} ({value.dtype} {value.tobytes().hex()})"), ()


def script_items(module: Any, table: str) -> Iterable[tuple[str, object]]:
    """Return the parameters, buffers or children of a module of TorchScript."""
    if table == "_modules":
        return list(module.named_children())
    found = module.named_parameters if table == "_parameters" else module.named_buffers
    return list(found(recurse=False))


def pickled(value: Any, kind: type) -> Parts:
    """Take a value apart as `pickle` does it.

    Raises:
        CannotLookError: its type does not allow it.
    """
    reduce = copyreg.dispatch_table.get(kind)
    try:
        made: Any = value.__reduce_ex__(_PICKLE_PROTOCOL) if reduce is None else reduce(value)
    except Exception as problem:
        raise CannotLookError("its type does not show what it holds") from problem
    if isinstance(made, str):
        return Plain(made), ()
    function, arguments, state, items, entries = (*made, None, None, None)[:5]
    parts = [("made by", function), ("arguments", arguments), ("state", state)]
    parts += [] if items is None else [("items", list(items))]
    parts += [] if entries is None else [("entries", list(entries))]
    return Branch(immutable=kind in _IMMUTABLE), parts


def is_drawable(kind: type) -> bool:
    """Return True for generators and iterators of Python itself."""
    if kind is types.GeneratorType:
        return True
    return kind.__module__ in {"builtins", "itertools"} and "__next__" in NAMESPACE(kind)


def drawn(value: Any) -> Parts:
    """Run an iterator to its end; an error on the way is a part of what it gives.

    Raises:
        CannotLookError: it has no end, as far as one can see.
    """
    if type(value) in _ENDLESS:
        return pickled(value, type(value))
    items: list[tuple[str, object]] = []
    try:
        items.extend(numbered(itertools.islice(value, MAX_DRAWN + 1)))
    except Exception as problem:
        items.append(("raises", f"{type(problem).__name__}: {problem}"))
    if len(items) > MAX_DRAWN:
        raise CannotLookError(f"it gives more than {MAX_DRAWN:,} items")
    return Branch(), items


def shortened(text: str) -> str:
    """Return a text, or the beginning and the digest of a long one."""
    if len(text) <= _LONG:
        return text
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return f"{text[:40]}... ({len(text)} characters, {digest})"


def _number_text(value: Any) -> str:
    # A number of more than 4,300 digits has no decimal text.
    return int.__repr__(value) if int.bit_length(value) < _LONG else shortened(hex(value))


def _text_by(show: Callable[[Any], str]) -> Reader:
    return lambda value: (Plain(shortened(show(value))), ())


def _immutable_entries(value: Any) -> Parts:
    return entries(value.items, immutable=True)


_MAXLEN = collections.deque.__dict__["maxlen"].__get__
_DEFAULT_FACTORY = collections.defaultdict.__dict__["default_factory"].__get__
_ENDLESS = frozenset({itertools.count, itertools.cycle, itertools.repeat})
_IMMUTABLE = frozenset({slice, range})
# Types of C that add nothing to a built-in type.
AS_ITS_BASE = frozenset({torch.Size})

ATOMS: dict[type, Callable[[Any], str]] = {
    **dict.fromkeys((float, complex, bool, type(None), type(...)), repr),
    **{kind: lambda value: shortened(repr(value)) for kind in (str, bytes)},
    int: _number_text,
}

# The content of a built-in type, read past the methods of its subclasses; attributes come in addition.
READERS: dict[type, Reader] = {
    int: _text_by(_number_text),
    **{kind: _text_by(kind.__repr__) for kind in (float, complex, str, bytes)},
    collections.defaultdict: _read_default,
    collections.OrderedDict: lambda value: entries(lambda: collections.OrderedDict.items(value)),
    dict: lambda value: entries(lambda: dict.items(value)),
    list: lambda value: (Branch(), numbered(list.__iter__(value))),
    tuple: _read_tuple,
    set: lambda value: (Branch(), Unordered(set.__iter__(value))),
    frozenset: lambda value: (Branch(immutable=True), Unordered(frozenset.__iter__(value))),
    collections.deque: _read_deque,
    bytearray: _read_bytes,
    array.array: _read_bytes,
    weakref.ref: _read_weak,
    torch.UntypedStorage: _read_storage,
}
# Types whose values are read as a whole: their attributes are not theirs alone, or no part of them.
WHOLE: dict[type, Reader] = {
    enum.Enum: _read_enum,
    type: _text_by(kind_of),
    types.ModuleType: _text_by(lambda value: value.__name__),
    types.FunctionType: _read_function,
    types.BuiltinFunctionType: _read_builtin,
    types.MethodType: _read_method,
    types.CellType: _read_cell,
    types.CodeType: lambda value: (Code(_digest_of(value)), ()),
    types.MappingProxyType: _immutable_entries,
    type({}.keys()): _read_view,
    type({}.values()): _read_view,
    type({}.items()): _read_view,
    memoryview: _read_bytes,
    pathlib.PurePath: _text_by(str),  # it caches its text
    logging.Logger: _text_by(lambda value: value.name),
    type(threading.Lock()): _text_by(lambda _: "lock"),
    type(threading.RLock()): _text_by(lambda _: "lock"),
    torch.Generator: lambda value: (Branch(str(value.device)), [("state", value.get_state())]),
    **dict.fromkeys((torch.dtype, torch.device, torch.layout, torch.memory_format), _text_by(str)),
    **dict.fromkeys((torch.finfo, torch.iinfo), _text_by(str)),
}
# The same for numpy, which need not be installed, by the names of its classes.
NUMPY_READERS: dict[str, Reader] = {"ndarray": _read_numpy, "generic": _read_number}
