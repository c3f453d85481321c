"""Pages of the reason codes of `fdl port`: one for each code, with an example from the porter's tests."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from docs._build.running import ROOT
from fdl_cli.porter.knowledge.reasons import REASONS, SCOPES, ReasonCode

CASES: Final = ROOT / "tests" / "porter" / "cases"
REPORTED: Final = re.compile(
    r"^(?P<owner>\w+), line (?P<line>\d+): (?P<code>FDL\d+) (?P<text>.*)$", re.M
)
LONGEST: Final = 30


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Lines of a program for which the porter reports a code, and the text of the report."""

    source: str
    report: str


def examples(cases: Path = CASES) -> dict[str, Example]:
    """Return the shortest example of each code that the golden reports of the porter's tests have."""
    found: dict[str, Example] = {}
    for report in sorted(cases.rglob("report.md")):
        source = (report.parent / "input.py").read_text(encoding="utf-8")
        for match in REPORTED.finditer(report.read_text(encoding="utf-8")):
            lines = lines_around(source, int(match["line"]))
            known = found.get(match["code"])
            if known is None or len(lines) < len(known.source):
                found[match["code"]] = Example(source=lines, report=match["text"])
    return {code: each for code, each in found.items() if each.source.count("\n") < LONGEST}


def lines_around(source: str, line: int) -> str:
    """Return the smallest function or class around a line, without the indentation.

    Example:
        >>> lines_around("class A:\\n    def f(self):\\n        return 1\\n", 3)
        'def f(self):\\n    return 1'
    """
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    around = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not around:
        return source.splitlines()[line - 1].strip()
    node = max(around, key=lambda each: each.lineno)
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    lines = source.splitlines()[first - 1 : node.end_lineno]
    return "\n".join(each[node.col_offset :] for each in lines)


HEAD: Final = """# Reason codes of fdl port

`fdl port` says of every line that it leaves alone why it does so. Each reason has a stable code.
`fdl port --explain CODE` prints it in a terminal. A class that is kept works as before, inside and beside graphs.

"""


def write_reason_pages(target: Path) -> None:
    """Write `codes.md`, the list of all codes by family, and `codes/CODE.md` for each of them."""
    (target / "codes").mkdir(parents=True, exist_ok=True)
    shown = examples()
    sections: dict[str, list[str]] = {}
    for code, reason in REASONS.items():
        page = target / "codes" / f"{code}.md"
        page.write_text(reason_page(reason, shown.get(code)), encoding="utf-8")
        row = f"| [{code}](codes/{code}.md) | {reason.title} |"
        sections.setdefault(SCOPES[code[:4]], []).append(row)
    parts = [
        f"## {_headline(scope)}\n\n| Code | Reason |\n|---|---|\n" + "\n".join(rows) + "\n"
        for scope, rows in sections.items()
    ]
    (target / "codes.md").write_text(HEAD + "\n".join(parts), encoding="utf-8")


def reason_page(reason: ReasonCode, example: Example | None) -> str:
    """Return the Markdown of the page of one code."""
    parts = [
        f"# {reason.code}",
        f"**{_sentence(reason.title)}**",
        f"It is about {SCOPES[reason.code[:4]]}.",
    ]
    if example is not None:
        parts += [
            "## Example",
            f"```python\n{example.source}\n```",
            f"The report says: {example.report}",
        ]
    parts += ["## What to do", _sentence(reason.advice), "[All reason codes](../codes.md)"]
    return "\n\n".join(parts) + "\n"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")


def _headline(scope: str) -> str:
    return _sentence(scope.partition(";")[0])[:-1]
