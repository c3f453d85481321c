"""Locks of projects: which packages a lock names, in which versions, and when it is left alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import default_environment
from packaging.requirements import Requirement

from fdl_cli.errors import OperationFailedError, UsageError
from fdl_cli.torch_setup.install import dependency_lock
from fdl_cli.torch_setup.install.dependency_lock import (
    Distribution,
    closure,
    lock_text,
    read_lock,
    write_lock,
)
from fdl_cli.torch_setup.install.pip_tool import Pip
from fdl_cli.torch_setup.setup_command import perform_setup
from fdl_cli.torch_setup.setup_data import SetupOptions

ROOT = Path(__file__).parent.parent.parent
HELD = {
    "a": Distribution(version="1.0", requires=("b>=1", 'c; python_version < "3"', "D.d[x]")),
    "b": Distribution(version="1.5", requires=()),
    "d-d": Distribution(version="2.0+cpu", requires=('e; extra == "x"', 'f; extra == "y"', "a")),
    "e": Distribution(version="3.0", requires=("torch",)),
    "torch": Distribution(version="2.13.0", requires=("sympy",)),
    "flodl": Distribution(version="0.1.0", requires=("b", 'e; extra == "cli"')),
}


def closed(*roots, held=HELD, unfollowed=frozenset()):
    return closure(map(Requirement, roots), held.__getitem__, default_environment(), unfollowed)


def test_closure_follows_extras_and_markers_of_this_python():
    torch = frozenset({"torch"})
    assert closed("a", unfollowed=torch) == {
        "a": "1.0", "b": "1.5", "d-d": "2.0", "e": "3.0", "torch": "2.13.0",
    }  # fmt: skip
    assert closed("D_d", "b", held=HELD | {"a": HELD["b"]}) == {
        "d-d": "2.0",
        "a": "1.5",
        "b": "1.5",
    }


def test_closure_of_an_extra_seen_later_is_followed_too():
    torch = frozenset({"torch"})
    for roots in (("flodl", "flodl[cli]"), ("flodl[cli]", "flodl")):
        assert set(closed(*roots, unfollowed=torch)) == {"flodl", "b", "e", "torch"}


def test_closure_of_an_installed_version_outside_a_requirement_raises():
    with pytest.raises(ValueError, match=r"b 1\.5 is installed, and b<1"):
        closed("b<1")


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sets(st.sampled_from("abcdefgh"))))
def test_closure_is_the_reachable_set_whatever_the_circles(edges):
    held = {
        name: Distribution(version="1", requires=tuple(sorted(edges.get(name, ()))))
        for name in "abcdefgh"
    }
    pins = closed("a", held=held)
    assert "a" in pins
    assert all(edges.get(name, set()) <= pins.keys() for name in pins)  # closed
    for name in pins.keys() - {"a"}:  # and nothing more: each has a parent in it
        assert any(name in edges.get(parent, ()) for parent in pins)


def test_lock_text_leaves_torch_and_flodl_to_the_machine():
    lines = lock_text({"torch": "2.13.0", "flodl": "0.1.0", "numpy": "2", "b": "1"}).splitlines()
    assert [line for line in lines if not line.startswith("#")] == ["b==1", "numpy==2"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "Mine"\ndependencies = ["b", "torch"]\n'
        '[project.optional-dependencies]\ndev = ["mine[plots]", "flodl[cli]"]\nplots = ["d-d"]\n'
    )
    held = HELD | {"mine": Distribution(version="1", requires=('d-d[x]; extra == "plots"',))}
    answer = {
        "environment": default_environment(),
        "installed": [
            {"metadata": {"name": name, "version": each.version, "requires_dist": each.requires}}
            for name, each in held.items()
        ],
    }
    said = [json.dumps(answer)]

    def run(words, **options):
        assert words[:2] == ("pip", "inspect")
        return subprocess.CompletedProcess(words, 0, said[0], "ERROR: no such command")

    monkeypatch.setattr(dependency_lock, "run", run)
    return tmp_path, said


PIP = Pip(words=("pip",), interpreter=Path(sys.executable))


def test_write_lock_names_what_the_project_needs_and_what_changed(project):
    root, _ = project
    (root / "constraints.txt").write_text("# old\nb==1.4\nnumpy==1  # by hand\n")
    lock = write_lock(root, "dev", PIP)
    assert read_lock(root) == {"a": "1.0", "b": "1.5", "d-d": "2.0", "e": "3.0"}
    assert lock.count == 4
    changed = {each.name: (each.before, each.after) for each in lock.changed}
    assert changed == {
        "a": (None, "1.0"), "b": ("1.4", "1.5"), "d-d": (None, "2.0"), "e": (None, "3.0"),
        "numpy": ("1", None),
    }  # fmt: skip
    assert write_lock(root, "dev", PIP).changed == ()


def test_write_lock_without_development_names_the_dependencies_alone(project):
    root, _ = project
    write_lock(root, None, PIP)
    assert read_lock(root) == {"b": "1.5"}


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("", "pip cannot list"),
        (json.dumps({"environment": default_environment(), "installed": []}), "do not fit"),
    ],
)
def test_write_lock_that_cannot_know_the_versions_keeps_the_file(project, said, words):
    root, answer = project
    answer[0] = said
    (root / "constraints.txt").write_text("b==1.4\n")
    with pytest.raises(OperationFailedError, match=words):
        write_lock(root, "dev", PIP)
    assert read_lock(root) == {"b": "1.4"}


@pytest.mark.parametrize("part", ["base", "hf"])
def test_lock_of_new_projects_has_the_versions_of_the_tests(part):
    tested = read_lock(ROOT)
    pins = read_lock(ROOT / "templates" / "project" / part)
    assert {"numpy", "pytest", "ruff", "typer"} <= pins.keys()
    assert ("transformers" in pins) == (part == "hf")
    assert not {"torch", "flodl", "sympy", "triton"} & pins.keys()
    assert {name: tested[name] for name in pins} == pins


@pytest.mark.parametrize("facts", [None, Path("machine.json")])
def test_setup_with_lock_outside_a_project_is_refused_whatever_the_machine(facts):
    with pytest.raises(UsageError) as caught:
        perform_setup(None, SetupOptions(lock=True, dry_run=True, facts=facts))
    assert caught.value.error_id == "nothing-to-lock"
