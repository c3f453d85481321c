"""Comparison of two snapshots: equal bits, nearly equal numbers, or different, and where."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, final

import torch

from flodl.pytree import Branch, Code, Known, Plain, SameAs, Unseen, path_of
from flodl_verify.values.snapshot import Content, Part, Snapshot, TensorSnapshot

# Relative to the largest magnitude in the tensor: a few units in the last place. Wider would let
# real changes (another epsilon) pass as rounding.
TOLERANCE = {torch.float64: 1e-14, torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
_INTEGER_VIEW = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

# `close` differs by rounding only; `unseen` holds what could not be compared. Worst last.
Grade = Literal["close", "unseen", "different"]
GRADES: tuple[Grade, ...] = ("close", "unseen", "different")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """One place where two runs differ, or where it is not known whether they do."""

    path: str
    text: str
    grade: Grade = "different"

    @property
    def rank(self) -> int:
        """Place of its grade; worse is higher."""
        return GRADES.index(self.grade)

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def worst_of(mismatches: Iterable[Mismatch]) -> Mismatch | None:
    """Return the first mismatch of the worst grade, or None without any.

    All are looked at: the last of a thousand roundings may be a difference.
    """
    return max(mismatches, key=lambda item: item.rank, default=None)


def find_mismatches(original: Snapshot, port: Snapshot, path: str) -> Iterator[Mismatch]:
    """Yield every place where the port's snapshot differs from the original's."""
    yield from _Comparison(original, port, path).run()


def same_bits(original: torch.Tensor, port: torch.Tensor) -> bool:
    """Return True if tensors of one shape and dtype hold the same bits; NaNs equal each other."""
    if original.is_meta or port.is_meta:
        return original.is_meta and port.is_meta  # they hold none
    if original.dtype.is_complex:
        return same_bits(torch.view_as_real(original), torch.view_as_real(port))
    integer = _INTEGER_VIEW[original.element_size()]
    equal = original.contiguous().view(integer) == port.contiguous().view(integer)
    if bool(equal.all()):
        return True
    if not original.dtype.is_floating_point:
        return False
    both_nan = torch.isnan(original.double()) & torch.isnan(port.double())
    return bool((equal | both_nan).all())


# A mismatch without its path, which takes time in deep values.
Finding = tuple[str, Grade]


@final
class _Comparison:
    """A walk through two snapshots at once; it compares a shared value once."""

    def __init__(self, original: Snapshot, port: Snapshot, root: str) -> None:
        self._sides = original, port
        self._children = original.children(), port.children()
        self._root = root
        self._done: set[tuple[int, int]] = set()

    def run(self) -> Iterator[Mismatch]:
        """Yield the mismatches in the order of the original's parts."""
        pending = [(0, 0)]
        while pending:
            here = pending.pop()
            for text, grade in self._compare(here, pending):
                path = path_of(self._sides[0].parts, here[0], self._root)
                yield Mismatch(path=path, text=text, grade=grade)

    def _compare(self, here: tuple[int, int], pending: list[tuple[int, int]]) -> Iterator[Finding]:
        original, port = self._sides
        left, right = original.parts[here[0]], port.parts[here[1]]
        if isinstance(left.content, SameAs) or isinstance(right.content, SameAs):
            at = original.resolved(here[0]), port.resolved(here[1])
            if -1 in at:
                # Their targets are compared elsewhere.
                if left.content != right.content:
                    yield f"{_show(right)} instead of {_show(left)}", "different"
                return
            yield from self._compare_sharing(here, at)
            if at in self._done:
                return
            here = at
            left, right = original.parts[here[0]], port.parts[here[1]]
        self._done.add(here)
        own = self._children[0][here[0]], self._children[1][here[1]]
        yield from _compare_parts(left, right, (len(own[0]), len(own[1])))
        if left.kind == right.kind and _may_differ_below(left.content, right.content):
            labels = [original.parts[i].key for i in own[0]], [port.parts[i].key for i in own[1]]
            if labels[0] != labels[1]:
                yield f"items {_listed(labels[1])} instead of {_listed(labels[0])}", "different"
            else:
                pending += reversed(list(zip(*own, strict=True)))

    def _compare_sharing(self, here: tuple[int, int], at: tuple[int, int]) -> Iterator[Finding]:
        """Compare whether a changeable object is one that was there before, and which."""
        names = [
            path_of(side.parts, target, self._root) if place != target else ""
            for side, place, target in zip(self._sides, here, at, strict=True)
        ]
        contents = [side.parts[i].content for side, i in zip(self._sides, at, strict=True)]
        immutable = any(isinstance(item, Branch) and item.immutable for item in contents)
        if names[0] != names[1] and not immutable:
            yield f"{_whose(names[1])} instead of {_whose(names[0])}", "different"


def _may_differ_below(left: Content, right: Content) -> bool:
    is_code = isinstance(left, Code)
    return left == right if is_code else type(left) is type(right)


def _compare_parts(left: Part, right: Part, sizes: tuple[int, int]) -> Iterator[Finding]:
    """Compare two parts without the parts below them."""
    first, second = left.content, right.content
    unseen = next((item for item in (first, second) if isinstance(item, Unseen)), None)
    if left.kind != right.kind:
        names = _type_names(left.kind, right.kind)
        text = f"{_show(right, names[1], sizes[1])} instead of {_show(left, names[0], sizes[0])}"
        yield text, "different"
    elif unseen is not None:
        yield f"a value of type {left.kind} is not compared: {unseen.reason}", "unseen"
    elif isinstance(first, TensorSnapshot) and isinstance(second, TensorSnapshot):
        yield from _compare_tensors(first, second)
    elif isinstance(first, Code) and isinstance(second, Code):
        if first != second:
            text = "the bodies of two local functions differ, and are not compared further"
            yield text, "unseen"
    elif isinstance(first, Branch) and isinstance(second, Branch):
        if first != second:
            yield f"{_cut(second.text)} instead of {_cut(first.text)}", "different"
    elif first != second:
        yield f"{_show(right)} instead of {_show(left)}", "different"


def _compare_tensors(original: TensorSnapshot, port: TensorSnapshot) -> Iterator[Finding]:
    facts: tuple[tuple[str, object, object], ...] = (
        ("dtype", original.data.dtype, port.data.dtype),
        ("shape", tuple(original.data.shape), tuple(port.data.shape)),
        ("device", original.data.device, port.data.device),
    )
    for fact, left, right in facts:
        if left != right:
            yield f"{fact} {right} instead of {left}", "different"
            return
    if not same_bits(original.data, port.data):
        yield _describe_values(original.data, port.data)
    softer: tuple[tuple[str, object, object], ...] = (
        ("requires_grad", original.requires_grad, port.requires_grad),
        ("layout", original.layout, port.layout),
        ("strides", original.strides, port.strides),
        ("memory shared with", original.alias or "nothing", port.alias or "nothing"),
    )
    for fact, left, right in softer:
        if left != right:
            yield f"{fact} {right} instead of {left}", "different"


def _describe_values(original: torch.Tensor, port: torch.Tensor) -> Finding:
    numeric = original.dtype.is_floating_point or original.dtype.is_complex
    left = original.to(torch.complex128 if original.dtype.is_complex else torch.float64)
    right = port.to(left.dtype)
    gap = (left - right).abs()
    # Zeros of two signs are equal numbers, and other bits.
    wrong = int((~(gap == 0)).sum()) or "zeros of another sign in some"
    largest = float(gap.nan_to_num(nan=float("inf")).max())
    scale = float(left.abs().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).max())
    bound = TOLERANCE.get(original.dtype, 0.0) * max(scale, 1e-30)
    text = f"{wrong} of {original.numel()} elements differ, by up to {largest:.3g}"
    return text, "close" if numeric and largest <= bound else "different"


def _show(part: Part, kind: str = "", size: int = 0) -> str:
    content = part.content
    if isinstance(content, TensorSnapshot):
        return f"a {kind or _short(part.kind)} of shape {tuple(content.data.shape)}"
    if isinstance(content, Plain):
        shown = f"{kind} {content.text}" if kind else content.text
        return _cut(shown)
    if isinstance(content, SameAs):
        return _whose(content.path or "another part")
    if isinstance(content, Known):
        return content.name
    return f"a {kind or _short(part.kind)}" + (f" of {size}" if size else "")


def _type_names(left: str, right: str) -> tuple[str, str]:
    """Return the short names of two types, or the long ones where those are the same."""
    short = _short(left), _short(right)
    return (left, right) if short[0] == short[1] else short


def _short(kind: str) -> str:
    return kind.rpartition(".")[2]


def _whose(path: str) -> str:
    return f"the same object as {path}" if path else "an object that comes once"


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:6])
    return f"[{shown}, ... {len(names)} in all]" if len(names) > 6 else f"[{shown}]"
