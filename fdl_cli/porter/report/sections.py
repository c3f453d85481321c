"""Sections of the report: a file with its classes, its script and its training code."""

import math
from collections.abc import Iterator
from html import escape

from fdl_cli.porter.ir.findings import (
    ClassOutcome,
    FileOutcome,
    ScriptFinding,
    SpeedFinding,
    TrainingFinding,
)
from fdl_cli.porter.knowledge.reasons import REASONS
from fdl_cli.porter.knowledge.training_names import KINDS
from fdl_cli.porter.report.proofs import detail_words, reason_words
from fdl_cli.porter.report.prose import badge, prose
from fdl_cli.porter.report.side_by_side import side_by_side
from fdl_cli.porter.report.summary import speed_lines
from flodl_verify.protocol import ClassEvidence

_PROOFS = {"equal": "proved equal", "close": "close", "different": "different",
           "not-run": "not compared"}  # fmt: skip
_SPEEDS = {"faster": "faster", "no-gain": "no gain", "different": "different",
           "not-measured": "not measured"}  # fmt: skip
_STATES = {"graph": "graph", "partial": "partly a graph", "kept": "kept as it was"}


def file_section(
    number: int, name: str, target: str | None, outcome: FileOutcome, *, unfolded: bool
) -> Iterator[str]:
    """Yield the section of one file; `unfolded` shows its pictures and texts at once."""
    arrow = f" &rarr; {escape(target)}" if target else ""
    yield f'<section id="{file_id(number)}" data-name="{escape(name.lower())}">'
    yield f"<h2>{escape(name)}{arrow} {badge(outcome.status)}</h2>"
    if outcome.error is not None:
        place = "" if outcome.error.line is None else f" (line {outcome.error.line})"
        yield f'<p class="trouble">{prose(outcome.error.message)}{place}</p></section>'
        return
    if outcome.on_flodl:
        yield f"<p>On flodl already: {escape(', '.join(outcome.on_flodl))}.</p>"
    for warning in outcome.warnings:
        yield f'<p class="trouble">{prose(warning.message)}<br>{prose(warning.hint)}</p>'
    found = {item.name: item for item in outcome.evidence}
    mark = " open" if unfolded else ""
    for position, item in enumerate(outcome.classes):
        yield from _class(class_id(number, position), item, found.get(item.name), mark)
    if outcome.script is not None:
        yield from _script(outcome.script)
    if outcome.speed is not None:
        yield from _speed(outcome.speed)
    if outcome.training:
        yield from _training(outcome.training, offers=outcome.speed is None)
    if outcome.source != outcome.text:
        yield f'<details class="texts"{mark}><summary>Source and port</summary>'
        yield from side_by_side(outcome.source, outcome.text)
        yield "</details>"
    yield "</section>"


def file_id(number: int) -> str:
    """Return the anchor of a file."""
    return f"file{number}"


def class_id(number: int, position: int) -> str:
    """Return the anchor of a class of a file."""
    return f"file{number}-class{position}"


def proof_state(item: ClassOutcome) -> str:
    """Return the word that the filter of the page knows for a class."""
    if item.status == "kept":
        return "kept"
    if item.verify.status == "not-run" and item.verify.reason is None:
        return "base"
    return "proved" if item.verify.status == "equal" else "unproved"


def proof_badge(item: ClassOutcome) -> str:
    """Return the label with the degree of proof of a class."""
    if item.status == "kept":
        return badge("kept", _STATES["kept"])
    if item.verify.status != "not-run":
        return badge(item.verify.status, _PROOFS[item.verify.status])
    reason = reason_words(item)
    return badge("not-run", f"not verified ({reason})" if reason else "without a forward")


def _class(
    anchor: str, item: ClassOutcome, evidence: ClassEvidence | None, mark: str
) -> Iterator[str]:
    yield f'<article id="{anchor}" class="{item.status}" data-class="{escape(item.name.lower())}"'
    yield f' data-state="{proof_state(item)}"><h3>{escape(item.name)} '
    yield f"<small>line {item.line}</small> "
    if item.status != "kept":
        yield badge(item.status, _STATES[item.status])
    yield f"{proof_badge(item)}</h3>"
    if item.status != "kept":
        yield f"<p>{item.ops_in_graph} of {item.ops_total} operations are nodes of the graph."
        if words := detail_words(item):
            yield f" Proof: {prose(words)}"
        yield "</p>"
    for reason in item.reasons:
        known = REASONS[reason.code]
        yield f'<p class="reason"><b>{reason.code}</b> line {reason.line}: {prose(reason.message)}.'
        yield f"<br><i>{prose(known.title)}</i>. To do: {prose(known.advice)}.</p>"
    if evidence is not None:
        yield from _evidence(evidence, mark)
    yield "</article>"


def _evidence(evidence: ClassEvidence, mark: str) -> Iterator[str]:
    if evidence.checks:
        equal = sum(check.status == "equal" for check in evidence.checks)
        yield f"<details><summary>{equal} of {len(evidence.checks)} checks equal</summary>"
        yield '<div class="scroll"><table class="checks">'
        for check in evidence.checks:
            yield f"<tr><td>{escape(check.name)}</td><td>{badge(check.status)}</td>"
            yield f"<td>{prose(check.detail)}</td></tr>"
        yield "</table></div></details>"
    if evidence.drawing:
        yield f'<details{mark}><summary>The graph</summary><div class="picture">'
        yield f"{evidence.drawing}</div></details>"


def _script(script: ScriptFinding) -> Iterator[str]:
    yield f"<article><h3>The script as a whole {badge(script.status, _PROOFS[script.status])}</h3>"
    yield f"<p>{prose(script.detail)}</p>"
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


def _speed(speed: SpeedFinding) -> Iterator[str]:
    yield f"<article><h3>The training step, faster {badge(speed.status, _SPEEDS[speed.status])}</h3>"
    yield from (f"<p>{prose(line)}</p>" for line in speed_lines(speed))
    yield "</article>"


def _training(findings: tuple[TrainingFinding, ...], *, offers: bool) -> Iterator[str]:
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
                yield f"<br><b>{reason.code}</b> line {reason.line}: {prose(reason.message)}."
                yield f" To do: {prose(known.advice)}."
            if item.offer and offers:
                yield f"<br>{prose(item.offer)}"
            yield "</dd>"
    yield "</dl></article>"
