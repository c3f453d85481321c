"""The tables of the ten models: the ratios, the means, and that idle and loaded figures stand apart."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import training

pytestmark = pytest.mark.torch
ROOT = Path(__file__).parents[2]
TIMES = ROOT / "benchmarks" / "results" / "training-h200"
IDLE = {
    "date": "2026-11-29",
    "machine": "2 x a processor",
    "load": [0.3, 1.1],
    "python": "3.11.7",
    "versions": {"torch": "2.13.0"},
}


def write(folder, name, *, load, eager):
    times = {"eager": eager, "fused": [2.0, 2.0, 2.0], "flodl eager": [1.5, 1.5, 1.5]}
    result = {
        "measured": {**IDLE, "load": load},
        "times": {**times, "flodl captured": [1.0, 1.0, 1.0]},
        "loss": {"flodl captured": 2e-7},
    }
    (folder / f"{name}-cpu.json").write_text(json.dumps(result))


def test_mean_of_the_gpu_is_the_one_in_readme():
    found = {path.stem: json.loads(path.read_text("utf-8")) for path in TIMES.glob("*.json")}
    mean, _ = training.means(found)["eager"]
    assert f"{mean:.2f} times as fast as plain eager steps" in (ROOT / "README.md").read_text(
        "utf-8"
    )


def test_tables_have_the_median_ratio_of_each_round_and_the_means(tmp_path):
    write(tmp_path, "mlp", load=[0.2, 0.9], eager=[3.0, 4.0, 4.5])
    write(tmp_path, "convnet", load=[0.9, 1.2], eager=[1.0, 1.0, 9.0])
    text = "\n".join(training.lines(tmp_path, "cpu"))
    assert "; 2 x a processor; load 0.2 to 1.2." in text
    assert re.search(
        r"^\| mlp \| 1000.000 \| captured \| 4.00 ± 0.50 \| 2.00 ± 0.00 \|", text, re.MULTILINE
    )
    assert "\neager: geometric mean 2.00, least 1.00\n" in text
    assert text.count("\n| model |") == 1


def test_tables_keep_idle_and_loaded_measurements_apart(tmp_path):
    write(tmp_path, "mlp", load=[0.2, 0.9], eager=[3.0, 4.0, 4.5])
    write(tmp_path, "convnet", load=[0.9, 7.5], eager=[1.0, 1.0, 9.0])
    idle, loaded = "\n".join(training.lines(tmp_path, "cpu")).split(
        "### cpu, beside other programs"
    )
    assert "| mlp |" in idle
    assert "convnet" not in idle
    assert "| convnet |" in loaded
    assert "load 0.9 to 7.5" in loaded


def test_tables_of_two_machines_are_refused(tmp_path):
    write(tmp_path, "mlp", load=[0.2, 0.9], eager=[3.0, 4.0, 4.5])
    write(tmp_path, "convnet", load=[0.2, 0.9], eager=[3.0, 4.0, 4.5])
    other = json.loads((tmp_path / "mlp-cpu.json").read_text())
    other["measured"]["machine"] = "an abacus"
    (tmp_path / "mlp-cpu.json").write_text(json.dumps(other))
    with pytest.raises(ValueError, match="differ in machine"):
        training.lines(tmp_path, "cpu")


def test_tables_without_results_are_empty(tmp_path):
    assert training.lines(tmp_path, "published") == []
