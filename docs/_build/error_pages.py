"""Pages of the errors of `fdl`: one for each stable id, read from the sources that raise them."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, final

from docs._build.running import ROOT
from fdl_cli import errors
from fdl_cli.manifest.project import TROUBLES


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedError:
    """One place that raises an error: its id, its class, and its texts with placeholders."""

    id: str
    kind: str
    message: str
    hint: str

    @property
    def exit_code(self) -> int:
        """The exit code of `fdl` after this error."""
        kind: type[errors.FdlError] = getattr(errors, self.kind)
        return kind.exit_code


# What makes an error besides its class: functions and records whose id, message and hint come first.
MAKERS: Final = {
    "_lacking": "EnvironmentLackingError",
    "FileError": "UsageError",
    "RenderError": "OperationFailedError",
}
ID: Final = re.compile(r"[a-z]+(-[a-z]+)+")


def raised_errors() -> tuple[RaisedError, ...]:
    """Return each place that raises an error with a constant id, in the order of the ids."""
    found = [
        each
        for folder in ("fdl_cli", "flodl_verify")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for each in _raised_at(node)
    ]
    return tuple(sorted(found, key=lambda each: each.id))


def _raised_at(node: ast.AST) -> Iterator[RaisedError]:
    match node:
        case ast.Call(func=ast.Name(id="Trouble"), args=args, keywords=keywords):
            kind, message, hint = _fields(args, keywords, ("kind", "message", "hint"))
            if isinstance(kind, ast.Constant):
                error, error_id = TROUBLES[str(kind.value)]
                yield from _error(ast.Constant(error_id), error.__name__, message, hint)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in MAKERS:
            yield from _error(
                *_with_kind(MAKERS[name], _fields(args, keywords, ("id", "message", "hint")))
            )
        case ast.Call(func=ast.Name(id=name), keywords=keywords) if name in vars(errors):
            fields = _fields([], keywords, ("error_id", "message", "hint"))
            yield from _error(*_with_kind(name, fields))
        case ast.Tuple(elts=[ast.Constant(value=str() as text), ast.JoinedStr() as message, hint]):
            if ID.fullmatch(text):  # a table of reasons for a state of the machine
                yield from _error(ast.Constant(text), "EnvironmentLackingError", message, hint)
        case _:
            pass


Field: TypeAlias = "ast.expr | None"


def _fields(
    args: list[ast.expr], keywords: list[ast.keyword], names: tuple[str, ...]
) -> list[Field]:
    given: dict[str, ast.expr] = dict(zip(names, args, strict=False))
    given |= {each.arg: each.value for each in keywords if each.arg is not None}
    return [given.get(name) for name in names]


def _with_kind(kind: str, fields: list[Field]) -> tuple[Field, str, Field, Field]:
    return fields[0], kind, fields[1], fields[2]


def _error(error_id: Field, kind: str, message: Field, hint: Field) -> Iterator[RaisedError]:
    if isinstance(error_id, ast.Constant) and message is not None and hint is not None:
        yield RaisedError(
            id=str(error_id.value), kind=kind, message=text_of(message), hint=text_of(hint)
        )


def text_of(node: ast.expr) -> str:
    """Return a text as it is shown, with words in capitals for what a run fills in.

    Example:
        >>> text_of(ast.parse('f"cannot write `{problem.filename}`"', mode="eval").body)
        'cannot write `FILENAME`'
    """
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(text_of(part) for part in parts)
        case ast.FormattedValue(value=value):
            return _placeholder(ast.unparse(value))
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return text_of(left) + text_of(right)
        case ast.IfExp(body=one, orelse=other):
            return f"{text_of(one)}; or: {text_of(other)}"
        case _:
            return _placeholder(ast.unparse(node))


def _placeholder(expression: str) -> str:
    name = re.fullmatch(r"(?:\w+\.)*(\w+?)_?(?:\[\d\])?", expression)
    return name[1].upper().replace("_", "-") if name else UNKNOWN


# A part of a text that only a run knows.
UNKNOWN: Final = "..."
NAMELESS: Final = re.compile(r"[A-Z-]+|\.\.\.")

MEANINGS: Final = {each.code: each.meaning for each in errors.EXIT_CODES}

HEAD: Final = """# Errors of fdl

Each error of `fdl` begins with `error[ID]:`, and the id stays the same in later versions. The line
`hint:` has what to type next, and the last line, `page:`, the address of a page below. `fdl help exit-codes` lists
the exit codes. Words in capitals stand for what a run fills in.

Errors of the runtime are Python exceptions: see [their classes](api/errors.md).

| Id | Message | Exit code |
|---|---|---|
"""


def write_error_pages(target: Path) -> None:
    """Write `errors.md`, the list of all ids, and `errors/ID.md` for each of them."""
    (target / "errors").mkdir(parents=True, exist_ok=True)
    pages: dict[str, list[RaisedError]] = {}
    for each in raised_errors():
        pages.setdefault(each.id, []).append(each)
    rows = []
    for name, raised in pages.items():
        page = target / "errors" / f"{name}.md"
        page.write_text(error_page(name, raised), encoding="utf-8")
        message = _cell(raised[0].message)
        rows.append(f"| [`{name}`](errors/{name}.md) | {message} | {raised[0].exit_code} |\n")
    (target / "errors.md").write_text(HEAD + "".join(rows), encoding="utf-8")


def error_page(name: str, raised: list[RaisedError]) -> str:
    """Return the Markdown of the page of one id."""
    parts = [f"# error[{name}]"]
    shapes = dict.fromkeys((each.message, each.hint, each.exit_code) for each in raised)
    told = [each for each in shapes if not NAMELESS.fullmatch(each[0])] or list(shapes)
    for message, hint, code in told:
        shown = "" if hint == UNKNOWN else f"\n  hint: {hint}"
        parts.append(f"```text\nerror[{name}]: {message}{shown}\n```")
        parts.append(f"Exit code {code}: {MEANINGS[str(code)]}.")
    parts.append("[All errors](../errors.md)")
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
