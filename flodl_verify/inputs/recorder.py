"""Recorder of a run of the original: keeps how each of its modules was made and first called."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, final

from torch import nn

from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.values.identity import IdentityTable
from flodl_verify.values.precision import is_double
from flodl_verify.values.recipes import Arguments, Construction, Packed, pack
from flodl_verify.values.snapshot import tensors_in

MAX_CASES_PER_CLASS = 4
MAX_PACKED_BYTES = 64 * 1024 * 1024


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to make a module of a class and to call it; `origin` says where it was found."""

    class_name: str
    construction: Construction
    inputs: Packed
    origin: str

    def as_tuple(self) -> tuple[object, ...]:
        """Return the case as plain values, for another process.

        Raises:
            UntransferableError: an argument cannot be packed.
        """
        inputs = self.inputs.for_another_process()
        return self.class_name, self.construction.as_tuple(), inputs, self.origin

    @classmethod
    def of_tuple(cls, values: tuple[Any, ...]) -> Case:
        """Return the case that plain values stand for."""
        class_name, construction, inputs, origin = values
        return cls(
            class_name=class_name,
            construction=Construction.of_tuple(construction),
            inputs=Packed(data=inputs),
            origin=origin,
        )


@final
class Recorder:
    """Collects cases while its block runs; the modules it watches are not changed.

    `is_local` tells which classes belong to the program. `keep_live` allows arguments that cannot
    be pickled, which is right within one process only.
    """

    def __init__(self, is_local: Callable[[str], bool], *, origin: str, keep_live: bool) -> None:
        self._is_local = is_local
        self._origin = origin
        self._keep_live = keep_live
        self._made: IdentityTable[Construction] = IdentityTable()
        self._constructed: IdentityTable[None] = IdentityTable()
        self._called: IdentityTable[None] = IdentityTable()
        self._seen: set[tuple[object, ...]] = set()
        self._busy = False
        self.cases: dict[str, list[Case]] = {}
        self.constructions: dict[str, list[Construction]] = {}

    def construction_of(self, module: nn.Module) -> Construction | None:
        """Return how a module of the program was made, if it was made while recording.

        For a copy that is how the last one of its class was made.
        """
        made = self._made.get(module)
        if made is None or module in self._constructed:
            return made
        known = self.constructions.get(made.qualname, [])
        return next((item for item in reversed(known) if item.module == made.module), None)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Record constructions and calls within the block."""
        call, init = nn.Module.__call__, nn.Module.__init__
        _install_new()
        _WATCHERS.append(self)
        nn.Module.__call__ = _watched_call(call)  # type: ignore[method-assign]
        nn.Module.__init__ = _watched_init(init)  # type: ignore[method-assign]
        try:
            yield
        finally:
            nn.Module.__call__ = call  # type: ignore[method-assign]
            nn.Module.__init__ = init  # type: ignore[method-assign]
            _WATCHERS.remove(self)

    def note_construction(
        self, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> None:
        """Keep how a module is being made, if its class belongs to the program."""
        made = type(module)
        if self._busy or not self._is_local(made.__module__) or "<locals>" in made.__qualname__:
            return
        packed = self._pack((args, kwargs))
        if packed is None:
            return
        construction = Construction(
            kind="class", module=made.__module__, qualname=made.__qualname__, arguments=packed
        )
        self._made[module] = construction

    def note_init(self, module: nn.Module) -> None:
        """Believe how a module is being made: a copy is a new object as well, but has no constructor."""
        construction = self._made.get(module)
        if construction is None or module in self._constructed:
            return
        self._constructed[module] = None
        known = self.constructions.setdefault(construction.qualname, [])
        namesakes = sum(item.module == construction.module for item in known)
        if namesakes < MAX_CASES_PER_CLASS and construction not in known:
            known.append(construction)

    def ignore(self, module: nn.Module) -> None:
        """Do not record the calls of one module, whose case is known already."""
        self._called[module] = None

    def note_call(
        self, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Case | None:
        """Return the case of a module's first call, if it is of a new kind for its class."""
        construction = self.construction_of(module)
        if self._busy or construction is None or module in self._called:
            return None
        self._called[module] = None
        cases = [
            item
            for item in self.cases.get(construction.qualname, [])
            if item.construction.module == construction.module
        ]
        construction = replace(construction, double=is_double(module))
        kind = (construction, _kind_of((args, kwargs)))
        if len(cases) >= MAX_CASES_PER_CLASS or kind in self._seen:
            return None
        packed = self._pack((args, kwargs))
        if packed is None:
            return None
        self._seen.add(kind)
        return Case(
            class_name=construction.qualname,
            construction=construction,
            inputs=packed,
            origin=self._origin,
        )

    def note_success(self, case: Case) -> None:
        """Keep a case whose call came to its end."""
        self.cases.setdefault(case.class_name, []).append(case)

    def add_to_origins(self, words: str) -> None:
        """Add a detail to the origin of all cases."""
        for cases in self.cases.values():
            cases[:] = [replace(case, origin=case.origin + words) for case in cases]

    def _pack(self, arguments: Arguments) -> Packed | None:
        # Packing may call user code (`__reduce__`, properties), which must not be recorded.
        self._busy = True
        try:
            packed = attempt(lambda: pack(arguments, self, keep_live=self._keep_live))
        finally:
            self._busy = False
        if isinstance(packed, Failure) or len(packed.data) > MAX_PACKED_BYTES:
            return None
        return packed


def dump_cases(recorder: Recorder) -> bytes:
    """Serialise what was recorded, for another process."""
    cases = [case.as_tuple() for found in recorder.cases.values() for case in found]
    constructions = [
        (name, item.as_tuple()) for name, made in recorder.constructions.items() for item in made
    ]
    return pickle.dumps((cases, constructions), protocol=pickle.HIGHEST_PROTOCOL)


def load_cases(data: bytes) -> tuple[dict[str, list[Case]], dict[str, list[Construction]]]:
    """Read what `dump_cases` wrote; packed arguments stay packed."""
    plain_cases, plain_constructions = pickle.loads(data)
    cases: dict[str, list[Case]] = {}
    for values in plain_cases:
        case = Case.of_tuple(values)
        cases.setdefault(case.class_name, []).append(case)
    constructions: dict[str, list[Construction]] = {}
    for name, values in plain_constructions:
        constructions.setdefault(name, []).append(Construction.of_tuple(values))
    return cases, constructions


_WATCHERS: list[Recorder] = []


def _install_new() -> None:
    # `nn.Module` has no `__new__`; one that passes everything on sees the arguments of every
    # constructor without touching a user's class. It stays: removing it again would break
    # `object.__new__`.
    if "__new__" not in vars(nn.Module):
        nn.Module.__new__ = _watched_new  # type: ignore[method-assign,assignment]


def _watched_new(cls: type[nn.Module], *args: object, **kwargs: object) -> nn.Module:
    module = object.__new__(cls)
    for watcher in _WATCHERS:
        watcher.note_construction(module, args, kwargs)
    return module


def _watched_init(init: Callable[..., None]) -> Callable[..., None]:
    def watched(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        for watcher in _WATCHERS:
            watcher.note_init(self)
        init(self, *args, **kwargs)

    return watched


def _watched_call(call: Callable[..., Any]) -> Callable[..., Any]:
    def watched(self: nn.Module, *args: object, **kwargs: object) -> object:
        begun = [(watcher, watcher.note_call(self, args, kwargs)) for watcher in _WATCHERS]
        result = call(self, *args, **kwargs)
        for watcher, case in begun:
            if case is not None:
                watcher.note_success(case)
        return result

    return watched


def _kind_of(arguments: Arguments) -> tuple[object, ...]:
    args, kwargs = arguments
    nones = tuple(value is None for value in (*args, *kwargs.values()))
    shapes = tuple((path, tuple(item.shape)) for path, item in tensors_in(arguments))
    return (len(args), tuple(kwargs), nones, shapes)
