"""Write recognised training loops as `Trainer.setup` has them; all other lines stay."""

import ast
import re
from collections.abc import Iterator

from fdl_cli.porter.emit.apply import Patch
from fdl_cli.porter.ir.source import Span
from fdl_cli.porter.ir.training import LoopIR
from fdl_cli.porter.parse.reader import SourceFile

_NAMES = ("training", "training_session", "flodl_training")
_IMPORT = re.compile(r"^from flodl import (?P<names>[\w, ]+)$", re.MULTILINE)


def with_setup(source: SourceFile, loops: tuple[LoopIR, ...], import_at: int) -> str:
    """Return the text with the loops moved; loops with trouble stay as they are."""
    moved = [loop for loop in loops if not loop.trouble]
    if not moved:
        return source.text
    used = {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name)}
    name = next((item for item in _NAMES if item not in used), f"{_NAMES[-1]}_")
    patches = [patch for loop in moved for patch in _patches(source, loop, name)]
    patches.append(_import(source, import_at))
    pieces, at = [], 0
    for patch in sorted(set(patches)):
        pieces += [source.text[at : patch.start], patch.text]
        at = patch.end
    return "".join([*pieces, source.text[at:]])


def _patches(source: SourceFile, loop: LoopIR, name: str) -> Iterator[Patch]:
    assert loop.zero_grad is not None
    assert loop.step is not None
    limit = f", max_grad_norm={loop.max_norm}" if loop.max_norm else ""
    setup = f"{name} = Trainer.setup({loop.model}, {loop.optimizer}{limit})"
    indent = source.indent_at(loop.before)
    yield Patch(loop.before, loop.before, f"{setup}{source.newline}{indent}", "")
    yield _without(source, loop.zero_grad)
    if loop.clip is not None:
        yield _without(source, loop.clip)
    step = loop.step
    yield Patch(step.start, step.end, f"{name}.step()", source.text[step.start : step.end])


def _without(source: SourceFile, span: Span) -> Patch:
    """Remove a statement with its line; a comment on the line keeps one of its own."""
    start, end = source.line_start(span.start), source.next_line(span.end)
    rest = source.text[span.end : source.line_end(span.end)].strip()
    before = source.text[start:end]
    if rest:
        return Patch(start, end, f"{source.indent_at(span.start)}{rest}{source.newline}", before)
    return Patch(start, end, "", before)


def _import(source: SourceFile, import_at: int) -> Patch:
    known = _IMPORT.search(source.text)
    if known is not None:
        names = known["names"].split(", ")
        if "Trainer" in names:
            return Patch(known.end(), known.end(), "", "")
        return Patch(known.end(), known.end(), ", Trainer", "")
    at = next(end for end in source.statement_ends if end >= import_at)
    line = f"from flodl import Trainer{source.newline}"
    return Patch(at, at, line if at == 0 or source.text[at - 1] in "\r\n" else f"\n{line}", "")
