"""The migration guide taken apart: its names, its rows, and its pairs of programs."""

import ast
import functools
import random
import re
from dataclasses import dataclass
from pathlib import Path

import torch

import flodl

PATH = Path(__file__).parents[3] / "docs" / "reference" / "pytorch-map.md"


@dataclass(frozen=True)
class Pair:
    """Two texts that compute the same, and where they stand."""

    line: int
    section: str
    torch: str
    flodl: str

    @property
    def key(self):
        """Return the name of the test of a row."""
        return f"{self.line} {'; '.join(self.flodl.splitlines())}"


def _number(text, place):
    return text.count("\n", 0, place) + 1


def text():
    return PATH.read_text(encoding="utf-8")


@functools.cache
def setup(kind="setup"):
    (found,) = re.findall(rf"```python {kind}\n(.*?)```", text(), re.DOTALL)
    return compile(found, str(PATH), "exec")


def rows():
    section, found = "", []
    for number, line in enumerate(text().splitlines(), 1):
        if line.startswith("## "):
            section = line[3:]
        match = re.fullmatch(r"\| (`.+`) \| (`.+`) \|", line)
        if match:
            found.append(Pair(number, section, *map(_lines_of, match.groups())))
    return found


def _lines_of(cell):
    """Return the code of a cell: one line for each `...`, with `<br>` between them."""
    return "\n".join(each[1:-1] for each in cell.split("<br>"))


# What a row compares that ends with an assignment.
_VALUES = {
    "optimizer": "fit(optimizer)",
    "schedule": "rates(schedule)",
    "plateau": "plateau_rates(plateau)",
}


def value_of(code, names):
    """Run the lines of a cell in some names, and return the value of the last one."""
    *before, last = ast.parse(code).body
    if isinstance(last, ast.Assign):
        before.append(last)
        (target,) = last.targets
        last = ast.parse(_VALUES[target.id]).body[0]
    exec(compile(ast.Module(before, []), str(PATH), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(PATH), "eval"), names)


def unchanged():
    """Return what is written alike on both sides: the list of the section about it."""
    section = text().partition("## The same on both sides\n")[2].partition("\n## ")[0]
    listed = section[section.index("\n- ") :]
    return re.findall(r"`([^`]+)`", listed)


def programs():
    pattern = r"### ([^\n]+)\n(?:(?!\n### |\n## ).)*?```python torch\n(.*?)```\n+```python flodl\n(.*?)```"
    whole = text()
    return [
        Pair(_number(whole, each.start()), each[1], each[2], each[3])
        for each in re.finditer(pattern, whole, re.DOTALL)
    ]


def right_side():
    """Return everything that the page writes for flodl and that the tests run."""
    blocks = re.findall(r"^```python\n(.*?)^```", text(), re.DOTALL | re.MULTILINE)
    return [*(each.flodl for each in (*rows(), *programs())), *unchanged(), *blocks]


@functools.cache
def flodl_names():
    """Return what `from flodl import *` gives."""
    return {name: vars(flodl)[name] for name in flodl.__all__}


def namespace(side):
    """Return fresh names for one side: those of the page's first block; on the right flodl's with them."""
    names = {}
    exec(setup(), names)
    if side == "flodl":
        exec(setup("setup flodl"), names)
    torch.manual_seed(1)
    random.seed(1)
    return names
