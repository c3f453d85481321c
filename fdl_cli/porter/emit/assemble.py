"""The file's concrete tree with the new definitions; every other node stays itself."""

from collections import deque
from collections.abc import Sequence
from typing import TypeVar, final

import libcst
from libcst import BaseStatement, ClassDef, FunctionDef, SimpleStatementLine

from fdl_cli.porter.emit.apply import Patch
from fdl_cli.porter.parse.reader import SourceFile

Statement = BaseStatement | SimpleStatementLine
_Part = FunctionDef | ClassDef | SimpleStatementLine
_P = TypeVar("_P", FunctionDef, ClassDef, SimpleStatementLine)


@final
class UnsoundError(Exception):
    """New text which does not fit into the tree; the message names the problem."""


def assemble(source: SourceFile, patches: Sequence[Patch]) -> libcst.Module:
    """Return the tree of the port: the tree of the source with its changed parts exchanged.

    Raises:
        UnsoundError: the patched text of a statement is not that statement, changed.
    """
    body: list[Statement] = []
    ends = source.statement_ends
    todo = deque(patches)
    for index, start in enumerate(ends):
        while todo and todo[0].start == todo[0].end == start:
            body += _parsed(source, todo.popleft().text).body
        if index == len(source.module.body):
            break
        statement, end = source.module.body[index], ends[index + 1]
        inside = []
        while todo and todo[0].start < end:
            inside.append(todo.popleft())
        if any(patch.end > end for patch in inside):
            raise UnsoundError("an edit would cross the end of a statement")
        body.append(_exchange(source, statement, (start, end), inside) if inside else statement)
    return source.module.with_changes(body=body)


def _exchange(
    source: SourceFile, statement: Statement, place: tuple[int, int], patches: Sequence[Patch]
) -> Statement:
    """Return a statement of the module with the parts that its patches change."""
    module = source.module
    start, end = place
    # Blank lines and comments above stay where they are; a statement is parsed without them.
    at = start + sum(len(module.code_for_node(line)) for line in _lines_above(statement))
    pieces = []
    for patch in patches:
        pieces += [source.text[at : patch.start], patch.text]
        at = patch.end
    pieces.append(source.text[at:end])
    fresh = _parsed(source, "".join(pieces))
    parts = _Parts()
    fresh.visit(parts)
    exchanger = _Exchanger(module, parts.found)
    made = statement.visit(exchanger)
    if len(fresh.body) != 1 or exchanger.left or not isinstance(made, Statement):
        raise UnsoundError("a definition would become several")
    return made


def _lines_above(statement: Statement) -> Sequence[libcst.EmptyLine]:
    match statement:
        case (
            SimpleStatementLine()
            | ClassDef()
            | FunctionDef()
            | libcst.If()
            | libcst.Try()
            | libcst.TryStar()
            | libcst.With()
            | libcst.For()
            | libcst.While()
            | libcst.Match()
        ):
            return statement.leading_lines
        case _:
            raise UnsoundError(f"a {type(statement).__name__} statement is not known")


def _parsed(source: SourceFile, text: str) -> libcst.Module:
    try:
        made = libcst.parse_module(text, source.module.config_for_parsing)
    except libcst.ParserSyntaxError as problem:
        raise UnsoundError(f"the port would not be valid Python: {problem.message}") from problem
    if made.default_indent == source.module.default_indent:
        return made
    # The parser goes by the first block of the text, whatever it is told.
    explicit = made.visit(_Indents(made.default_indent))
    assert isinstance(explicit, libcst.Module)
    return explicit


@final
class _Indents(libcst.CSTTransformer):
    """Writes down the indentation of blocks that have the usual one of their text."""

    def __init__(self, usual: str) -> None:
        super().__init__()
        self.usual = usual

    def leave_IndentedBlock(
        self, original_node: libcst.IndentedBlock, updated_node: libcst.IndentedBlock
    ) -> libcst.IndentedBlock:
        """Write it down."""
        if original_node.indent is not None:
            return updated_node
        return updated_node.with_changes(indent=self.usual)


@final
class _Parts(libcst.CSTVisitor):
    """The parts of a statement that can be exchanged, in the order of the text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Part] = []

    def visit_ClassDef(self, node: ClassDef) -> bool:
        """Remember a class; its members follow."""
        self.found.append(node)
        return True

    def visit_FunctionDef(self, node: FunctionDef) -> bool:
        """Remember a function as a whole."""
        self.found.append(node)
        return False

    def visit_SimpleStatementLine(self, node: SimpleStatementLine) -> bool:
        """Remember a line as a whole."""
        self.found.append(node)
        return False


@final
class _Exchanger(libcst.CSTTransformer):
    """Exchanges the parts that are written differently, which come in the same order."""

    def __init__(self, module: libcst.Module, parts: Sequence[_Part]) -> None:
        super().__init__()
        self.module = module
        self.left = list(reversed(parts))
        self.open: list[ClassDef] = []

    def visit_ClassDef(self, node: ClassDef) -> bool:
        """Open a class: its members follow."""
        self.open.append(self._next(ClassDef))
        return True

    def leave_ClassDef(self, original_node: ClassDef, updated_node: ClassDef) -> ClassDef:
        """Exchange the bases of a class; its members are exchanged already."""
        fresh = self.open.pop()
        same = len(fresh.bases) == len(original_node.bases) and all(
            self._same(*pair) for pair in zip(fresh.bases, original_node.bases, strict=True)
        )
        return updated_node if same else updated_node.with_changes(bases=fresh.bases)

    def visit_FunctionDef(self, node: FunctionDef) -> bool:
        """Leave the inside of a function alone: it is exchanged as a whole."""
        return False

    def leave_FunctionDef(
        self, original_node: FunctionDef, updated_node: FunctionDef
    ) -> FunctionDef:
        """Exchange a function or method."""
        fresh = self._next(FunctionDef)
        fresh = fresh.with_changes(leading_lines=original_node.leading_lines)
        return original_node if self._same(fresh, original_node) else fresh

    def visit_SimpleStatementLine(self, node: SimpleStatementLine) -> bool:
        """Leave the inside of a line alone: it is exchanged as a whole."""
        return False

    def leave_SimpleStatementLine(
        self, original_node: SimpleStatementLine, updated_node: SimpleStatementLine
    ) -> SimpleStatementLine:
        """Exchange a line of the module or of a class."""
        fresh = self._next(SimpleStatementLine)
        fresh = fresh.with_changes(leading_lines=original_node.leading_lines)
        return original_node if self._same(fresh, original_node) else fresh

    def _next(self, kind: type[_P]) -> _P:
        fresh = self.left.pop() if self.left else None
        if not isinstance(fresh, kind):
            raise UnsoundError("a definition would become something else")
        return fresh

    def _same(self, fresh: libcst.CSTNode, old: libcst.CSTNode) -> bool:
        return self.module.code_for_node(fresh) == self.module.code_for_node(old)
