"""Arguments for public methods that a forward does not use: `encode`, `sample`, `generate`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import FunctionType

import torch

from flodl_verify.sandbox.attempt import Failure, OutOfTimeError, attempt, time_limit
from flodl_verify.sides.methods import MAX_METHODS, MethodCall
from flodl_verify.sides.subject import Call, Subject
from flodl_verify.values.comparison import find_mismatches
from flodl_verify.values.recipes import Arguments, Provenance, pack, unpack
from flodl_verify.values.snapshot import tensors_in

# Methods that read or write files, train, or print are not called on a guess.
_LEFT_ALONE = (
    "load", "save", "from_", "fit", "train", "test", "eval", "plot", "print", "show", "summary",
    "export", "configure", "init", "reset", "download", "validate", "log", "step", "optimize",
)  # fmt: skip
GUESS_LIMIT_S = 3.0
_COUNTS = ("num", "max", "steps", "length", "len", "size", "tokens", "count", "batch", "n")


def other_methods(
    made_by: type,
    build: Callable[[], Subject],
    call: Call,
    known: tuple[str, ...],
    provenance: Provenance,
) -> tuple[MethodCall, ...]:
    """Return calls of further public methods which the original answers with tensors, twice.

    `made_by` is the class of what `build` makes.
    """
    names = [
        name
        for name, value in vars(made_by).items()
        if isinstance(value, FunctionType)
        and not name.startswith(("_", *_LEFT_ALONE))
        and name not in {"forward", *known}
    ]
    if not names:
        return ()
    subject = build()
    args, kwargs = unpack(call.inputs, subject.side)
    given = [item for _, item in tensors_in((args, kwargs))]
    output = attempt(lambda: subject.model.eval()(*args, **kwargs))
    made = []
    if not isinstance(output, Failure):
        made = [item.detach() for _, item in tensors_in(output, draw=True)]
    pools = [given, made]
    found = []
    for name in names[:MAX_METHODS]:
        for arguments in _candidates(subject, name, pools):
            try:
                with time_limit(GUESS_LIMIT_S):
                    usable, results = _usable(build, name, arguments, provenance)
            except OutOfTimeError:
                break
            if usable is not None:
                found.append(usable)
                pools.append(results)  # `decode` takes the result of `encode`
                break
    return tuple(found)


def _candidates(
    subject: Subject, name: str, pools: list[list[torch.Tensor]]
) -> Iterator[Arguments]:
    function = vars(type(subject.model))[name]
    signature = attempt(lambda: inspect.signature(function))
    if isinstance(signature, Failure):
        return
    required = [
        item.name.lower()
        for item in list(signature.parameters.values())[1:]
        if item.default is item.empty
        and item.kind in {item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD}
    ]
    for source in pools:
        if len(required) <= len(source) or not required:
            yield tuple(source[: len(required)]), {}
        # Counts are numbers; the other parameters take the tensors in their order.
        counts = [_is_count(item) for item in required]
        if any(counts) and len(required) - sum(counts) <= len(source):
            tensors = iter(source)
            yield tuple(3 if count else next(tensors) for count in counts), {}


def _is_count(name: str) -> bool:
    parts = name.split("_")
    return any(part in _COUNTS for part in parts)


def _usable(
    build: Callable[[], Subject], name: str, arguments: Arguments, provenance: Provenance
) -> tuple[MethodCall | None, list[torch.Tensor]]:
    packed = attempt(lambda: pack(arguments, provenance, keep_live=True))
    if isinstance(packed, Failure):
        return None, []
    first = attempt(lambda: build().call_method(name, packed))
    if isinstance(first, Failure):
        return None, []
    second = attempt(lambda: build().call_method(name, packed))
    results = _results(build, name, arguments)
    if isinstance(second, Failure) or not results:
        return None, []
    for section in first:
        if any(True for _ in find_mismatches(first[section], second[section], section)):
            return None, []
    return MethodCall(name=name, arguments=packed), results


def _results(build: Callable[[], Subject], name: str, arguments: Arguments) -> list[torch.Tensor]:
    def answer() -> object:
        subject = build()
        subject.model.eval()
        return vars(type(subject.model))[name](subject.model, *arguments[0], **arguments[1])

    result = attempt(answer)
    if isinstance(result, Failure):
        return []
    return [item.detach() for _, item in tensors_in(result, draw=True)]
