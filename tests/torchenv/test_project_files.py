"""What is written into a project keeps the chosen build, and nothing else of it changes."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from fake_torch import torch_wheel

from fdl_cli.torchenv.project_files import (
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
