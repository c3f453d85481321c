"""The Dockerfile: no findings, not root, and it copies all that an installation needs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HADOLINT = Path(sys.executable).parent / "hadolint"


def copied(root):
    """Return the files and folders that the first stage copies from the checkout."""
    lines = (root / "Dockerfile").read_text().splitlines()
    words = [
        line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line
    ]
    return [word.removeprefix("./") for group in words for word in group]


@pytest.mark.skipif(not HADOLINT.exists(), reason="hadolint has no package for this platform")
def test_hadolint_finds_nothing(root):
    done = subprocess.run(
        [str(HADOLINT), "--no-color", str(root / "Dockerfile")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_last_stage_is_not_root(root):
    stages = (root / "Dockerfile").read_text().split("\nFROM ")
    users = re.findall(r"^USER (.*)$", stages[-1], re.MULTILINE)
    assert users
    assert all(re.fullmatch(r"[1-9]\d*:[1-9]\d*", user) for user in users)


def test_nothing_is_copied_that_the_context_leaves_out(root):
    allowed = (root / ".dockerignore").read_text().splitlines()
    assert allowed[0] == "*"
    assert [path for path in copied(root) if f"!{path}" not in allowed] == []


def test_the_versions_are_those_of_the_bootstrap(root):
    version = re.search(r"^TORCH_VERSION=(.*)$", (root / "fdl").read_text(), re.MULTILINE)[1]
    index = re.search(r"^TORCH_CPU_INDEX=(.*)$", (root / "fdl").read_text(), re.MULTILINE)[1]
    text = (root / "Dockerfile").read_text()
    assert f'"torch=={version}+cpu"' in text
    assert f"--extra-index-url {index} " in text
    assert f"torch=={version}\n" in (root / "constraints.txt").read_text()


@pytest.mark.slow
def test_what_is_copied_is_enough_to_install(root, tmp_path):
    context = tmp_path / "src"
    context.mkdir()
    for name in copied(root):
        source = root / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, context / name, ignore=ignore)
        else:
            shutil.copy(source, context / name)
    out = tmp_path / "out"
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, context],
        check=True,
        capture_output=True,
    )
    assert len(list(out.glob("flodl-*.whl"))) == 1
