"""New text of a plan's edits for places of the source; the rest is not touched."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import assert_never, final

from fdl_cli.porter.emit.layout import lay_out
from fdl_cli.porter.emit.render import Renderer
from fdl_cli.porter.emit.wrapping import Frame
from fdl_cli.porter.ir.edits import (
    AddBase,
    Decorate,
    Edit,
    PortPlan,
    Remove,
    ReplaceExpression,
    ReplaceStatement,
    ReplaceWord,
    Wrap,
)
from fdl_cli.porter.ir.expressions import Expr
from fdl_cli.porter.ir.source import Comment, Span
from fdl_cli.porter.ir.statements import Stmt
from fdl_cli.porter.ir.symbols import ScriptIR
from fdl_cli.porter.knowledge.torch_names import SEARCHED_TEXTS
from fdl_cli.porter.parse.reader import SourceFile

_WIDTH = 99
_NEXT_INDENT = re.compile(r"(?:[ \t]*\r?\n)*([ \t]*)(?=\S)")
_LEAD_END = "(\\ \t\r\n"


@final
@dataclass(frozen=True, slots=True, order=True)
class Patch:
    """The characters `start` to `end`, which are `before`, become `text`."""

    start: int
    end: int
    text: str
    before: str


def patches_of(source: SourceFile, script: ScriptIR, plan: PortPlan) -> tuple[Patch, ...]:
    """Return the new text of every place that changes, in order; places never overlap."""
    writer = _Writer(source, dict(plan.names))
    patches = [
        patch for item in plan.classes for edit in item.edits for patch in writer.patch(edit)
    ]
    if plan.missing:
        searched = _searched(source.text, patches)
        patches.append(writer.import_line(script, plan, searched))
    patches.sort()
    assert all(one.end <= two.start for one, two in pairwise(patches)), "edits never overlap"
    return tuple(patches)


def _searched(text: str, patches: list[Patch]) -> tuple[str, ...]:
    """Return the texts that a base class searches for in the file, and that the port has no more."""
    found = []
    for base, pattern in SEARCHED_TEXTS:
        places = [*re.finditer(pattern, text)] if re.search(rf"\b{base}\b", text) else []
        kept = [
            place
            for place in places
            if not any(place.start() < each.end and each.start < place.end() for each in patches)
        ]
        if places and not kept:
            found.append(places[0].group())
    return tuple(found)


@final
class _Writer:
    """Turns edits into patches of one file."""

    def __init__(self, source: SourceFile, names: Mapping[str, str]) -> None:
        self.source = source
        self.names = names
        self.renderer = Renderer(source.text, names)
        self.joining = Renderer(source.text, names, joins=True)
        self.newline = source.newline

    def patch(self, edit: Edit) -> Iterator[Patch]:
        """Return the patches of one edit."""
        match edit:
            case ReplaceWord():
                word = self.names.get(edit.word, edit.word)
                yield self._patch(edit.span.start, edit.span.end, word)
            case AddBase():
                yield self._patch(edit.at, edit.at, f", {self.names[edit.word]}")
            case Wrap():
                word = self.names[edit.word]
                start, end = edit.span.start, edit.span.end
                yield self._patch(start, start, f"{word}.{edit.method}(".replace(".(", "("))
                yield self._patch(end, end, ")")
            case Decorate():
                indent = self.source.indent_at(edit.at)
                text = f"@{self.names[edit.word]}{self.newline}{indent}"
                yield self._patch(edit.at, edit.at, text)
            case ReplaceExpression():
                yield self._expression(edit)
            case ReplaceStatement():
                yield self._statement(edit.stmt)
            case Remove():
                yield self._removal(edit.span)
            case _:
                assert_never(edit)

    def _patch(self, start: int, end: int, text: str) -> Patch:
        return Patch(start, end, text, self.source.text[start:end])

    def import_line(self, script: ScriptIR, plan: PortPlan, searched: tuple[str, ...]) -> Patch:
        """Return the import of our names, with the texts that a package searches for in the file."""
        names = dict(plan.names)
        items = [
            word if names[word] == word else f"{word} as {names[word]}" for word in plan.missing
        ]
        # Between two statements of the module: comments at the end of a block belong to it.
        at = next(end for end in self.source.statement_ends if end >= script.import_at)
        note = "".join(f"  # a base class searches for: {text}" for text in searched)
        line = f"from flodl import {', '.join(items)}{note}"
        ended = at == 0 or self.source.text[at - 1] in "\r\n"
        return self._patch(at, at, line + self.newline if ended else self.newline + line)

    def _expression(self, edit: ReplaceExpression) -> Patch:
        span = edit.span
        text = self.renderer.operand(edit.expr, 1)
        lost = self._lost(span.start, span.end, text)
        if lost:
            # Inside brackets a comment may fill a separate line before the expression.
            indent = self.source.indent_at(span.start) + self._unit(span.start)
            notes = "".join(f"{comment.text}{self.newline}{indent}" for comment in lost)
            text = f"({notes}{text})"
        return self._patch(span.start, span.end, text)

    def _lost(self, start: int, end: int, text: str) -> tuple[Comment, ...]:
        """Return the comments of a replaced range that the new text does not hold."""
        found = []
        rest = text
        for comment in self.source.comments_between(start, end):
            head, kept, tail = rest.partition(comment.text)
            if kept:
                rest = head + tail
            else:
                found.append(comment)
        return tuple(found)

    def _statement(self, stmt: Stmt) -> Patch:
        start, end = stmt.sources[0].start, stmt.sources[-1].end
        value = stmt.exprs[0]
        comments = self._lost(start, end, self.renderer.flat(value))
        frame = Frame(indent=self.source.indent_at(start), unit=self._unit(start), width=_WIDTH)
        lines = lay_out(self.joining, frame, self._prefix(stmt), value, comments)
        text = self.newline.join(lines).removeprefix(frame.indent)
        return self._patch(start, end, text)

    def _removal(self, span: Span) -> Patch:
        """Take a statement away, with its line if it holds nothing else."""
        text = self.source.text
        start, end = self.source.line_start(span.start), self.source.line_end(span.end)
        before, after = text[start : span.start].strip(), text[span.end : end].strip()
        if before or (after and not after.startswith("#")):
            return self._patch(span.start, span.end, "pass")
        if after:
            return self._patch(span.start, text.index("#", span.end), "")
        stop = self.source.next_line(span.end)
        return self._patch(self._above_the_last(start, stop), stop, "")

    def _above_the_last(self, start: int, stop: int) -> int:
        """Return where a line begins, with the blank lines above it if it is the last of its block.

        Below a block they would belong to what follows, which brings its own.
        """
        text = self.source.text
        following = _NEXT_INDENT.match(text, stop)
        indent = "" if following is None else following.group(1)
        if len(indent) >= len(self.source.indent_at(start)) and stop < len(text):
            return start
        end = len(text[:start].rstrip(" \t\r\n"))
        return text.index("\n", end) + 1 if "\n" in text[end:start] else start

    def _prefix(self, stmt: Stmt) -> str:
        if stmt.lead is not None:
            lead = self.source.slice(stmt.lead).rstrip(_LEAD_END)
            return f"{lead} " if lead else ""
        targets = [self._target(target) for target in stmt.targets]
        return "".join(f"{target} = " for target in targets)

    def _target(self, target: Expr) -> str:
        """Return the targets of a binding; several values that we named need no parentheses."""
        if target.op != "tuple" or target.span is not None:
            return self.renderer.flat(target)
        return ", ".join(self.renderer.flat(part) for part in target.parts)

    def _unit(self, offset: int) -> str:
        return "\t" if self.source.indent_at(offset).startswith("\t") else "    "
