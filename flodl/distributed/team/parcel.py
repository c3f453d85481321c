"""The job of a team as a file: pickled by value, its tensors mapped into the memory of every rank.

A job is a function and its arguments. The pickle of the standard library names functions and classes by
their module, which a worker cannot import if that is the script itself (`__main__`) or a notebook; there
cloudpickle takes them by value. Tensors are mapped copy-on-write: ranks share the pages that they read.
"""

from __future__ import annotations

import importlib
import inspect
import io
import pickle
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, final

import torch

from flodl.distributed.team.failures import TeamError

PARCEL: Final = "parcel"  # files of the folder that parent and workers share
SETTINGS: Final = "team.json"
LEFT_OUT: Final = 75  # status of a rank that the others went on without
TOO_LATE: Final = 77  # status of a rank that asked to join, and was not let in before the end
_DEEPEST: Final = 6


@final
class _Pickler(pickle.Pickler):
    """The pickler of the standard library, without what only this process can import."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | types.FunctionType) and obj.__module__ == "__main__":
            raise pickle.PicklingError(f"{obj.__qualname__} is defined in the script itself")
        return NotImplemented


# torch.save wants a module, and asks it for these names.
_BY_NAME: Final = types.SimpleNamespace(Pickler=_Pickler, dump=pickle.dump, __name__="pickle")
_FAILURES: Final = (pickle.PicklingError, TypeError, AttributeError, RecursionError, ValueError)


def pack(job: Mapping[str, Any], path: Path) -> None:
    """Write a job to a file.

    Raises:
        TeamError: an object of the job cannot travel to another process; the message names it.
    """
    try:
        torch.save(dict(job), path, pickle_module=_BY_NAME)
    except _FAILURES as by_name:
        by_value = _cloudpickle()
        if by_value is None:
            raise TeamError(_explain(job, _BY_NAME, by_name)) from None
        try:
            torch.save(dict(job), path, pickle_module=by_value)
        except _FAILURES as error:
            raise TeamError(_explain(job, by_value, error)) from None


def unpack(path: Path) -> dict[str, Any]:
    """Return the job of a file; its tensors share pages with those of the other ranks until written."""
    # The file was written by the parent, into a folder that only this user can open.
    job: dict[str, Any] = torch.load(path, mmap=True, weights_only=False)
    return job


def _cloudpickle() -> Any:
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return None


def _explain(job: Mapping[str, Any], module: Any, error: Exception) -> str:
    name, found = _culprit(job, module)
    has = "" if module is _BY_NAME else " (cloudpickle was tried too)"
    return (
        f"{name}, a {_kind(found)}, cannot travel to another process: {error}{has}. Three ways "
        "out: move the function or class to the top level of a module that workers can import; "
        "`python -m pip install cloudpickle`, which takes lambdas and functions of a script by value; or "
        "pass plain arguments (numbers, texts, paths, tensors) and make the object inside the job"
    )


def _kind(value: Any) -> str:
    kind = type(value).__qualname__
    return f"{kind} {value.__qualname__!r}" if isinstance(value, types.FunctionType) else kind


def _culprit(job: Mapping[str, Any], module: Any) -> tuple[str, Any]:
    """Return the name and the value of the innermost object that cannot travel."""
    name, found = "the job", job
    for _ in range(_DEEPEST):
        for label, part in _parts(name, found):
            if not _travels(part, module):
                name, found = label, part
                break
        else:
            break
    return name, found


def _parts(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    match value:
        case {"function": function, "args": args, "kwargs": kwargs} if name == "the job":
            yield "the function", function
            yield from ((f"argument {place}", each) for place, each in enumerate(args, 1))
            yield from ((f"argument {key}", each) for key, each in kwargs.items())
        case dict():
            yield from ((f"{name}[{key!r}]", each) for key, each in value.items())
        case list() | tuple():
            yield from ((f"{name}[{place}]", each) for place, each in enumerate(value))
        case types.FunctionType():
            used = inspect.getclosurevars(value)
            for key, each in {**used.nonlocals, **used.globals}.items():
                yield f"`{key}`, which {name} uses", each
        case type():
            return
        case object(__dict__=fields):
            yield from ((f"{name}.{key}", each) for key, each in fields.items())
        case _:
            return


def _travels(value: Any, module: Any) -> bool:
    try:
        torch.save(value, io.BytesIO(), pickle_module=module)
    except _FAILURES:
        return False
    return True
