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


@pytest.mark.torch
def test_page_of_many_devices_has_the_shares_of_the_result():
    rows = json.loads((RESULTS / "scale.json").read_text("utf-8"))["rows"]
    shares = {row["run"]: row["share"] for row in rows if row["speeds"] == [0.010, 0.025]}
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
