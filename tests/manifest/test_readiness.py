"""The packages that a task needs, found in the folders of its Python."""

import os

import pytest

from fdl_cli.manifest.model import Change, Flags, Stored
from fdl_cli.manifest.readiness import find_python, surely_has
from fdl_cli.manifest.resolve import find_task, required, resolve

TREE = {
    "requires": ["flodl", "torch"],
    "commands": {
        "train": {"run": ["python", "-c", "1"]},
        "check": {"run": ["python", "-c", "1"], "requires": ["ruff", "torch"]},
        "more": {
            "requires": ["pytest"],
            "entry": ["python"],
            "commands": {"quick": {"requires": ["mypy"]}},
        },
    },
}


def needs(*words, tree=TREE):
    return required(Stored("/p", None, tree, ""), find_task(tree, "/p", words))


def test_required_adds_what_a_task_and_those_above_it_need():
    assert needs("train") == ("flodl", "torch")
    assert needs("check") == ("flodl", "torch", "ruff")
    assert needs("more", "quick") == ("flodl", "torch", "pytest", "mypy")
    assert needs("train", tree={"commands": TREE["commands"]}) == ()


@pytest.fixture
def environment(tmp_path):
    folder = tmp_path / ".venv"
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.write_text("")
    python.chmod(0o755)
    site = folder / "lib" / "python3.12" / "site-packages"
    for name in (
        "torch-2.13.0+cpu.dist-info",
        "My_Proj-1.0.dist-info",
        "zope.x-1.egg-info",
        "flodl",
    ):
        (site / name).mkdir(parents=True)
    (folder / "lib" / "python3.11").mkdir()  # left behind by an older interpreter
    return folder


def test_surely_has_takes_installed_packages_only(environment):
    python = str(environment / "bin" / "python")
    assert surely_has(python, ("torch", "my-proj", "zope.x"))
    assert not surely_has(python, ("torch", "flodl"))
    assert not surely_has(str(environment.parent / "bin" / "python"), ("torch",))
    assert not surely_has(None, ("torch",))


def test_find_python_is_that_of_the_tasks_path(environment, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "python").write_text("not a program")
    stored = Stored(str(tmp_path), None, TREE, "")
    found = find_task(TREE, str(tmp_path), ("train",))
    environ = {"PATH": str(other)}
    invocation = resolve(stored, found, Flags(), (), environ, os.path.exists)
    assert find_python(invocation, environ) == str(environment / "bin" / "python")
    plain = invocation._replace(changes=(Change("PATH", str(other), "test"),))
    assert find_python(plain, environ) is None
