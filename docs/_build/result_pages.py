"""Page of measured results: tables and charts, made from the committed JSON of the benchmarks."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Final, final

from docs._build.running import ROOT

RESULTS: Final = ROOT / "benchmarks" / "results"
INTRODUCTION: Final = """\
# Measured results

Each table is made from a file that a benchmark wrote. [Performance of a training step](performance.md) explains the
ways to a faster step.
"""
STYLE: Final = (
    "text{font:12px sans-serif;fill:#1b1f24}rect{fill:#4470c0}line{stroke:#b9821a;stroke-width:2}"
    "@media(prefers-color-scheme:dark){text{fill:#e8ecf0}rect{fill:#7fa3ea}line{stroke:#e0b253}}"
)
LEFT, WIDTH, ROW = 200, 300, 22


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bar of a chart: its name, its value, the text that tells it, and a mark to reach."""

    name: str
    value: float
    text: str
    bar: float | None = None


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A file of results: what it tells, the program that writes it, and its bars."""

    stem: str
    title: str
    about: str
    bars: tuple[Bar, ...]


def results() -> tuple[Result, ...]:
    """Return the results that have a chart."""
    gallery, profiles, scale = (
        _read(stem)["rows"] for stem in ("gallery", "profile_coverage", "scale")
    )
    return (
        Result(
            stem="gallery",
            title="A training step of a port",
            about="The time of a step of the port, as a multiple of the original's. The line is 1: as fast as before.",
            bars=tuple(
                Bar(name=row["name"], value=row["ratio"], bar=1.0,
                    text=f"{row['ratio']:.2f} \u00b1 {row['spread']:.2f}")
                for row in gallery
            ),
        ),
        Result(
            stem="profile_coverage",
            title="Time that a profile explains",
            about="The share of a forward that the times of a flow's steps cover. The line is the bar.",
            bars=tuple(
                Bar(name=row["model"], value=row["flow"], bar=_read("profile_coverage")["bar"],
                    text=f"{row['flow']:.1%}; plain module {row['plain']:.1%}".replace("%", " %"))
                for row in profiles
            ),
        ),
        Result(
            stem="scale",
            title="Use of unequal devices (alpha)",
            about="The share of what all ranks can train together. A line is the bar of a run.",
            bars=tuple(
                Bar(name=row["run"], value=row["share"], bar=row["bar"],
                    text=f"{row['share']:.1%}; {_speeds(row['speeds'])}".replace("%", " %"))
                for row in scale
            ),
        ),
    )  # fmt: skip


def write_result_page(folder: Path) -> None:
    """Write the page and its charts."""
    parts = [INTRODUCTION]
    for each in results():
        name = f"results-{each.stem}.svg"
        (folder / name).write_text(chart(each.title, each.bars), "utf-8")
        rows = "".join(f"| {bar.name} | {bar.text} |\n" for bar in each.bars)
        parts.append(
            f"## {each.title}\n\n{each.about} `python benchmarks/{each.stem}.py` measures it.\n\n"
            f"{conditions(_read(each.stem)['measured'])}\n\n![{each.title}, as bars]({name})\n\n"
            f"| Case | Measured |\n|---|---|\n{rows}"
        )
    (folder / "results.md").write_text("\n".join(parts), "utf-8")


def conditions(measured: Mapping[str, Any]) -> str:
    """Return when and where something was measured, and that the file does not tell what it does not tell.

    Example:
        >>> conditions({"date": "2026-11-27", "python": "3.11.7", "versions": {"torch": "2.13.0"}})
        'Measured on 2026-11-27, Python 3.11.7, torch 2.13.0; machine not noted; load not noted.'
    """
    versions = ", ".join(f"{name} {version}" for name, version in measured["versions"].items())
    cores = f"{measured['cpus']} processors" if "cpus" in measured else "machine not noted"
    load = measured.get("load", "not noted")
    loads = " to ".join(map(str, load)) if isinstance(load, list) else load
    commit = f", commit {measured['commit'][:10]}" if "commit" in measured else ""
    return (
        f"Measured on {measured['date']}{commit}, Python {measured['python']}, {versions}; "
        f"{measured.get('machine', cores)}; load {loads}."
    )


def chart(title: str, bars: Iterable[Bar]) -> str:
    """Return horizontal bars with their texts as SVG, and a line where each has to come to."""
    rows = tuple(bars)
    scale = WIDTH / max(max(row.value, row.bar or 0.0) for row in rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {LEFT + WIDTH + 250} {ROW * len(rows)}"><style>{STYLE}</style>'
    ]
    for number, row in enumerate(rows):
        top = ROW * number
        length, mark = row.value * scale, LEFT + (row.bar or 0.0) * scale
        parts.append(
            f'<text x="{LEFT - 8}" y="{top + 15}" text-anchor="end">{escape(row.name)}</text>'
            f'<rect x="{LEFT}" y="{top + 4}" width="{length:.1f}" height="{ROW - 8}"/>'
            f'<text x="{LEFT + WIDTH + 12}" y="{top + 15}">{escape(row.text)}</text>'
        )
        if row.bar is not None:
            parts.append(
                f'<line x1="{mark:.1f}" x2="{mark:.1f}" y1="{top + 2}" y2="{top + ROW - 2}"/>'
            )
    return "".join((*parts, "</svg>\n"))


def _speeds(seconds: Iterable[float]) -> str:
    return f"{', '.join(f'{1000 * each:g}' for each in seconds)} ms a batch"


def _read(stem: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{stem}.json").read_text("utf-8"))
    return found
