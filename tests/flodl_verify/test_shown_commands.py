"""What a project's shell scripts and documents say about the settings of one of its models."""

from __future__ import annotations

from pathlib import Path

import pytest

from flodl_verify.inputs.case_finder import CaseFinder
from flodl_verify.sandbox.isolated_import import open_sides
from flodl_verify.sources.declared_settings import program_settings
from flodl_verify.sources.shown_commands import shown_settings

pytestmark = pytest.mark.torch

DECLARED = {"model": "Net", "width": 64, "parts": 0, "rate": 0.1, "fast": False, "how": None}
SCRIPT = """
export CUDA_VISIBLE_DEVICES=0
# python run.py --model mixer --width 1
model_name=Mixer
width=32

for parts in 3 4 5
do
python -u run.py \\
  --model $model_name \\
  --width ${width} --parts=$parts \\
  --fast \\
  --how 'avg' --unknown 7
done
python run.py --model Mixer --width 48 --rate 1e-2 | tee "log of $model_name"
python run.py --model Other --width 1
"""


def settings(folder: Path) -> list[dict[str, object]]:
    wanted = frozenset({"width", "parts", "rate"})
    return shown_settings(folder / "mixer.py", (folder,), wanted, DECLARED)


def test_commands_are_read_with_their_variables_and_lines(tmp_path: Path) -> None:
    (tmp_path / "all.sh").write_text(SCRIPT, encoding="utf-8")
    lightest, middle = settings(tmp_path)
    assert lightest == {"model": "Mixer", "width": 32, "parts": 3, "fast": True, "how": "avg"}
    assert middle["width"] == 48
    assert middle["rate"] == 0.01


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("train_mixer.sh", "python run.py --width 8\n", 1),
        ("all.sh", "python run.py -v --width 8 -j 4 --model Mixer\n", 1),
        ("mixer.md", "    $ python run.py --width 8\n", 0),
        ("README.md", "Run `python run.py --model mixer --width 8`.\n", 1),
        ("README.md", "It's run.py that takes --width 8 for the mixer\n", 0),
        ("notes.rst", "python run.py --model mixer --width 8\n", 0),
    ],
)
def test_only_commands_for_the_model_count(
    tmp_path: Path, name: str, text: str, found: int
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert [each["width"] for each in settings(tmp_path)] == [8] * found


PROGRAM = """
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="Net")
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--parts", type=int, default=0)
"""
MIXER = """
from torch import nn


class Mixer(nn.Module):
    def __init__(self, configs):
        super().__init__()
        layers = [nn.Linear(configs.width, configs.width) for _ in range(configs.parts)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        y = self.layers[0](x)
        for layer in self.layers[1:]:
            y = y + layer(x)
        return y
"""


def test_a_model_that_only_runs_as_its_script_runs_it_is_found(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text(PROGRAM, encoding="utf-8")
    file = tmp_path / "mixer.py"
    file.write_text(MIXER, encoding="utf-8")
    (tmp_path / "mixer.sh").write_text("python run.py --parts 3 --width 32\n", encoding="utf-8")
    found = program_settings(file, (tmp_path,), frozenset({"width", "parts"}))
    assert [(each["width"], each["parts"]) for each in found] == [(32, 3), (64, 0)]
    original, _ = open_sides(file, file, (tmp_path,))
    original.load()
    book = CaseFinder(original, ("Mixer",), budget_s=60.0)
    book.add_guesses()
    assert book.missing == (), book.reasons
    with original.active():
        model = book.cases["Mixer"][0].construction.build(original)
    assert [layer.in_features for layer in model.layers] == [32, 32, 32]
