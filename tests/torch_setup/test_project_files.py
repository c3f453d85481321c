"""What is written into a project keeps the chosen build, and nothing else of it changes."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from fake_torch import torch_wheel

from fdl_cli.scaffold.answers import make_answers
from fdl_cli.scaffold.rendering import render
from fdl_cli.torch_setup.project_files import (
    local_edit,
    pin_edits,
    pin_uv,
    read_local_variant,
    write,
)

INDEX = "https://download.pytorch.org/whl/cu126"
PYPROJECT = """\
[project]
name = "demo"   # the name
version = "0"
requires-python = ">=3.11"
dependencies = ["torch"]
"""


def test_an_explicit_index_for_torch():
    text = pin_uv(PYPROJECT, INDEX)
    assert text.startswith(PYPROJECT)
    uv = tomllib.loads(text)["tool"]["uv"]
    assert uv["sources"]["torch"] == {"index": "pytorch-fdl"}
    assert uv["index"] == [{"name": "pytorch-fdl", "url": INDEX, "explicit": True}]


def test_pinning_again_replaces_the_first_time():
    once = pin_uv(PYPROJECT, "https://a.invalid/cpu")
    twice = pin_uv(once, INDEX)
    assert "a.invalid" not in twice
    assert twice == pin_uv(twice, INDEX) == pin_uv(PYPROJECT, INDEX)


@pytest.mark.parametrize("after", ["", "\n[tool.ruff]\nline-length = 99\n"])
def test_the_projects_own_sources_stay(after):
    own = PYPROJECT + '\n[tool.uv.sources]\nother = { path = "../other" }\n' + after
    text = pin_uv(own, INDEX)
    document = tomllib.loads(text)
    assert set(document["tool"]["uv"]["sources"]) == {"torch", "other"}
    assert ("ruff" in document["tool"]) == bool(after)
    again = pin_uv(text, INDEX)
    assert again == text


def test_the_local_file_keeps_everything_else(tmp_path):
    path = tmp_path / "fdl.local.yml"
    path.write_text("# mine\nname: x\ntorch: cu118 # old\nother:\n  torch: no\n")
    edit = local_edit(tmp_path, "cu126")
    write(edit)
    assert path.read_text() == "# mine\nname: x\ntorch: cu126\nother:\n  torch: no\n"
    assert read_local_variant(tmp_path) == "cu126"
    assert not local_edit(tmp_path, "cu126").changes


def test_constraints_for_pip(tmp_path):
    (edit,) = pin_edits(tmp_path, "2.14.1", "cu126", INDEX)
    lines = edit.after.splitlines()
    assert lines[-1] == "torch==2.14.1+cu126"
    assert f"--extra-index-url {INDEX}" in lines


UV = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


@pytest.mark.slow
@pytest.mark.skipif(UV is None, reason="uv is not installed")
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the fake wheels are for Python 3.11")
def test_uv_sync_keeps_the_build(project):
    """The real uv, after a newer torch has appeared on the general index."""
    (project.folder / "pyproject.toml").write_text(PYPROJECT.replace('"torch"', '"torch==2.12.1"'))
    project.setup()
    text = (project.folder / "pyproject.toml").read_text()
    assert "pytorch-fdl" in text
    project.index.add(torch_wheel("2.12.1", variant="cu126", cuda="12.6"))
    shutil.copytree(project.folder / ".venv", project.folder / "before", symlinks=True)
    done = subprocess.run(
        [UV, "sync", "--no-progress", "--python", sys.executable],
        cwd=project.folder, capture_output=True, text=True, timeout=120, check=False,
        env={**project.environ(), "UV_DEFAULT_INDEX": f"{project.index.url}/simple",
             "UV_CACHE_DIR": str(project.home / "uv"), "UV_PYTHON_DOWNLOADS": "never",
             "PYTHONPATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lock = tomllib.loads((project.folder / "uv.lock").read_text())
    torch = next(item for item in lock["package"] if item["name"] == "torch")
    assert torch["source"]["registry"].endswith("/whl")
    assert project.installed().startswith("2.12.1")


def test_source_of_several_lines_is_replaced_whole():
    own = (
        '\n[tool.uv.sources]\ntorch = [\n    { index = "a", extra = "cpu" },\n'
        '    { index = "b", extra = "[x]" },\n]\nother = { path = "../other" }\n\n[tool.x]\ny = 1\n'
    )
    text = pin_uv(PYPROJECT + own, INDEX)
    document = tomllib.loads(text)
    assert document["tool"]["uv"]["sources"] == {
        "torch": {"index": "pytorch-fdl"},
        "other": {"path": "../other"},
    }
    assert document["tool"]["x"] == {"y": 1}
    assert pin_uv(text, INDEX) == text


def test_new_project_stays_valid_after_a_pin():
    (text,) = (file.text for file in render(make_answers("p")) if file.path == "pyproject.toml")
    assert tomllib.loads(pin_uv(text, INDEX))["tool"]["uv"]["sources"]["torch"] == {
        "index": "pytorch-fdl"
    }


def test_constraint_of_a_wheel_without_a_label_is_the_version_that_pip_knows(tmp_path):
    edits = list(pin_edits(tmp_path, "2.14.1", "cu130", None, labelled=False))
    assert edits[-1].after.splitlines()[-1] == "torch==2.14.1"
