"""What README shows at first sight: the proof, the figures and the picture are real."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
RESULTS = ROOT / "benchmarks" / "results"


def row(name):
    (found,) = re.findall(rf"^\| {name} \|.*$", README, re.MULTILINE)
    return found


def numbers(text):
    return [float(each.replace(",", "")) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


@pytest.mark.slow
@pytest.mark.torch
def test_readme_proof_is_what_the_command_prints(tmp_path):
    shutil.copy(ROOT / "examples" / "pytorch" / "resnet_cifar.py", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "fdl_cli", "port", "resnet_cifar.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown = re.search(r"```text\n(resnet_cifar.py -> .*?)```", README, re.DOTALL)[1]
    assert done.stdout.replace(f"{tmp_path}/", "") == shown


def test_readme_figures_of_the_proof_are_those_of_the_result():
    families = json.loads((RESULTS / "world.json").read_text("utf-8"))["families"]
    told = row("a proof")
    assert f"{len(families)} families" in told
    listed = (ROOT / "benchmarks" / "README.md").read_text("utf-8")
    for number in ("13,302 changes", "12,364", "938"):
        assert number in told
        assert number in listed


def test_readme_figures_of_coverage_are_those_of_the_result():
    rows = json.loads((RESULTS / "profile_coverage.json").read_text("utf-8"))["rows"]
    shown = numbers(row("a name, a time and a picture for every value").split("|")[2])
    for kind, least, most in (("flow", *shown[:2]), ("plain", *shown[2:])):
        shares = [100 * each[kind] for each in rows]
        assert (least, most) == (round(min(shares), 1), round(max(shares), 1)), kind


def test_readme_figures_of_speed_are_those_of_the_page():
    page = (ROOT / "docs" / "benchmarks" / "performance.md").read_text("utf-8")
    cpu = page.partition("### cpu")[2].partition("###")[0]
    fused, plain = numbers(row("a faster training step").split("|")[2])
    assert f"fused: geometric mean {fused:.2f}" in cpu
    assert f"eager: geometric mean {plain:.2f}" in cpu


def test_readme_figures_of_survival_are_those_of_the_campaign():
    result = json.loads((RESULTS / "campaigns" / "exact.json").read_text("utf-8"))
    cases, processes, deaths = numbers(row("training that survives").split("|")[2])
    assert (cases, processes) == (result["cases"], 4)
    assert deaths == result["worst"]["deaths"]


@pytest.mark.torch
def test_readme_figures_of_unequal_devices_are_those_of_the_result():
    rows = json.loads((RESULTS / "scale.json").read_text("utf-8"))["rows"]
    shares = {row["run"]: row["share"] for row in rows if row["speeds"] == [0.010, 0.025]}
    assert f"{shares['Cadence']:.1%}".replace("%", " %") + " of what both can train" in README
    assert f"slower one, {shares['DDP']:.1%}".replace("%", " %") in README
    page = (ROOT / "docs" / "how-to" / "many-devices.md").read_text("utf-8")
    far = next(row["share"] for row in rows if row["speeds"] == [0.010, 0.100])
    told = f"{shares['Cadence']:.0%} there, and {far:.0%} with ranks of 10 and 100 ms"
    assert told.replace("%", " %") in page


def test_readme_picture_is_what_its_block_draws(golden):
    code = README.split("```python\n")[1].partition("```")[0]
    names = {"__name__": "__main__"}
    torch.manual_seed(0)
    # Hovering shows lines, counted from the start of the block.
    exec(compile(code, "README.md", "exec"), names)
    after, x = names["after"], names["x"]
    after(x)
    golden(ROOT / "docs" / "images" / "block.svg", names["flodl"].view(after).svg())
