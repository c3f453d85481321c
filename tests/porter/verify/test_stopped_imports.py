"""Classes are compared although the script around them cannot run to its end here."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.porter.verify.examining import ClassEvidence, examine_files

pytestmark = [pytest.mark.torch, pytest.mark.slow]

STOPPED = """
from __future__ import annotations
import sys
import torch
import a_package_that_nobody_has
from torch import nn

try:
    from another_that_nobody_has import fast
except ImportError:
    fast = None

WIDTH = 6
table = a_package_that_nobody_has.load("table")
if len(sys.argv) < 3:
    sys.exit("usage: two arguments")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, WIDTH)

    def forward(self, x):
        h = self.fc(x)
        return h if fast is None else fast(h)

class Needs(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, WIDTH)

    def forward(self, x):
        return a_package_that_nobody_has.relu(self.fc(x))
"""
TRAINED = """
import torch
from torch import nn

first = nn.Linear(3, 1)
first(torch.ones(2, 3)).sum().backward()
WIDTH = 5

class Second(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, WIDTH)

    def forward(self, x):
        return self.fc(x).relu()
"""


def examined(tmp_path: Path, text: str, *names: str) -> dict[str, ClassEvidence]:
    folders = [tmp_path / "original", tmp_path / "ported"]
    for folder in folders:
        folder.mkdir()
        (folder / "model.py").write_text(text, encoding="utf-8")
    first, second = (folder / "model.py" for folder in folders)
    return examine_files(first, second, names, workdir=tmp_path / "work", limit_s=30.0)


def test_what_stops_an_import_does_not_hide_the_classes_behind_it(tmp_path: Path) -> None:
    found = examined(tmp_path, STOPPED, "Net", "Needs")
    assert found["Net"]["status"] == "equal"
    needs = found["Needs"]
    assert needs["status"] == "not-run"
    assert needs["error_code"] == "no-inputs-found"
    assert "`a_package_that_nobody_has.relu` is needed" in needs["detail"]
    assert "importing the original ends with SystemExit" in needs["detail"]


def test_a_model_behind_the_training_of_another_is_defined(tmp_path: Path) -> None:
    assert examined(tmp_path, TRAINED, "Second")["Second"]["status"] == "equal"


ODD = """
import torch
from torch import nn

class Fine(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x).relu()

class Half(nn.Module):
    def __init__(self):
        self.targets = []

    def forward(self, x):
        return x

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def parameters(self):
        return self.fc.parameters()

    def named_parameters(self):
        return self.fc.named_parameters()

    def forward(self, x):
        return self.fc(x).relu()
"""


def test_classes_that_are_no_usual_modules_do_not_stop_the_others(tmp_path: Path) -> None:
    found = examined(tmp_path, ODD, "Own", "Half", "Fine")
    assert found["Fine"]["status"] == "equal"
    assert found["Half"]["status"] == "not-run"
    assert "'Half' object has no attribute '_modules'" in found["Half"]["detail"]
    own = found["Own"]
    assert own["status"] == "not-run"
    assert "unexpected keyword argument" in own["detail"]


PARSER = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from flodl_verify.stubs.install import STUBS
STUBS.install(Path({script!r}))
sys.argv = [{script!r}]
exec(Path({script!r}).read_text())
print(STUBS.words())
"""
SCRIPT = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--size", type=int, required=True)
parser.add_argument("--rate", type=float, default=0.5)
parser.add_argument("--mode", choices=["slow", "quick"], required=True)
commands = parser.add_subparsers(dest="command")
train = commands.add_parser("train")
train.add_argument("folder")
train.add_argument("names", nargs="+")
options = parser.parse_args()
if options.data in ["folder", "list"]:
    print("folder")
elif options.data == "fake":
    print("fake")
print(options.size, options.rate, options.mode, options.command, options.folder, options.names)
"""


def test_required_arguments_are_supplied_and_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    program = textwrap.dedent(PARSER).format(
        root=str(Path(__file__).parents[3]), script=str(script)
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    fake, values, words = done.stdout.splitlines()
    assert fake == "fake"
    assert values == "2 0.5 slow train data ['data']"
    assert "the argument --data, the argument --size, the argument --mode" in words
