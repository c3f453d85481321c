"""The migration guide taken apart: its names, its rows, and its pairs of programs."""

import functools
import gc
import math
import random
import re
import resource
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn, optim

import flodl
from flodl import autograd, ops, tensor
from flodl.checkpoint import background, files, migrate, store, training
from flodl.nn import (
    blur,
    cuda_graphs,
    devices,
    init,
    losses,
    modules,
    optimizers,
    parameters,
    precision,
    rng,
    schedulers,
    single_stream,
)

PATH = Path(__file__).parents[3] / "docs" / "migration.md"
ROOMS = (
    background, blur, cuda_graphs, devices, files, init, losses, migrate, modules, ops, optimizers,
    parameters, precision, rng, schedulers, single_stream, store, tensor, training, autograd,
)  # fmt: skip
TORCH = {
    "torch": torch, "nn": nn, "F": F, "optim": optim, "random": random, "gc": gc, "math": math,
    "resource": resource,
}  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """Two texts that compute the same, and where they stand."""

    line: int
    section: str
    torch: str
    flodl: str


def _number(text, place):
    return text.count("\n", 0, place) + 1


def text():
    return PATH.read_text(encoding="utf-8")


@functools.cache
def setup():
    (found,) = re.findall(r"```python setup\n(.*?)```", text(), re.DOTALL)
    return compile(found, str(PATH), "exec")


def rows():
    section, found = "", []
    for number, line in enumerate(text().splitlines(), 1):
        if line.startswith("## "):
            section = line[3:]
        match = re.fullmatch(r"\| `(.+)` \| `(.+)` \|", line)
        if match:
            found.append(Pair(number, section, *match.groups()))
    return found


def programs():
    pattern = r"### ([^\n]+)\n(?:(?!\n### |\n## ).)*?```python torch\n(.*?)```\n+```python flodl\n(.*?)```"
    whole = text()
    return [
        Pair(_number(whole, each.start()), each[1], each[2], each[3])
        for each in re.finditer(pattern, whole, re.DOTALL)
    ]


@functools.cache
def flodl_names():
    """Return what a program that imports flodl can name."""
    found = {}
    for room in ROOMS:
        found |= {name: value for name, value in vars(room).items() if not name.startswith("_")}
    return found | {name: value for name, value in vars(flodl).items() if not name.startswith("_")}


def namespace(side, folder):
    """Return fresh names for one side: torch's on the left; on the right flodl's over them."""
    names = {**TORCH, "folder": folder}
    if side == "flodl":
        names |= {name: value for name, value in flodl_names().items() if name not in TORCH}
    exec(setup(), names)
    torch.manual_seed(1)
    random.seed(1)
    return names
