"""Page of measured results: tables and charts, made from the committed JSON of the benchmarks."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median
from typing import Any, Final, final

from benchmarks.shared.conditions import together, told
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
    """A file of results, or a folder of them: what it tells, the command that writes it, and its figures.

    A result has `bars`, which make a chart and a table, or the `head` and the `rows` of a table.
    """

    stem: str
    title: str
    about: str
    command: str
    measured: Mapping[str, Any]
    is_timed: bool = True
    bars: tuple[Bar, ...] = ()
    head: tuple[str, ...] = ("Case", "Measured")
    rows: tuple[tuple[object, ...], ...] = ()


def results() -> tuple[Result, ...]:
    """Return all committed results, those with a chart first."""
    return (
        _steps(), _gallery(), _profiles(), _scale(), _world(), _families(), _proofs(), _libraries(), _campaigns(),
    )  # fmt: skip


def write_result_page(folder: Path) -> None:
    """Write the page and its charts."""
    parts = [INTRODUCTION]
    for each in results():
        about = f"{each.about} `{each.command}` measures it.\n\n{told(each.measured, is_timed=each.is_timed)}"
        rows = each.rows or tuple((bar.name, bar.text) for bar in each.bars)
        if each.bars:
            name = f"results-{each.stem}.svg"
            (folder / name).write_text(chart(each.title, each.bars), "utf-8")
            about += f"\n\n![{each.title}, as bars]({name})"
        parts.append(f"## {each.title}\n\n{about}\n\n{_table(each.head, rows)}")
    (folder / "results.md").write_text("\n".join(parts), "utf-8")


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    names = tuple(head)
    lines = (names, ("---",) * len(names), *rows)
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _steps() -> Result:
    found = {
        path.stem.removesuffix("-cpu"): json.loads(path.read_text("utf-8"))
        for path in sorted((RESULTS / "training-cpu").glob("*-cpu.json"))
    }
    return Result(
        stem="training-cpu",
        title="A training step as one compiled function",
        about="How many times as fast a compiled step is as the plain loop with a fused optimizer. The line is 1.",
        command="python benchmarks/training.py --size cpu",
        measured=together([each["measured"] for each in found.values()]),
        bars=tuple(
            Bar(name=name, value=value, bar=1.0, text=f"{value:.2f} \u00b1 {spread:.2f}")
            for name, each in found.items()
            for value, spread in (_ratio(each["times"]["fused"], each["times"]["flodl captured"]),)
        ),
    )


def _ratio(slow: Iterable[float], fast: Iterable[float]) -> tuple[float, float]:
    each = [a / b for a, b in zip(slow, fast, strict=True)]
    middle = median(each)
    return middle, median(abs(value - middle) for value in each)


def _gallery() -> Result:
    whole = _read("gallery")
    return Result(
        stem="gallery",
        title="A training step of a port",
        about="The time of a step of the port, as a multiple of the original's. The line is 1: as fast as before.",
        command="python benchmarks/gallery.py",
        measured=whole["measured"],
        bars=tuple(
            Bar(name=row["name"], value=row["ratio"], bar=1.0,
                text=f"{row['ratio']:.2f} \u00b1 {row['spread']:.2f}")
            for row in whole["rows"]
        ),
    )  # fmt: skip


def _profiles() -> Result:
    whole = _read("profile_coverage")
    return Result(
        stem="profile_coverage",
        title="Time that a profile explains",
        about="The share of a forward that the times of a flow's steps cover. The line is the bar.",
        command="python benchmarks/profile_coverage.py",
        measured=whole["measured"],
        bars=tuple(
            Bar(name=row["model"], value=row["flow"], bar=whole["bar"],
                text=f"{row['flow']:.1%}; plain module {row['plain']:.1%}".replace("%", " %"))
            for row in whole["rows"]
        ),
    )  # fmt: skip


def _scale() -> Result:
    whole = _read("scale")
    return Result(
        stem="scale",
        title="Use of unequal devices (alpha)",
        about="The share of what all ranks can train together. A line is the bar of a run.",
        command="python benchmarks/scale.py",
        measured=whole["measured"],
        bars=tuple(
            Bar(name=row["run"], value=row["share"], bar=row["bar"],
                text=f"{row['share']:.1%}; {_speeds(row['speeds'])}".replace("%", " %"))
            for row in whole["rows"]
        ),
    )  # fmt: skip


def _world() -> Result:
    whole = _read("world")
    return Result(
        stem="world",
        is_timed=False,
        title="Changes of the world between calls",
        about="After a port was called once, one thing around it changes, such as a flag or a weight; it is called "
        f"again beside the original. These are changes on {len(whole['families'])} families of models.",
        command="python benchmarks/world.py --budget-s 60",
        measured=whole["measured"],
        head=("Outcome", "Changes"),
        rows=tuple((name, f"{number:,}") for name, number in whole["total"].items()),
    )


def _families() -> Result:
    whole = _read("hf")
    checks = ("keys", "eval", "train", "gradients", "value")
    return Result(
        stem="hf",
        is_timed=False,
        title="Models of transformers as graphs",
        about="`flodl.hf.graph(model)` on a small model of each family, beside the original: the keys of its "
        "`state_dict`, outputs in both modes, gradients, and a captured value.",
        command="python benchmarks/hf.py",
        measured=whole["measured"],
        head=("Family", "Model", "Classes as graphs", "Equal in"),
        rows=tuple(
            (row["family"], row["model"], row["graphs"], f"{sum(row[each] for each in checks)} of {len(checks)}")
            for row in whole["rows"]
        ),
    )  # fmt: skip


def _proofs() -> Result:
    whole = _read("proofs")
    return Result(
        stem="proofs",
        title="Proofs of files of transformers",
        about="The classes with a forward that `fdl port` proves equal, with inputs that it finds by itself.",
        command="python benchmarks/proofs.py",
        measured=whole["measured"],
        head=("Family", "Classes", "Proved", "Seconds"),
        rows=tuple(
            (row["family"], row["classes"], row["proved"], row["wall_s"]) for row in whole["families"]
        ),
    )  # fmt: skip


def _libraries() -> Result:
    found = {
        path.stem: json.loads(path.read_text("utf-8"))
        for path in sorted((RESULTS / "library").glob("*.json"))
    }
    versions = {name: each["measured"]["versions"][name] for name, each in found.items()}
    first = next(iter(found.values()))["measured"]
    torch = {each["measured"]["versions"]["torch"] for each in found.values()}
    return Result(
        stem="library",
        is_timed=False,
        title="Libraries under their own tests",
        about="The code of a library is ported in place, and its tests run on both. Digests of every module call are "
        "compared. A test that needs TorchScript stops at `torch.jit.script`.",
        command="python benchmarks/library.py LIBRARY",
        measured={
            "date": max(each["measured"]["date"] for each in found.values()),
            "python": first["python"],
            "versions": {"torch": " and ".join(sorted(torch)), **versions},
        },
        head=("Library", "Compared", "Same", "No TorchScript", "Wrong", "Newly failing"),
        rows=tuple(
            (name, *(each[kind] for kind in ("compared", "same", "no TorchScript", "wrong", "newly failing")))
            for name, each in found.items()
        ),
    )  # fmt: skip


def _campaigns() -> Result:
    found = [json.loads(path.read_text("utf-8")) for path in sorted((RESULTS / "campaigns").glob("*.json"))]
    dates = sorted(each["measured"]["date"] for each in found)
    return Result(
        stem="campaigns",
        is_timed=False,
        title="Campaigns of faults",
        about="Long tests with random kills, damaged files and hostile input. A test refuses a result that is older "
        "than the code it covers.",
        command="./fdl test -m campaign",
        measured={
            "date": f"{dates[0]} to {dates[-1]}",
            "python": " and ".join(sorted({each["measured"]["python"] for each in found})),
            "versions": found[0]["measured"]["versions"],
        },
        head=("Campaign", "Cases", "Outcomes", "Worst"),
        rows=tuple(
            (each["campaign"], f"{each['cases']:,}", _pairs(each["outcomes"]), _pairs(each["worst"]))
            for each in found
        ),
    )  # fmt: skip


def _pairs(found: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number:,}" for name, number in found.items())


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
    return f"{', '.join(f'{1000 * each:.3g}' for each in seconds)} ms a batch"


def _read(stem: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{stem}.json").read_text("utf-8"))
    return found
