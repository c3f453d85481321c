"""Writer of the gallery: one page per example of plain PyTorch, from what `fdl` prints about it.

    python -m docs._build.gallery          all pages, into docs/gallery
    python -m docs._build.gallery vae      one page

A page has the change that `fdl port` makes, the proof, the time of a step, the graph and the names of the
values. Nothing on it is written by hand, so that a page cannot promise what the tool does not do. The times
are those of `benchmarks/results/gallery.json`, which `benchmarks/gallery.py` measures.
"""

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from docs._build.running import ROOT

FOLDER: Final = ROOT / "docs" / "gallery"
EXAMPLES: Final = ROOT / "examples" / "pytorch"
TITLES: Final = {
    "bert": "BERT",
    "detector": "Object detector",
    "gan": "DCGAN",
    "gcn": "Graph network",
    "gpt": "GPT",
    "inception": "Inception",
    "lstm_tagger": "LSTM tagger",
    "mlp_residual": "Residual MLP",
    "resnet_cifar": "ResNet",
    "unet": "U-Net",
    "vae": "Variational autoencoder",
    "vit": "Vision Transformer",
}
TIMES: Final = ROOT / "benchmarks" / "results" / "gallery.json"
_LIMIT_S: Final = 300
_MOST_VALUES: Final = 12
_NOTE: Final = "<!-- Written by `python -m docs._build.gallery`; edit that program instead. -->"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the gallery: its Markdown, its pictures by file name, and its row in the index."""

    text: str
    pictures: dict[str, str]
    row: str


def page_of(name: str) -> Page:
    """Port, prove and draw one example; return its page.

    Raises:
        RuntimeError: a command failed; the message has what it printed.
    """
    source = EXAMPLES / f"{name}.py"
    path = source.relative_to(ROOT).as_posix()
    with tempfile.TemporaryDirectory() as folder:
        ported = Path(folder) / f"{name}_flodl.py"
        proof = _fdl("port", path, "-o", str(ported)).replace(f"{folder}/", "")
        proof = proof.replace(f"{ROOT.as_posix()}/", "")
        models = roots_of(source.read_text("utf-8"))
        pictures = {}
        for model in models:
            drawn = Path(folder) / "graph.svg"
            _fdl("graph", f"{path}:{model}", "--svg", str(drawn), "--force")
            pictures[f"{name}-{model}.svg"] = drawn.read_text("utf-8")
    change = _fdl("port", path, "--diff").replace(f"{ROOT.as_posix()}/", "")
    tables = {
        model: _fdl("graph", f"{path}:{model}", "--values") for model in models
    }
    parts = [
        f"# {TITLES[name]}",
        f"{_summary(source)}\nThe script is [{path}](../../{path}), plain PyTorch.",
        "## Before and after",
        f"`fdl port {path}` makes this change; all else stays as it is:",
        f"```diff\n{change.rstrip()}\n```",
        "## The proof",
        "It runs original and port side by side, and tells what it compared:",
        f"```text\n{proof.rstrip()}\n```",
        "## A training step",
        step_text(name),
        "## The graph",
        *(_drawn(name, path, model) for model in models),
        "## Every value by name",
        *(_values(path, model, table) for model, table in tables.items()),
        _NOTE,
    ]
    cells = (f"[{TITLES[name]}]({name}.md)", _summary(source), _count(proof), step_ratio(name))
    row = f"| {' | '.join(cells)} |"
    return Page(text="\n\n".join(parts) + "\n", pictures=pictures, row=row)


def index_of(rows: list[str]) -> str:
    """Return the page that leads to all others."""
    parts = [
        "# Gallery",
        "Each page shows one script of plain PyTorch: the change that `fdl port` makes, the proof, the time\n"
        "of a training step, the graph and the names of its values. `python -m docs._build.gallery` writes\n"
        "the pages from what the tool prints and `python benchmarks/gallery.py` measures. *Step* is a\n"
        "training step of the port as a multiple of the original's.",
        "| Model | Script | Proof | Step |\n|---|---|---|---|\n" + "\n".join(rows),
        _NOTE,
    ]
    return "\n\n".join(parts) + "\n"


def step_ratio(name: str, times: Path = TIMES) -> str:
    """Return a training step of the port as a multiple of the original's, with its spread.

    Args:
        name: the example.
        times: the result of `benchmarks/gallery.py`.
    """
    row = _step_row(name, times)
    return f"{row['ratio']:.2f} \u00b1 {row['spread']:.2f}"


def step_text(name: str, times: Path = TIMES) -> str:
    """Return what was measured about a training step, and where and how.

    Args:
        name: the example.
        times: the result of `benchmarks/gallery.py`.
    """
    row, measured = _step_row(name, times), json.loads(times.read_text("utf-8"))["measured"]
    low, high = measured["load"]
    return (
        f"A step of the port takes {step_ratio(name, times)} times the processor time of the original's: "
        f"{row['port_ms']:.2f} ms and\n{row['original_ms']:.2f} ms, the medians of {row['steps']} pairs of "
        f"steps in turns. `python benchmarks/gallery.py` measured it on\n{measured['date']} with torch "
        f"{measured['versions']['torch']}, on {measured['machine']},\nat a load of {low} to {high}. The loop "
        "is that of the script; [another page](../benchmarks/performance.md) tells what makes\nsteps faster."
    )


def _step_row(name: str, times: Path) -> dict[str, Any]:
    rows = json.loads(times.read_text("utf-8"))["rows"]
    return next(row for row in rows if row["name"] == name)


def roots_of(text: str) -> list[str]:
    """Return the modules of a script that no other one of its modules makes.

    Example:
        >>> roots_of("class A(nn.Module): pass\\nclass B(nn.Module):\\n    def __init__(self): self.a = A()")
        ['B']
    """
    classes = [
        each
        for each in ast.parse(text).body
        if isinstance(each, ast.ClassDef) and any("Module" in ast.unparse(b) for b in each.bases)
    ]
    used = {
        node.id
        for each in classes
        for node in ast.walk(each)
        if isinstance(node, ast.Name) and node.id != each.name
    }
    # A class that is passed in, as the block of a ResNet, is named by the code below the classes.
    passed = {
        argument.id
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and ast.unparse(node.func) != "super"
        for argument in node.args
        if isinstance(argument, ast.Name)
    }
    return [each.name for each in classes if each.name not in used | passed]


def _fdl(*words: str) -> str:
    environ = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", "fdl_cli", *words],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
    if done.returncode not in (0, 1) or not (done.stdout or "--svg" in words):
        message = f"fdl {' '.join(words)} failed:\n{done.stdout}{done.stderr}"
        raise RuntimeError(message)
    return done.stdout


def _summary(source: Path) -> str:
    return (ast.get_docstring(ast.parse(source.read_text("utf-8"))) or "").splitlines()[0]


def _drawn(name: str, path: str, model: str) -> str:
    command = shlex.join(["fdl", "graph", f"{path}:{model}"])
    return (
        f"![the graph of {model}]({name}-{model}.svg)\n\n"
        f"```sh\n{command} --svg {model.lower()}.svg\n```"
    )


def _values(path: str, model: str, table: str) -> str:
    head, *rows = table.rstrip().splitlines()
    shown = [head, *rows[:_MOST_VALUES]]
    rest = len(rows) - _MOST_VALUES
    more = f" The first {_MOST_VALUES} of {len(rows)}:" if rest > 0 else ""
    text = "\n".join(line.rstrip() for line in shown)
    command = f"fdl graph {path}:{model} --values"
    return f"`{command}` lists what a run of the model has.{more}\n\n```text\n{text}\n```"


def _count(proof: str) -> str:
    found = re.search(r"^(\d+ class\w*: .*)$", proof, re.MULTILINE)
    if found is not None:
        return found[1]
    # The report of one class has no line with totals.
    return "1 class: 1 proved" if re.search(r"^  graph .*, equal", proof, re.MULTILINE) else ""


def main() -> None:
    """Write the pages that the command line names, or all of them with the index."""
    FOLDER.mkdir(exist_ok=True)
    names = sys.argv[1:] or list(TITLES)
    rows = []
    for name in names:
        page = page_of(name)
        (FOLDER / f"{name}.md").write_text(page.text, "utf-8")
        for file, picture in page.pictures.items():
            (FOLDER / file).write_text(picture, "utf-8")
        rows.append(page.row)
    if not sys.argv[1:]:
        (FOLDER / "index.md").write_text(index_of(rows), "utf-8")


if __name__ == "__main__":
    main()
