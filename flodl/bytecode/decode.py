"""Normalised instructions of a code object, and the one that a frame runs.

    >>> [f"{each.kind.name} {each.name}".strip() for each in instructions((lambda a, b: a + b).__code__)]
    ['LOAD_LOCAL a', 'LOAD_LOCAL b', 'BINARY +', 'RETURN']

This is the only package that reads bytecode. It refuses a version of Python that it was not written
for, because a missed instruction would make a flow wrong without a message.
"""

from __future__ import annotations

import dis
import sys
from bisect import bisect_right
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Final, final

from flodl.bytecode.facts import kept_by_identity
from flodl.bytecode.instruction import Instruction, Kind
from flodl.bytecode.opcodes import NO_OPERATION, RULES, SUPPORTED, VERSION
from flodl.errors import BytecodeError

# Their result is a bool already, so that Python 3.13 does not convert it, and we do not for older ones.
_GIVES_BOOL: Final = frozenset({
    Kind.IS, Kind.IS_NONE, Kind.CONTAINS, Kind.MATCH_EXCEPTION, Kind.MATCH_MAPPING,
    Kind.MATCH_SEQUENCE,
})  # fmt: skip


@final
@dataclass(frozen=True, slots=True)
class _Decoded:
    """A code object: its instructions, and for each raw offset that of the instruction it became."""

    instructions: tuple[Instruction, ...]
    raw_offsets: tuple[int, ...]
    offsets: tuple[int, ...]


def instructions(code: CodeType) -> tuple[Instruction, ...]:
    """Return the instructions of a code object, without those of the functions inside.

    Several instructions may have one offset: they were one in CPython. Instructions that change neither
    the stack nor a variable are left out; a jump to one goes to the next instruction.

    Raises:
        BytecodeError: this version of Python or one of the instructions is unknown.
    """
    return _decoded(code).instructions


def running_offset(frame: FrameType) -> int:
    """Return the offset of the instruction that a frame runs.

    `f_lasti` is not enough: during a call it may point behind the instruction, and 3.11 runs some calls
    of C functions in the instruction before.

    Raises:
        BytecodeError: this version of Python or an instruction of the function is unknown.
    """
    decoded = _decoded(frame.f_code)
    position = bisect_right(decoded.raw_offsets, frame.f_lasti) - 1
    return decoded.offsets[max(position, 0)]


@kept_by_identity
def _decoded(code: CodeType) -> _Decoded:
    _check_version()
    found: list[Instruction] = []
    raws = list(dis.get_instructions(code))
    targets = {raw.argval for raw in raws if _is_jump(raw)}
    cells = {*code.co_cellvars, *code.co_freevars}
    keywords: tuple[str, ...] = ()
    for raw in raws:
        if raw.opname == "KW_NAMES":
            keywords = code.co_consts[raw.arg or 0]
        if raw.opname in NO_OPERATION:
            continue
        rule = RULES.get(raw.opname)
        parts = rule(raw) if rule is not None else ()
        if not parts:
            raise _unknown(code, raw)
        if raw.opname in ("CALL", "CALL_KW"):
            if raw.opname == "CALL_KW":
                keywords = found.pop().value
            parts = (replace(parts[0], value=keywords),)
            keywords = ()
        is_entered = raw.offset in targets
        found += _in_context(parts, found, cells, is_entered=is_entered)
    return _linked(found, tuple(raw.offset for raw in raws))


def _is_jump(raw: dis.Instruction) -> bool:
    return raw.opcode in dis.hasjrel or raw.opcode in dis.hasjabs


def _in_context(
    parts: tuple[Instruction, ...], before: list[Instruction], cells: set[str], *, is_entered: bool
) -> tuple[Instruction, ...]:
    """Return the parts of an instruction, where what precedes it or the function changes them."""
    if any(each.kind is Kind.LOAD_LOCAL and each.name in cells for each in parts):
        return tuple(_of_cell(each, cells) for each in parts)
    if not before or is_entered:
        return parts
    first, last = parts[0], before[-1]
    if first.kind is Kind.IS and last.kind is Kind.LOAD_CONST and last.value is None:
        before.pop()
        return (replace(first, kind=Kind.IS_NONE, pops=1),)
    if first.kind is Kind.TO_BOOL and last.kind in _GIVES_BOOL:
        return parts[1:]
    return parts


def _of_cell(part: Instruction, cells: set[str]) -> Instruction:
    # Since 3.13 one instruction loads a variable or a cell.
    is_cell = part.kind is Kind.LOAD_LOCAL and part.name in cells
    return replace(part, kind=Kind.LOAD_CLOSURE) if is_cell else part


def _linked(found: list[Instruction], raw_offsets: tuple[int, ...]) -> _Decoded:
    """Lead offsets of instructions that became nothing to the next one that is left."""
    kept = {each.offset for each in found}
    offsets: list[int] = []
    following = found[-1].offset
    for offset in reversed(raw_offsets):
        following = offset if offset in kept else following
        offsets.append(following)
    offsets.reverse()
    lead = dict(zip(raw_offsets, offsets, strict=True))
    linked = tuple(
        each if each.target is None else replace(each, target=lead[each.target]) for each in found
    )
    return _Decoded(linked, raw_offsets, tuple(offsets))


def _check_version() -> None:
    """Raise an error unless this is a version of Python whose bytecode is known.

    Raises:
        BytecodeError: it is not.
    """
    implementation = sys.implementation.name
    if VERSION in SUPPORTED and implementation == "cpython":
        return
    known = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
    newest = "{}.{}".format(*SUPPORTED[-1])
    message = (
        f"cannot trace a flow on {implementation} {sys.version.partition(' ')[0]}: flodl reads its bytecode, "
        f"and knows that of CPython {known} only; make an environment with one of them, for example "
        f"`uv venv --python {newest}`"
    )
    raise BytecodeError(message)


def _unknown(code: CodeType, raw: dis.Instruction) -> BytecodeError:
    line = raw.positions.lineno if raw.positions is not None else None
    argument = "" if raw.arg is None else f" {raw.arg}"
    version = sys.version.partition(" ")[0]
    return BytecodeError(
        f"{code.co_filename}:{line or code.co_firstlineno}: cannot trace `{code.co_qualname}`: the "
        f"instruction {raw.opname}{argument} of Python {version} is unknown; update flodl (`pip install -U "
        "flodl`), or use a final release of Python"
    )
