"""`fdl add monitor`: the loop of an existing project records itself, and nothing else changes."""

import re
import subprocess

import pytest

from fdl_cli.scaffold.answers import make_answers, with_part
from fdl_cli.scaffold.rendering import render
from tests.scaffold.conftest import make, run_in

CHANGED = {"README.md", "src/p/train.py", "tests/test_cli.py", "tests/test_monitor.py"}


def test_only_what_it_needs_is_different():
    before = make_answers("p")
    old, new = (
        {file.path: file.text for file in render(answers)}
        for answers in (before, with_part(before, "monitor"))
    )
    assert {path for path in new if new[path] != old.get(path)} == CHANGED
    assert "onitor" not in "".join(old.values())


@pytest.fixture
def project(tmp_path):
    """A project that was edited before it got the part."""
    root = make(tmp_path / "my-proj")
    loop = root / "src/my_proj/train.py"
    loop.write_text(loop.read_text().replace('"""The training loop', '"""My training loop', 1))
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "as made")):
        subprocess.run((*git, *words), cwd=root, check=True, capture_output=True)
    run_in(root, "-m", "fdl_cli", "add", "monitor")
    text = loop.read_text()
    assert text.startswith('"""My training loop')
    assert "monitor.record(" in text
    return root


@pytest.mark.slow
@pytest.mark.torch
def test_style_and_types_are_clean(project, tmp_path):
    run_in(project, "-m", "ruff", "check", "--no-cache", ".")
    run_in(project, "-m", "ruff", "format", "--no-cache", "--check", ".")
    run_in(project, "-m", "mypy", "--cache-dir", str(tmp_path / "mypy"))


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(("name", "passed"), [("monitor", 2), ("train", 10), ("cli", 3)])
def test_its_tests_pass(project, name, passed):
    done = run_in(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/test_{name}.py")
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= passed, done.stdout
