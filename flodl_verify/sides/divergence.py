"""The first tensor operation at which a port leaves its original, and both their lines."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal, final

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from flodl_verify.inputs.recorder import Case
from flodl_verify.sandbox.attempt import Failure, attempt
from flodl_verify.sandbox.isolated_import import Side
from flodl_verify.sandbox.memory import tensor_bytes
from flodl_verify.sandbox.seeds import seed_all
from flodl_verify.sides.subject import Call, Subject
from flodl_verify.values.raw import dense_copy
from flodl_verify.values.recipes import unpack


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One ATen operation: its name, a digest of what it returned, and where it was called from."""

    name: str
    digest: str
    line: int | None
    module: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The point where two runs part: in words, and the line of the ported file."""

    text: str
    line: int | None


def trace(side: Side, case: Case, mode: Literal["eval", "train"]) -> list[Operation] | Failure:
    """Run the case on a side, operation by operation."""
    return _trace(side, case, Call(inputs=case.inputs, seed=100, mode=mode))


def first_divergence(
    left: Sequence[Operation], right: Sequence[Operation], mode: str
) -> Divergence | None:
    """Return where two runs part; None when no operation differs."""
    found = _first_difference(left, right)
    return None if found is None else _describe(*found, mode)


def _first_difference(
    left: Sequence[Operation], right: Sequence[Operation]
) -> tuple[Operation | None, Operation | None] | None:
    for first, second in zip(left, right, strict=False):
        if (first.name, first.digest) != (second.name, second.digest):
            return first, second
    if len(left) > len(right):
        return left[len(right)], None
    if len(right) > len(left):
        return None, right[len(left)]
    return None


def _describe(first: Operation | None, second: Operation | None, mode: str) -> Divergence:
    place = next((item.module for item in (second, first) if item and item.module), "")
    inside = f" in `{place}`" if place else ""
    head = f"first difference ({mode}){inside}: "
    line = second.line if second is not None else None
    if first is None:
        return Divergence(text=f"{head}the port also computes {_call(second)}", line=line)
    if second is None:
        return Divergence(text=f"{head}the port lacks {_call(first)}", line=line)
    if first.name == second.name:
        text = f"{head}{_call(second)} gives other values than in the original{_at(first)}"
        return Divergence(text=text, line=line)
    text = f"{head}the port computes {_call(second)} where the original computes {_call(first)}"
    return Divergence(text=text, line=line)


def _call(operation: Operation | None) -> str:
    assert operation is not None
    return f"{operation.name}{_at(operation)}"


def _at(operation: Operation) -> str:
    return "" if operation.line is None else f" (line {operation.line})"


def _trace(side: Side, case: Case, call: Call) -> list[Operation] | Failure:
    def run() -> list[Operation]:
        operations: list[Operation] = []
        subject = Subject.build(side, case.construction)
        subject.model.train(call.mode == "train")
        args, kwargs = unpack(call.inputs, side)
        seed_all(call.seed)
        with _module_paths(subject.model) as paths, _OperationTrace(side.file, paths, operations):
            subject.model(*args, **kwargs)
            return list(operations)

    with side.active():
        return attempt(run, side.file)


@contextlib.contextmanager
def _module_paths(model: nn.Module) -> Iterator[list[str]]:
    """Keep a stack of the paths of the submodules that are running."""
    stack: list[str] = []
    handles = []
    for path, module in model.named_modules():

        def enter(_: nn.Module, __: object, path: str = path) -> None:
            stack.append(path)

        def leave(_: nn.Module, __: object, ___: object) -> None:
            stack.pop()

        handles.append(module.register_forward_pre_hook(enter))
        handles.append(module.register_forward_hook(leave))
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()


@final
class _OperationTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every ATen operation that runs in its block."""

    def __init__(self, file: Path, paths: list[str], operations: list[Operation]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._file = str(file)
        self._paths = paths
        self._operations = operations

    def __torch_dispatch__(
        self,
        func: Any,
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run the operation and note it."""
        result = func(*args, **(kwargs or {}))
        operation = Operation(
            name=str(func).removesuffix(".default"),
            digest=_digest(result),
            line=_line_in(self._file, sys._getframe(1)),
            module=self._paths[-1] if self._paths else "",
        )
        self._operations.append(operation)
        return result


def _digest(result: object) -> str:
    tensors = result if isinstance(result, tuple | list) else (result,)
    state = hashlib.blake2b(digest_size=12)
    for item in tensors:
        if not isinstance(item, torch.Tensor):
            state.update(repr(item).encode())
            continue
        data = dense_copy(item).contiguous().reshape(-1)
        state.update(f"{item.dtype}{tuple(item.shape)}".encode())
        if data.numel() and data.device.type == "cpu":
            state.update(tensor_bytes(data))
    return state.hexdigest()


def _line_in(file: str, frame: FrameType | None) -> int | None:
    while frame is not None:
        if frame.f_code.co_filename == file:
            return frame.f_lineno
        frame = frame.f_back
    return None
