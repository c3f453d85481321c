"""Compares two snapshots: equal bits, nearly equal numbers, or different, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

import torch

from flodl.verify.snapshot import NodeSnapshot, PlainSnapshot, Snapshot, TensorSnapshot

# Relative to the largest magnitude in the tensor: a few units in the last place. Wider would let
# real changes (another epsilon) pass as rounding.
TOLERANCE = {torch.float64: 1e-14, torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
_INTEGER_VIEW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One place where two runs differ; `close` when only by rounding."""

    path: str
    text: str
    close: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def find_mismatches(original: Snapshot, port: Snapshot, path: str) -> Iterator[Mismatch]:
    """Yield every place where the port's snapshot differs from the original's."""
    if isinstance(original, TensorSnapshot) and isinstance(port, TensorSnapshot):
        yield from _compare_tensors(original, port, path)
    elif isinstance(original, NodeSnapshot) and isinstance(port, NodeSnapshot):
        yield from _compare_nodes(original, port, path)
    elif isinstance(original, PlainSnapshot) and isinstance(port, PlainSnapshot):
        if original != port:
            yield Mismatch(path=path, text=f"{_show(port)} instead of {_show(original)}")
    else:
        yield Mismatch(path=path, text=f"{_show(port)} instead of {_show(original)}")


def same_bits(original: torch.Tensor, port: torch.Tensor) -> bool:
    """Tell whether tensors of one shape and dtype hold the same bits; NaNs equal each other."""
    if original.dtype.is_complex:
        return same_bits(torch.view_as_real(original), torch.view_as_real(port))
    if not original.dtype.is_floating_point:
        return torch.equal(original, port)
    integer = _INTEGER_VIEW[original.element_size()]
    equal = original.contiguous().view(integer) == port.contiguous().view(integer)
    if bool(equal.all()):
        return True
    both_nan = torch.isnan(original.double()) & torch.isnan(port.double())
    return bool((equal | both_nan).all())


def _compare_nodes(original: NodeSnapshot, port: NodeSnapshot, path: str) -> Iterator[Mismatch]:
    if original.kind != port.kind:
        yield Mismatch(path=path, text=f"a {port.kind} instead of a {original.kind}")
        return
    names = [name for name, _ in original.items]
    other = [name for name, _ in port.items]
    if names != other:
        yield Mismatch(path=path, text=f"items {_listed(other)} instead of {_listed(names)}")
        return
    for (name, left), (_, right) in zip(original.items, port.items, strict=True):
        yield from find_mismatches(left, right, f"{path}/{name}")


def _compare_tensors(
    original: TensorSnapshot, port: TensorSnapshot, path: str
) -> Iterator[Mismatch]:
    facts: tuple[tuple[str, object, object], ...] = (
        ("type", original.kind, port.kind),
        ("dtype", original.data.dtype, port.data.dtype),
        ("shape", tuple(original.data.shape), tuple(port.data.shape)),
    )
    for fact, left, right in facts:
        if left != right:
            yield Mismatch(path=path, text=f"{fact} {right} instead of {left}")
            return
    if not same_bits(original.data, port.data):
        yield _describe_values(original.data, port.data, path)
    softer: tuple[tuple[str, object, object], ...] = (
        ("requires_grad", original.requires_grad, port.requires_grad),
        ("layout", original.layout, port.layout),
        ("strides", original.strides, port.strides),
        ("memory shared with", original.alias or "nothing", port.alias or "nothing"),
    )
    for fact, left, right in softer:
        if left != right:
            yield Mismatch(path=path, text=f"{fact} {right} instead of {left}")


def _describe_values(original: torch.Tensor, port: torch.Tensor, path: str) -> Mismatch:
    numeric = original.dtype.is_floating_point or original.dtype.is_complex
    left = original.to(torch.complex128 if original.dtype.is_complex else torch.float64)
    right = port.to(left.dtype)
    gap = (left - right).abs()
    wrong = int((~(gap == 0)).sum())
    largest = float(gap.nan_to_num(nan=float("inf")).max())
    scale = float(left.abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).max())
    bound = TOLERANCE.get(original.dtype, 0.0) * max(scale, 1e-30)
    text = f"{wrong} of {original.numel()} elements differ, by up to {largest:.3g}"
    return Mismatch(path=path, text=text, close=numeric and largest <= bound)


def _show(snapshot: Snapshot) -> str:
    if isinstance(snapshot, TensorSnapshot):
        return f"a tensor of shape {tuple(snapshot.data.shape)}"
    if isinstance(snapshot, NodeSnapshot):
        return f"a {snapshot.kind} of {len(snapshot.items)}"
    return snapshot.text if len(snapshot.text) <= 60 else snapshot.text[:57] + "..."


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:6])
    return f"[{shown}, ... {len(names)} in all]" if len(names) > 6 else f"[{shown}]"
