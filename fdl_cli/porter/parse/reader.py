"""Reader of one Python file: bytes become a concrete tree, text, a syntax tree and a map of places."""

import ast
import io
import re
import tokenize
import warnings
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import libcst

from fdl_cli.porter.ir.findings import FileError
from fdl_cli.porter.ir.source import Comment, Span
from fdl_cli.porter.parse.buffers import settle_buffers
from fdl_cli.porter.parse.last_lines import with_last_lines

# libcst takes quadratic time for chains, and Python frames for every level: too deep for a reader.
_MAX_DEPTH = 200
_NEWLINE = re.compile(r"\r\n|\r|\n")
_INDENT = re.compile(r"[ \t\f]*")
STRING_OR_COMMENT = re.compile(
    r"""(?P<comment>\#[^\r\n]*)"""
    r'''|"""(?:\\[\s\S]|[^\\])*?"""'''
    r"""|'''(?:\\[\s\S]|[^\\])*?'''"""
    r'''|"(?:\\[\s\S]|[^"\\\r\n])*"'''
    r"""|'(?:\\[\s\S]|[^'\\\r\n])*'"""
)


@final
class UnreadableError(Exception):
    """A file that cannot be read as Python; `error` is the message to the user."""

    def __init__(self, error: FileError) -> None:
        super().__init__(error.message)
        self.error = error


@final
@dataclass(frozen=True)
class SourceFile:
    """One file, read once: its text, and two trees of it.

    `module` is libcst's concrete tree: it renders the very bytes of the file, and a port is made
    out of it. `tree` is Python's own abstract tree of the same text, from which meaning is taken.
    Every place is a span of characters of `text`.
    """

    text: str
    module: libcst.Module = field(repr=False)
    tree: ast.Module
    _line_starts: tuple[int, ...] = field(repr=False)

    def offset(self, line: int, column: int) -> int:
        """Turn a line and a column in UTF-8 bytes, as `ast` has them, into a character offset."""
        start = self._line_starts[line - 1]
        piece = self.text[start : start + column]
        if piece.isascii():
            return start + column
        whole = self.text[start : self.line_end(start)]
        return start + len(whole.encode("utf-8")[:column].decode("utf-8"))

    def line_end(self, offset: int) -> int:
        """Return the end of the line that holds the offset, before its line break."""
        found = _NEWLINE.search(self.text, offset)
        return found.start() if found else len(self.text)

    def line_start(self, offset: int) -> int:
        """Return the start of the line that holds the offset."""
        return self._line_starts[bisect_right(self._line_starts, offset) - 1]

    def next_line(self, offset: int) -> int:
        """Return the start of the line after the one that holds the offset."""
        found = _NEWLINE.search(self.text, offset)
        return found.end() if found else len(self.text)

    def line_of(self, offset: int) -> int:
        """Return the line number of an offset."""
        return bisect_right(self._line_starts, offset)

    def span(
        self, node: ast.expr | ast.stmt | ast.arg | ast.keyword | ast.alias | ast.pattern
    ) -> Span:
        """Return the place of a node; decorators are not part of it."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return Span(
            start=self.offset(node.lineno, node.col_offset),
            end=self.offset(node.end_lineno, node.end_col_offset),
            line=node.lineno,
        )

    def slice(self, span: Span) -> str:
        """Return the text at a place."""
        return self.text[span.start : span.end]

    def indent_at(self, offset: int) -> str:
        """Return the white space that the line of the offset starts with."""
        found = _INDENT.match(self.text, self.line_start(offset))
        assert found is not None
        return found.group()

    def is_alone(self, span: Span) -> bool:
        """Return True if the lines of a place hold nothing else, a comment behind it excepted."""
        before = self.text[self.line_start(span.start) : span.start]
        after = self.text[span.end : self.line_end(span.end)].strip()
        return not before.strip() and (not after or after.startswith("#"))

    @property
    def newline(self) -> str:
        """The line break that the file uses."""
        return self.module.default_newline

    @cached_property
    def statement_ends(self) -> tuple[int, ...]:
        """The ends of the module's header and of each of its statements, in order."""
        ends = [sum(len(self.module.code_for_node(line)) for line in self.module.header)]
        for statement in self.module.body:
            ends.append(ends[-1] + len(self.module.code_for_node(statement)))
        # A last line without a line break: libcst takes the break off when it renders a module.
        ends[-1] = min(ends[-1], len(self.text))
        return tuple(ends)

    @cached_property
    def comments(self) -> tuple[Comment, ...]:
        """All comments, in order."""
        found = []
        for match in STRING_OR_COMMENT.finditer(self.text):
            if match.group("comment") is None:
                continue
            before = self.text[self.line_start(match.start()) : match.start()]
            span = Span(start=match.start(), end=match.end(), line=self.line_of(match.start()))
            found.append(Comment(span=span, text=match.group(), alone=not before.strip()))
        return tuple(found)

    def comments_between(self, start: int, end: int) -> tuple[Comment, ...]:
        """Return the comments that lie in a range."""
        low = bisect_right(self.comments, start, key=lambda item: item.span.start - 1)
        found = []
        for comment in self.comments[low:]:
            if comment.span.start >= end:
                break
            found.append(comment)
        return tuple(found)


def decode(data: bytes) -> str:
    """Decode a Python file by its BOM or coding line.

    Raises:
        UnreadableError: the bytes are not text in the encoding that the file declares.
    """
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(name)
    except (SyntaxError, UnicodeDecodeError, LookupError) as problem:
        raise UnreadableError(
            FileError(
                id="encoding-unreadable",
                message=f"the file is not text in its declared encoding: {problem}",
                hint="save it as UTF-8, or add a line such as `# -*- coding: latin-1 -*-`",
                line=1,
            )
        ) from problem


def read(data: bytes) -> SourceFile:
    """Read the bytes of one file.

    Raises:
        UnreadableError: the bytes are not Python that can be read and written back unchanged.
    """
    text = decode(data)
    tree = _syntax_tree(text)
    _refuse_depth(tree)
    settle_buffers(tree)
    try:
        module = libcst.parse_module(data)
    except libcst.ParserSyntaxError as problem:
        raise UnreadableError(_concrete_error(problem)) from problem
    if module.code != text:
        module = with_last_lines(module, text)
    if module.code != text:
        raise UnreadableError(
            FileError(
                id="source-not-reproducible",
                message="the file cannot be written back byte for byte",
                hint="remove the form feed at its start, and end lines with LF or CR LF, not CR",
                line=None,
            )
        )
    starts = (0, *(match.end() for match in _NEWLINE.finditer(text)))
    return SourceFile(text, module, tree, starts)


def _syntax_tree(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            # Invalid escapes in the author's strings are not a warning of ours.
            warnings.simplefilter("ignore")
            try:
                return ast.parse(text, type_comments=True)
            except SyntaxError:
                # A comment that only looks like a type is an error in that mode.
                return ast.parse(text)
    except SyntaxError as problem:
        raise UnreadableError(_syntax_error(problem)) from problem
    except (ValueError, MemoryError) as problem:
        raise UnreadableError(
            FileError(
                id="source-unreadable",
                message=f"Python cannot parse the file: {problem}",
                hint="check that it is a Python source file",
                line=None,
            )
        ) from problem


def _refuse_depth(tree: ast.Module) -> None:
    """Refuse trees that are so deep that reading them concretely would take minutes."""
    level: list[ast.AST] = [tree]
    for _ in range(_MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise RecursionError


def _syntax_error(problem: SyntaxError) -> FileError:
    hint = "run the script with Python 3.11 or later first; fix what it says, then port again"
    if problem.msg and "print" in problem.msg:
        hint = "this is Python 2; run `2to3 -w` on it first"
    return FileError(
        id="source-syntax",
        message=f"the file is not valid Python: {problem.msg}",
        hint=hint,
        line=problem.lineno,
    )


def _concrete_error(problem: libcst.ParserSyntaxError) -> FileError:
    """Report source that Python itself accepts and libcst does not."""
    column = problem.editor_column
    return FileError(
        id="source-syntax",
        message=f"the syntax at column {column} is not understood: {problem.message}",
        hint="write this place in syntax that Python 3.11 has, then port again",
        line=problem.editor_line,
    )
