"""The normaliser under every Python of this machine: equal instructions, no unknown opcode."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from flodl.bytecode.opcodes import SUPPORTED

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
LISTINGS = HERE / "listings.txt"


def found_pythons():
    """Return one Python for each supported version that this machine has."""
    spec = importlib.util.spec_from_file_location("pythons", ROOT / ".ci" / "pythons.py")
    pythons = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pythons)
    found = {minor: pythons.find(minor) for _, minor in SUPPORTED}
    found[sys.version_info.minor] = Path(sys.executable)
    return {f"3.{minor}": path for minor, path in sorted(found.items()) if path is not None}


PYTHONS = found_pythons()
every_python = pytest.mark.parametrize("python", PYTHONS.values(), ids=PYTHONS)


def probe(python, part):
    done = subprocess.run(
        [str(python), "-B", "-W", "ignore", str(HERE / "probe.py"), str(ROOT), part],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def written(listings):
    blocks = (
        "".join([f"{name}\n", *(f"    {line}\n" for line in lines)])
        for name, lines in listings.items()
    )
    return "\n".join(blocks)


def test_instructions_of_this_python_are_the_recorded_ones(golden):
    golden(LISTINGS, written(probe(sys.executable, "listings")))


@every_python
def test_instructions_on_each_python_are_the_same(python):
    assert written(probe(python, "listings")) == LISTINGS.read_text()


@every_python
def test_opcodes_of_each_python_have_a_row(python):
    assert probe(python, "without_a_row") == []


@every_python
def test_numbers_of_helpers_mean_what_each_python_says(python):
    named = probe(python, "numbered")
    assert named == {name: name for name in named}


@pytest.mark.slow
@every_python
def test_stack_on_each_path_has_one_depth(python):
    assert probe(python, "stacks") > 1000
