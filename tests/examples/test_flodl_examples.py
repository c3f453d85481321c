"""Every example of the runtime does what its first line says, in seconds, on the CPU."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from flodl.checkpoint.files import checkpoint_keys
from flodl.monitor.store.storage import open_reader

pytestmark = [pytest.mark.torch, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = (
    "mixed_precision",
    "nested_frozen",
    "observation",
    "quickstart",
    "schedulers",
    "showcase",
    "sine_wave",
    "transfer_learning",
)


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Return a function that runs an example in an empty folder and returns what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(name):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    return run


def numbers(pattern, text):
    return [float(found) for found in re.findall(pattern, text)]


def test_no_example_is_left_out():
    mine = [path.stem for path in EXAMPLES.glob("*.py") if not path.stem.endswith("_flodl")]
    assert tuple(sorted(mine)) == NAMES
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"{name}.py" in readme for name in NAMES)


def test_quickstart_learns_keeps_everything_and_continues(run, tmp_path):
    printed = run("quickstart")
    assert numbers(r"right: ([\d.]+)%", printed)[0] > 95
    folder = tmp_path / "runs" / "quickstart"
    page = (folder / "curves.html").read_text(encoding="utf-8")
    assert "val_accuracy" in page
    assert "//cdn" not in page
    run_data = open_reader(folder).run
    assert {"loss", "val_loss"} <= set(run_data.epochs[-1].metrics)
    # Run again, it finds itself finished.
    assert "620 steps" in run("quickstart")


def test_sine_wave_learns_the_sine_and_every_bit_comes_back(run):
    printed = run("sine_wave")
    losses = numbers(r"loss ([\d.]+)", printed)
    assert losses[-1] < 0.01 < losses[0]
    assert "6 loaded" in printed


def test_mixed_precision_changes_the_arithmetic_and_not_the_result(run):
    printed = run("mixed_precision")
    full, half = numbers(r"loss ([\d.]+)", printed)[:2]
    assert abs(full - half) < 0.02
    assert full < 0.3
    assert printed.count("weights float32") >= 2


def test_transfer_learning_pays(run):
    printed = run("transfer_learning")
    head, tuned, scratch = numbers(r"([\d.]+)%", printed)
    assert min(head, tuned) > scratch + 2
    assert "4 loaded" in printed
    assert "2 of 6 tensors train" in printed


def test_nested_frozen_readers_build_on_each_other(run):
    printed = run("nested_frozen")
    letter, word, line = numbers(r"([\d.]+)%", printed)
    assert min(letter, word) > 95
    assert line > 75
    assert "into the word reader: 4 loaded" in printed
    assert "into the line reader: 6 loaded" in printed
    assert "6 of 12 tensors frozen, unchanged: True" in printed
    assert "read: SET ONE ANT TEN" in printed


def test_schedulers_show_their_curves_and_train(run):
    printed = run("schedulers")
    assert len(re.findall(r"\|.{40}\|", printed)) == 3
    assert max(numbers(r"loss ([\d.]+)", printed)) < 1
    assert numbers(r"0.05 to ([\d.]+)", printed)[0] < 0.05


def test_observation_stops_by_trend(run):
    printed = run("observation")
    losses = numbers(r"loss ([\d.]+)", printed)
    assert losses[-1] < losses[0]
    assert "the accuracy stays where it is" in printed
    assert "epoch,accuracy,alive,loss" in printed


def test_showcase_has_every_word_of_the_builder(run, tmp_path):
    from flodl.builder.flow_builder import FlowBuilder, LoopWord, MapWord

    text = (EXAMPLES / "showcase.py").read_text(encoding="utf-8")
    words = {
        name
        for kind in (FlowBuilder, LoopWord, MapWord)
        for name in vars(kind)
        if callable(getattr(kind, name)) and not name.startswith("_")
    }
    assert sorted(word for word in words - {"verbose"} if f".{word}(" not in text) == []
    printed = run("showcase")
    ((first, last),) = re.findall(r"loss from ([\d.]+) to ([\d.]+)", printed)
    assert float(last) < float(first) / 4
    folder = tmp_path / "runs" / "showcase"
    assert (folder / "graph.svg").read_text(encoding="utf-8").startswith("<svg")
    assert len(checkpoint_keys(folder / "model.fdl")) == 42
