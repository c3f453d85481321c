"""Blocks take their arguments and inputs from scripts, functions and objects that use them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.sandbox.isolated_import import open_sides

pytestmark = pytest.mark.torch

NET = """
class {name}(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.fc = nn.Linear(*table["sizes of {name}"])

    def forward(self, pair):
        return self.fc(pair["left"]) + pair["right"]

"""
USE = """{name}({{"sizes of {name}": (3, 5)}})({{"left": torch.ones(2, 3), "right": torch.ones(5)}})"""
# Its table is known only while the code around it runs.
FLEETING = """
KNOWN = []


class Fleeting(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.fc = nn.Linear(*table["sizes of Fleeting"])

    def forward(self, pair):
        return self.fc(pair["left"]) + KNOWN[0]


def with_known():
    KNOWN.append(1.0)
    Fleeting({"sizes of Fleeting": (3, 5)})({"left": torch.ones(2, 3)})
    KNOWN.clear()

"""
NAMES = ("Guarded", "Plain", "Played", "Called", "Carried", "Deep", "Fleeting", "Unused")
OWNER = """
class Wrapper:
    def __init__(self, table):
        self.net = Carried(table)

    def act(self, pair):
        return self.net(pair)
"""
FILES = {
    "nets.py": "import torch\nfrom torch import nn\n"
    + "".join(NET.format(name=n) for n in NAMES if n != "Fleeting")
    + OWNER
    + FLEETING,
    "guarded.py": f"""
import argparse
import torch
from nets import Guarded

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=5)
    assert parser.parse_args().width == 5
    loss = {USE.format(name="Guarded")}.sum()
    torch.set_default_dtype(torch.float64)
    loss.backward()
    raise SystemExit("not reached: a run ends at its first backward pass")
""",
    "plain.py": f"""
import torch
from nets import Plain

for epoch in range(1000000):
    {USE.format(name="Plain")}.sum().backward()
""",
    "agent.py": f"""
import torch
from nets import Played


class Agent:
    def __init__(self, mode, device):
        if mode == "train":
            raise NotImplementedError("only played")
        assert mode == "play" and str(device) == "cpu", mode

    def run(self):
        return {USE.format(name="Played")}

    def train(self, batches):
        raise AssertionError("it takes arguments")
""",
    "called.py": f"""
import torch
from nets import Called


def show():
    return {USE.format(name="Called")}


def show_more(size):
    raise AssertionError(size)
""",
    "around.py": """
from torch import nn
from nets import Deep

SIZES = "sizes of Deep"


class Around(nn.Module):
    def __init__(self, width, table):
        super().__init__()
        self.inner = Deep(table["of the inner"])

    def forward(self, pair):
        return self.inner(pair["of the inner"])
""",
    "two_away.py": """
import torch
from around import SIZES, Around


def play():
    net = Around(3, {"of the inner": {SIZES: (3, 5)}})
    return net({"of the inner": {"left": torch.ones(2, 3), "right": torch.ones(5)}})
""",
    "carried.py": """
import torch
from nets import Wrapper


def play():
    wrapper = Wrapper({"sizes of Carried": (3, 5)})
    return wrapper.act({"left": torch.ones(2, 3), "right": torch.ones(5)})
""",
}


@pytest.mark.slow
def test_cases_come_from_what_makes_models_without_being_one(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    file = tmp_path / "nets.py"
    original, _ = open_sides(file, file, (tmp_path,))
    original.load()
    book = CaseFinder(original, NAMES, budget_s=60.0)
    main, argv, path = sys.modules["__main__"], list(sys.argv), list(sys.path)
    # Without guesses, which know the arguments of the calls in these files: the code has to run.
    book.add_users()
    assert book.missing == ("Fleeting", "Unused"), book.reasons
    origins = {name: book.cases[name][0].origin for name in NAMES[:-2]}
    assert origins == {
        "Guarded": "seen in `guarded.py`",
        "Plain": "seen in `plain.py`",
        "Played": "seen in `agent.py`",
        "Called": "seen in `called.py`",
        "Carried": "seen in `carried.py`",
        "Deep": "seen in `two_away.py`",
    }
    # What ran leaves nothing behind.
    assert sys.modules["__main__"] is main
    assert (sys.argv, sys.path) == (argv, path)
    assert torch.get_default_dtype() == torch.float32
    assert not {"guarded", "agent", "nets"} & set(sys.modules)


@pytest.mark.slow
def test_what_hangs_is_left_when_its_time_is_over(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(FILES["nets.py"], encoding="utf-8")
    (tmp_path / "hung.py").write_text(
        "from nets import Called\n\ndef wait():\n    Called\n    while True:\n        pass\n",
        encoding="utf-8",
    )
    (tmp_path / "zz_called.py").write_text(FILES["called.py"], encoding="utf-8")
    file = tmp_path / "nets.py"
    original, _ = open_sides(file, file, (tmp_path,))
    original.load()
    book = CaseFinder(original, ("Called",), budget_s=6.0)
    book.add_users()
    assert book.missing == ()
