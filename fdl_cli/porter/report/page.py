"""The report of a port as one page: contents, next steps, proofs, graphs, and both texts side by side."""

import base64
import hashlib
from collections.abc import Iterable, Iterator
from html import escape
from importlib import resources

from fdl_cli.porter.ir.findings import ClassOutcome, FileOutcome
from fdl_cli.porter.knowledge.reasons import REASONS
from fdl_cli.porter.report.proofs import example, totals
from fdl_cli.porter.report.prose import badge, prose
from fdl_cli.porter.report.sections import class_id, file_id, file_section, proof_badge

# More files than this begin with their pictures and texts folded, so that the page can be surveyed.
_UNFOLDED_FILES = 2
_FILTER = """\
<div class="tools" hidden><input id="find" type="search" placeholder="Find a file or class"
 aria-label="Find a file or class"><select id="state" aria-label="Classes to show">
<option value="">All classes</option><option value="proved">Proved equal</option>
<option value="unproved">Not proved</option><option value="kept">Kept</option></select>
<button id="unfold" type="button" aria-pressed="false">Unfold all</button>
<output id="count" aria-live="polite"></output></div>"""
Named = tuple[str, str | None, FileOutcome]


def page(files: Iterable[Named]) -> str:
    """Return the page for files: each with its name, the name of its port, and its outcome."""
    listed = list(files)
    parts = [*_overview(listed), *_contents(listed), '<div class="files">']
    for number, (name, target, outcome) in enumerate(listed):
        unfolded = len(listed) <= _UNFOLDED_FILES
        parts += file_section(number, name, target, outcome, unfolded=unfolded)
    script = _asset("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Port report</title>\n<style>\n{_asset('page.css')}</style>\n"
        "<noscript><style>tbody.rest{display:table-row-group}</style></noscript>\n"
        "</head>\n<body>\n<main>\n"
        + "\n".join(parts)
        + f"\n</div>\n</main>\n<script>{script}</script>\n</body>\n</html>\n"
    )


def _asset(name: str) -> str:
    return resources.files("fdl_cli.porter.report").joinpath(name).read_text("utf-8")


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
        yield f"<p>{prose(totals(classes, max(times) or None))}</p>"
    steps = list(_next_steps(files))
    if steps:
        yield "<h2>Next steps</h2><ol>" + "".join(f"<li>{step}</li>" for step in steps) + "</ol>"
    yield "</header>"


def _contents(files: list[Named]) -> Iterator[str]:
    yield f'<nav aria-label="Contents"><h2>Contents</h2>{_FILTER}<ul>'
    for number, (name, _, outcome) in enumerate(files):
        link = f'<a href="#{file_id(number)}">{escape(name)}</a>'
        yield f'<li data-for="{file_id(number)}">{link} {badge(outcome.status)}<ul>'
        for position, item in enumerate(outcome.classes):
            anchor = class_id(number, position)
            yield f'<li data-for="{anchor}"><a href="#{anchor}">{escape(item.name)}</a>'
            yield f" {proof_badge(item)}</li>"
        yield "</ul></li>"
    yield "</ul></nav>"


def _next_steps(files: list[Named]) -> Iterator[str]:
    for name, _, outcome in files:
        if outcome.error is not None:
            yield f"{escape(name)}: {prose(outcome.error.hint)}"
        for item in outcome.classes:
            for reason in item.reasons[:1]:
                advice = prose(REASONS[reason.code].advice)
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
        detail = prose(item.verify.detail)
        yield f"{escape(name)}:{item.line} <b>{escape(item.name)}</b> is not proved: {detail}"
