"""The report of a port as one page: both texts side by side, graphs, reasons, proofs, next steps."""

import math
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from html import escape
from importlib import resources

from fdl_cli.porter.ir.findings import ClassOutcome, FileOutcome, ScriptFinding, TrainingFinding
from fdl_cli.porter.knowledge.reasons import REASONS
from fdl_cli.porter.knowledge.training_names import KINDS
from fdl_cli.porter.report.proofs import detail_words, example, reason_words, totals
from flodl_verify.protocol import ClassEvidence

# Lines around a change that stay visible; longer equal parts are folded.
_CONTEXT = 3
_PROOFS = {"equal": "proved equal", "close": "close", "different": "different",
           "not-run": "not compared"}  # fmt: skip
_STATES = {"graph": "graph", "partial": "partly a graph", "kept": "kept as it was"}
Named = tuple[str, str | None, FileOutcome]


def page(files: Iterable[Named]) -> str:
    """Return the page for files: each with its name, the name of its port, and its outcome."""
    listed = list(files)
    parts = [*_overview(listed)]
    for number, (name, target, outcome) in enumerate(listed):
        parts += _file(number, name, target, outcome)
    style = resources.files("fdl_cli.porter.report").joinpath("page.css").read_text("utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Port report</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + "\n</main>\n</body>\n</html>\n"
    )


def _overview(files: list[Named]) -> Iterator[str]:
    classes = [item for _, _, outcome in files for item in outcome.classes]
    graphs = [item for item in classes if item.status != "kept"]
    proved = [item for item in graphs if item.verify.status == "equal"]
    yield "<header><h1>Port report</h1>"
    yield '<p class="totals">'
    for count, word in (
        (len(files), "file" if len(files) == 1 else "files"),
        (len(classes), "class" if len(classes) == 1 else "classes"),
        (len(graphs), "became graphs"),
        (len(proved), "proved equal bit for bit"),
        (sum(item.verify.reason is not None for item in graphs), "not verified"),
        (len(classes) - len(graphs), "kept"),
    ):
        yield f"<span><b>{count}</b> {word}</span>"
    yield "</p>"
    if classes:
        times = [outcome.sufficient_timeout or 0 for _, _, outcome in files]
        yield f"<p>{escape(totals(classes, max(times) or None))}</p>"
    steps = list(_next_steps(files))
    if steps:
        yield "<h2>Next steps</h2><ol>" + "".join(f"<li>{step}</li>" for step in steps) + "</ol>"
    if len(files) > 1:
        yield "<nav><ul>"
        for number, (name, _, outcome) in enumerate(files):
            yield f'<li><a href="#file{number}">{escape(name)}</a> {_badge(outcome.status)}</li>'
        yield "</ul></nav>"
    yield "</header>"


def _next_steps(files: list[Named]) -> Iterator[str]:
    for name, _, outcome in files:
        if outcome.error is not None:
            yield f"{escape(name)}: {escape(outcome.error.hint)}"
        for item in outcome.classes:
            for reason in item.reasons[:1]:
                advice = escape(REASONS[reason.code].advice)
                yield f"{escape(name)}:{reason.line} <b>{escape(item.name)}</b>: {advice}"
            yield from _cure(name, item)
        late = [item.name for item in outcome.classes if item.verify.reason == "time"]
        if late and outcome.sufficient_timeout:
            yield (
                f"{escape(name)}: the time was over before {len(late)} of {len(outcome.classes)}"
                f" classes were proved: <code>--timeout {outcome.sufficient_timeout}</code>"
            )


def _cure(name: str, item: ClassOutcome) -> Iterator[str]:
    """Yield the advice for a class that is not proved, where more can be done than to give it time."""
    if item.verify.reason == "no-inputs":
        yield (
            f"{escape(name)}:{item.line} <b>{escape(item.name)}</b> is not proved: say how"
            f" it is called with <code>{escape(example(item))}</code>"
        )
    elif item.verify.reason in {"does-not-run", "not-compared"}:
        detail = escape(item.verify.detail)
        yield f"{escape(name)}:{item.line} <b>{escape(item.name)}</b> is not proved: {detail}"


def _file(number: int, name: str, target: str | None, outcome: FileOutcome) -> Iterator[str]:
    arrow = f" &rarr; {escape(target)}" if target else ""
    yield f'<section id="file{number}"><h2>{escape(name)}{arrow} {_badge(outcome.status)}</h2>'
    if outcome.error is not None:
        place = "" if outcome.error.line is None else f" (line {outcome.error.line})"
        yield f'<p class="trouble">{escape(outcome.error.message)}{place}</p></section>'
        return
    if outcome.on_flodl:
        yield f"<p>On flodl already: {escape(', '.join(outcome.on_flodl))}.</p>"
    for warning in outcome.warnings:
        yield f'<p class="trouble">{escape(warning.message)}<br>{escape(warning.hint)}</p>'
    found = {item.name: item for item in outcome.evidence}
    for item in outcome.classes:
        yield from _class(item, found.get(item.name))
    if outcome.script is not None:
        yield from _script(outcome.script)
    if outcome.training:
        yield from _training(outcome.training)
    if outcome.source != outcome.text:
        yield "<h3>Source and port</h3>"
        yield from _side_by_side(outcome.source, outcome.text)
    yield "</section>"


def _class(item: ClassOutcome, evidence: ClassEvidence | None) -> Iterator[str]:
    yield f'<article class="{item.status}"><h3>{escape(item.name)} '
    yield f"<small>line {item.line}</small> {_badge(item.status, _STATES[item.status])}"
    if item.status != "kept":
        yield _proof_badge(item)
    yield "</h3>"
    if item.status != "kept":
        yield f"<p>{item.ops_in_graph} of {item.ops_total} operations are nodes of the graph."
        yield f" {escape(detail_words(item))}</p>"
    for reason in item.reasons:
        known = REASONS[reason.code]
        yield f'<p class="reason"><b>{reason.code}</b> line {reason.line}: {escape(reason.message)}.'
        yield f"<br><i>{escape(known.title)}</i>. To do: {escape(known.advice)}.</p>"
    if evidence is not None and evidence.checks:
        yield "<details><summary>"
        equal = sum(check.status == "equal" for check in evidence.checks)
        yield f"{equal} of {len(evidence.checks)} checks equal</summary><table class='checks'>"
        for check in evidence.checks:
            yield f"<tr><td>{escape(check.name)}</td><td>{_badge(check.status)}</td>"
            yield f"<td>{escape(check.detail)}</td></tr>"
        yield "</table></details>"
    if evidence is not None and evidence.drawing:
        yield f'<details open><summary>The graph</summary><div class="picture">{evidence.drawing}'
        yield "</div></details>"
    yield "</article>"


def _proof_badge(item: ClassOutcome) -> str:
    if item.verify.status != "not-run":
        return _badge(item.verify.status, _PROOFS[item.verify.status])
    reason = reason_words(item)
    return _badge("not-run", f"not verified ({reason})" if reason else "without a forward")


def _script(script: ScriptFinding) -> Iterator[str]:
    yield f"<article><h3>The script as a whole {_badge(script.status, _PROOFS[script.status])}</h3>"
    yield f"<p>{escape(script.detail)}</p>"
    if len(script.losses) > 1:
        yield _curve(script.losses)
    yield "</article>"


def _curve(losses: tuple[float, ...]) -> str:
    finite = [value for value in losses if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    span = (high - low) or 1.0
    points = " ".join(
        f"{10 + number * 480 / (len(losses) - 1):.1f},{110 - (value - low) * 100 / span:.1f}"
        for number, value in enumerate(losses)
        if value in finite
    )
    return (
        '<svg class="curve" viewBox="0 0 500 120" role="img" aria-label="losses">'
        f'<polyline points="{points}"/></svg>'
        f"<p><small>losses of both programs, {losses[0]:.6g} to {losses[-1]:.6g}</small></p>"
    )


def _training(findings: tuple[TrainingFinding, ...]) -> Iterator[str]:
    yield "<article><h3>Training code</h3><dl>"
    for kind in KINDS:
        items = [item for item in findings if item.kind == kind]
        if not items:
            continue
        yield f"<dt>{kind}</dt>"
        for item in items:
            action = "" if item.action == "kept" else f" &mdash; {escape(item.action)}"
            yield f"<dd>line {item.line} <code>{escape(item.name)}</code>{action}"
            for reason in item.reasons:
                known = REASONS[reason.code]
                yield f"<br><b>{reason.code}</b> line {reason.line}: {escape(reason.message)}."
                yield f" To do: {escape(known.advice)}."
            yield "</dd>"
    yield "</dl></article>"


def _side_by_side(before: str, after: str) -> Iterator[str]:
    old, new = before.splitlines(), after.splitlines()
    yield '<div class="wide"><table class="diff"><tbody>'
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    for number, (tag, i1, i2, j1, j2) in enumerate(blocks):
        if tag == "equal":
            first, last = number == 0, number == len(blocks) - 1
            yield from _equal(old, i1, i2, j1, open_start=first, open_end=last)
            continue
        for row in range(max(i2 - i1, j2 - j1)):
            left = i1 + row if i1 + row < i2 else None
            right = j1 + row if j1 + row < j2 else None
            yield _row(old, new, left, right, changed=True)
    yield "</tbody></table></div>"


def _equal(
    lines: list[str], start: int, end: int, other: int, *, open_start: bool, open_end: bool
) -> Iterator[str]:
    head = 0 if open_start else _CONTEXT
    tail = 0 if open_end else _CONTEXT
    length = end - start
    for row in range(length):
        if head <= row < length - tail and length > head + tail + 1:
            if row == head:
                hidden = length - head - tail
                yield f'<tr class="fold"><td colspan="4">{hidden} lines as they were</td></tr>'
            continue
        text = escape(lines[start + row])
        yield (
            f"<tr><td>{start + row + 1}</td><td><pre>{text}</pre></td>"
            f"<td>{other + row + 1}</td><td><pre>{text}</pre></td></tr>"
        )


def _row(
    old: list[str], new: list[str], left: int | None, right: int | None, *, changed: bool
) -> str:
    mark = ' class="changed"' if changed else ""
    return f"<tr{mark}>{_cell(old, left, 'minus')}{_cell(new, right, 'plus')}</tr>"


def _cell(lines: list[str], number: int | None, kind: str) -> str:
    if number is None:
        return '<td></td><td class="none"></td>'
    return f'<td>{number + 1}</td><td class="{kind}"><pre>{escape(lines[number])}</pre></td>'


def _badge(state: str, text: str = "") -> str:
    return f'<span class="badge {state}">{escape(text or state)}</span>'
