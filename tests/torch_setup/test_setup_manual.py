"""docs/how-to/setup.md tells the truth: its commands run, and its table of codes is complete."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fdl_cli.torch_setup.choice.notices import codes

MANUAL = Path(__file__).parents[2] / "docs" / "how-to" / "setup.md"
SCENARIOS = Path(__file__).parents[1] / "data" / "gpu_scenarios.json"


def examples():
    """Yield (command, expected output) from the console blocks, in their order."""
    for block in re.findall(r"```console\n(.*?)```", MANUAL.read_text("utf-8"), re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def matches(expected, actual):
    """Compare with `...` for anything, also for several lines."""
    pattern = re.escape(expected.strip()).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, actual.strip(), re.DOTALL) is not None


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the manual's example is on 3.11")
def test_the_commands_of_the_manual(project):
    (wanted,) = [
        item for item in json.loads(SCENARIOS.read_text("utf-8"))["scenarios"]
        if item["id"] == "nv-ampere-535"
    ]  # fmt: skip
    (project.folder / "a100.json").write_text(json.dumps(wanted))
    environ = {**project.environ(), "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    ran = 0
    for command, expected in examples():
        words = command.split()
        assert words[0] == "fdl", command
        done = subprocess.run(
            [sys.executable, "-m", "fdl_cli", *words[1:]], cwd=project.folder, env=environ,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        actual = done.stdout if done.returncode == 0 else f"[exit {done.returncode}] {done.stderr}"
        assert matches(expected, actual), f"{command}\n{actual}{done.stderr}"
        ran += 1
    assert ran >= 10


def test_every_code_is_explained():
    text = MANUAL.read_text("utf-8")
    explained = set(re.findall(r"^\| `([a-z0-9_]+)` \|", text, re.MULTILINE))
    assert explained == set(codes())


def test_every_option_in_the_manual_exists():
    done = subprocess.run(
        [sys.executable, "-m", "fdl_cli", "setup", "--help"],
        capture_output=True, text=True, check=True, cwd=MANUAL.parents[1],
    )  # fmt: skip
    wishes = MANUAL.read_text("utf-8").split("## Wishes")[1].split("## ")[0]
    options = set(re.findall(r"--[a-z][a-z-]+", wishes.split("```")[0]))
    assert len(options) >= 12
    assert {option for option in options if option not in done.stdout} == set()
