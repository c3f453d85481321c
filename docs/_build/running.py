"""Runner of tutorials: one process for each, in an empty folder, with the output of every cell.

As a program it runs the cells of one file and writes what they showed as JSON:
`python -m docs._build.running TUTORIAL.py RESULT.json`.
"""

import ast
import contextlib
import functools
import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol, final, runtime_checkable

from docs._build.percent import Cell, parse_cells

ROOT: Final = Path(__file__).parents[2]
# A tutorial takes some ten seconds; one that hangs must not hold up the build.
LIMIT_S: Final = 300


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Output of one code cell: its printed lines and value, and a picture if the value has one."""

    printed: str = ""
    picture: str = ""


@runtime_checkable
class Drawn(Protocol):
    """A value that notebooks show as a picture."""

    def _repr_svg_(self) -> str | None: ...


def run_all(paths: Iterable[Path], processes: int = 2) -> tuple[tuple[Output, ...], ...]:
    """Run tutorials side by side; return for each the outputs of its code cells."""
    with ThreadPoolExecutor(processes) as pool:
        return tuple(pool.map(run_tutorial, paths))


def run_tutorial(path: Path) -> tuple[Output, ...]:
    """Run one tutorial in a process and a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(path, folder)
        result = folder / "result.json"
        # Processes side by side must not start a thread per core each.
        environ = {"OMP_NUM_THREADS": "1", **os.environ}
        environ |= {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "COLUMNS": "100"}
        done = subprocess.run(
            [sys.executable, "-m", "docs._build.running", path.name, str(result)],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        if done.returncode != 0:
            message = f"{path.name} failed:\n{done.stderr[-3000:]}"
            raise RuntimeError(message)
        rows = json.loads(result.read_text(encoding="utf-8"))
    return tuple(Output(**row) for row in rows)


def run_cells(name: str, cells: Iterable[Cell]) -> list[Output]:
    """Run the code cells of a file in one namespace, as a notebook does."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    return [_run(name, cell, namespace) for cell in cells if cell.kind == "code"]


def _run(name: str, cell: Cell, namespace: dict[str, Any]) -> Output:
    # Padding puts the file's line numbers into tracebacks, and lets `inspect` find the source.
    tree = ast.parse("\n" * (cell.line - 1) + cell.text, name)
    last = tree.body[-1] if tree.body else None
    shown = None
    if isinstance(last, ast.Expr):
        tree.body.pop()
        shown = ast.Expression(last.value)
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
        if shown is not None:
            value = eval(compile(shown, name, "eval"), namespace)
    return _output(printed.getvalue(), value)


def _output(printed: str, value: Any) -> Output:
    picture = picture_of(value)
    if value is not None and not picture:
        printed += f"{value!r}\n"
    return Output(printed=printed, picture=picture)


def picture_of(value: Any) -> str:
    """Return the SVG text of a value that a notebook would draw, else an empty text."""
    return (value._repr_svg_() or "") if isinstance(value, Drawn) else ""


@functools.cache
def torchvision_starts() -> bool:
    """Return False where it is built for another torch: beside a CPU build that is the usual case."""
    try:
        importlib.import_module("torchvision")
    except (ImportError, RuntimeError):
        return False
    return True


def main() -> None:
    """Run the cells of the file that the command line names."""
    name, result = sys.argv[1:]
    text = Path(name).read_text(encoding="utf-8")
    if "transformers" in text and not torchvision_starts():
        sys.modules["torchvision"] = None  # type: ignore[assignment] # transformers would import it
    cells = parse_cells(text)
    outputs = run_cells(name, cells)
    Path(result).write_text(json.dumps([asdict(each) for each in outputs]), encoding="utf-8")


if __name__ == "__main__":
    main()
