"""Checks of figures in documents against committed results, and of pictures against what draws them."""

import contextlib
import io
import json
import re

import torch

import flodl
from benchmarks import profile_coverage, proofs, scale, training, trips
from docs._build.gallery import TITLES, step_ratio, step_text
from flodl import FlowModule
from flodl.distributed.window_shapes import WindowShapes
from flodl_verify.compare.results import SEVEN
from tests.campaigns import campaigns
from tests.docs.reading import ROOT, blocks, documents, name_of, prose, read

RESULTS = ROOT / "benchmarks" / "results"
WORDS = (
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def result(name):
    return json.loads(read(RESULTS / f"{name}.json"))


def numbers(text):
    return [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


def row(root, name):
    (found,) = re.findall(rf"^\| {name} \|.*$", read(root / "README.md"), re.MULTILINE)
    return found.split("|")[2]


def wrong_index(root):
    """Find results of the table in README that the first page of the site does not have like that."""
    table = re.findall(r"^\| (.+?) \| (.*\d.*?) \|.*\|$", read(root / "README.md"), re.MULTILINE)
    shown = read(root / "docs/index.md")
    return [
        f"docs/index.md: {name}: is not as in README"
        for name, measured in table
        if f"| {name} | {measured} |" not in shown
    ]


def wrong_readme(root):
    """Find figures of the table in README that are not those of the results."""
    world = result("world")
    told = {kind: number for kind, number in world["total"].items() if kind != "not run"}
    total, equal = sum(told.values()), told["equal"]
    coverage = [
        [100 * each[kind] for each in result("profile_coverage")["rows"]]
        for kind in ("flow", "plain")
    ]
    steps = training.means(
        {
            path.stem: json.loads(read(path))
            for path in (RESULTS / "training-cpu").glob("*-cpu.json")
        }
    )
    exact = result("campaigns/exact")
    shares = {
        each["run"]: each["share"]
        for each in result("scale")["rows"]
        if each["speeds"] == [0.010, 0.025]
    }
    expected = {
        "a proof": [total, len(world["families"]), equal, told["both raise"], told["silently different"]],
        "a name, a time and a picture for every value": [
            round(limit(each), 1) for each in coverage for limit in (min, max)
        ],
        "a faster training step": [round(steps[name][0], 2) for name in ("fused", "eager")],
        "training that survives": [exact["cases"], 4, exact["worst"]["deaths"]],
        r"use of unequal devices \(alpha, on CPUs\)": [
            10, 25, *(round(100 * shares[name], 1) for name in ("Cadence", "Async", "DDP")),
        ],
    }  # fmt: skip
    return [
        f"README.md: {name}: {numbers(row(root, name))} for {found}"
        for name, found in expected.items()
        if numbers(row(root, name)) != found
    ]


def wrong_benchmarks(root):
    """Find tables of results that are not what the committed results give."""
    scaled, counted, covered = result("scale"), result("trips"), result("profile_coverage")
    scale_rows = [scale.Row(**each) for each in scaled["rows"]]
    share_rows = [profile_coverage.Row(**each) for each in covered["rows"]]
    proved = result("proofs")["families"]
    listed = "benchmarks/README.md"
    expected = [
        (listed, "scale.json", scale.lines(scale_rows, scaled["costs"])),
        (
            listed,
            "trips.json",
            [*trips.HEAD, *(trips.row(*each) for each in counted["trips"].items())],
        ),
        (
            listed,
            "profile_coverage.json",
            [*profile_coverage.HEAD, *map(profile_coverage.line, share_rows)],
        ),
        (
            "docs/explanation/verification.md",
            "proofs.json",
            [*proofs.HEAD, *map(proofs.row, proved)],
        ),
    ]
    return [
        f"{page}: {name} has other figures"
        for page, name, lines in expected
        if "\n".join(lines) not in read(root / page)
    ]


def wrong_step_times(root):
    """Find pages of the gallery whose time of a step is not the measured one."""
    index, found = read(root / "docs/gallery/index.md"), []
    for name, title in TITLES.items():
        page = root / "docs" / "gallery" / f"{name}.md"
        (listed,) = re.findall(rf"^\| \[{title}\].*$", index, re.MULTILINE)
        if step_text(name) not in read(page) or not listed.endswith(f"| {step_ratio(name)} |"):
            found.append(f"{name_of(root, page)}: a step takes {step_ratio(name)}")
    return found


def wrong_step_tables(root):
    """Find tables of training steps on the page of performance that are not those of the committed times."""
    page = root / "docs" / "benchmarks" / "performance.md"
    tables = (("training-cpu", "tiny"), ("training-cpu", "cpu"), ("training-h200", "published"))
    return [
        f"{name_of(root, page)}: {folder} {size}: has another table"
        for folder, size in tables
        if "\n".join(training.lines(RESULTS / folder, size)) not in read(page)
    ]


def wrong_anchors_of_windows(root):
    """Find rows of the table of anchors that `WindowShapes` does not compute."""
    path = root / "docs" / "explanation" / "el-che.md"
    rows = re.findall(r"^\| (\d+) \| (\d+), (\d+) \| ([\d.]+) % \|$", read(path), re.MULTILINE)
    shapes = WindowShapes([0.010, 0.025], 0.002)
    found = (
        [] if [each[0] for each in rows] == list("1234") else [f"{name_of(root, path)}: anchors"]
    )
    for anchor, first, second, share in rows:
        real = shapes.counts(int(anchor)), f"{shapes.efficiency(int(anchor)):.1%}"
        if real != ([int(first), int(second)], f"{share}%"):
            found.append(f"{name_of(root, path)}: anchor {anchor}: {real}")
    return found


def wrong_counts(root):
    """Find counts in words that differ from what they count: rows of a table, names, or campaigns."""
    page = "docs/benchmarks/performance.md"
    speeds = read(root / page).partition("### tiny")[2].partition("\neager:")[0]
    models = len(re.findall(r"^\| [a-z]\w+ \| \d", speeds, re.MULTILINE))
    added = {name for name in set(dir(FlowModule)) - set(dir(torch.nn.Module)) if name[0] != "_"}
    mutated = [each for each in campaigns() if each.test.endswith("ten_thousand_mutations")]
    counted = (
        (page, r"^(\w+) small networks", models),
        (page, r"^## The (\w+) models", models),
        ("README.md", r"\((\w+) models, sizes for a CPU\)", models),
        ("docs/explanation/verification.md", r"each of the first (\w+) checks", len(SEVEN)),
        ("docs/project/decisions.md", r"adds (\w+) public names", len(added)),
        ("SECURITY.md", r"seeded mutations each of ([^.]*)", len(mutated)),
    )
    found = []
    for page, pattern, number in counted:
        text = re.search(pattern, read(root / page), re.MULTILINE)
        word = text[1].lower() if text else "nothing"
        shown = WORDS.index(word) + 1 if word in WORDS else len(re.split(r",\s+|\s+and\s+", word))
        if text is None or shown != number:
            found.append(f"{page}: {word} for {number}")
    return found


def stale_pictures(root):
    """Find pictures that the first block of their page no longer draws."""
    names = {"__name__": "__main__"}
    code = next(block.body for block in blocks(root / "README.md") if block.kind == "python")
    torch.manual_seed(0)
    # Hovering shows lines, counted from the start of the block.
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, "README.md", "exec"), names)
    names["after"](names["x"])
    drawn = flodl.view(names["after"]).svg()
    picture = root / "docs" / "images" / "block.svg"
    return (
        [] if read(picture) == drawn else [f"{name_of(root, picture)}: is not what README draws"]
    )


def without_text(root):
    """Find pictures in documents without words for those who cannot see them."""
    return [
        f"{name_of(root, path)}: {found}"
        for path in documents(root)
        for found in re.findall(r"!\[\]\([^)]*\)", prose(path))
    ]
