"""A conda prefix: its own interpreter, no `pyvenv.cfg`, and packages that conda has put there."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.version_info[:2] != (3, 11), reason="the fake wheels are for Python 3.11"
    ),
]

VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def make_prefix(folder: Path) -> Path:
    """Lay out what conda does: the interpreter itself, the library, and notes on every package."""
    base = Path(sys.base_prefix)
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / VERSION
    shutil.copy2((base / "bin" / VERSION).resolve(), program)
    (folder / "bin" / "python").symlink_to(VERSION)
    library = folder / "lib" / VERSION
    library.mkdir(parents=True)
    for entry in (base / "lib" / VERSION).iterdir():
        if entry.name not in ("site-packages", "__pycache__"):
            (library / entry.name).symlink_to(entry)
    for entry in (base / "lib").glob("libpython*"):
        (folder / "lib" / entry.name).symlink_to(entry)
    (library / "site-packages").mkdir()
    notes = folder / "conda-meta"
    notes.mkdir()
    (notes / "history").write_text("==> 2026-11-20 <==\n# cmd: conda create -n work python=3.11\n")
    (notes / "python-3.11.7-0.json").write_text(
        json.dumps({"name": "python", "version": "3.11.7"})
    )
    return folder


@pytest.fixture
def prefix(tmp_path):
    return make_prefix(tmp_path / "envs" / "work")


@pytest.fixture
def conda(project, prefix, monkeypatch):
    """A project without an environment of its own, in a shell where a conda prefix is active."""
    shutil.rmtree(project.folder / ".venv")
    plain = project.environ()
    monkeypatch.setattr(project, "environ", lambda: {**plain, "CONDA_PREFIX": str(prefix)})
    return project


def python(prefix, code):
    done = subprocess.run(
        [prefix / "bin" / "python", "-c", code], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr


def test_the_prefix_is_one(prefix):
    assert python(prefix, "import sys; print(sys.prefix)") == str(prefix)


def test_an_active_prefix_gets_a_proved_torch(conda, prefix):
    data = conda.setup()["data"]
    assert data["changed"] is True
    assert not (conda.folder / ".venv").exists()
    assert python(prefix, "import torch; print(torch.__version__)") == "2.12.1+cpu"
    assert json.loads((prefix / "fdl-torch.json").read_text())["name"] == "2.12.1+cpu"
    assert (prefix / "conda-meta" / "history").is_file()
    assert conda.setup()["data"]["changed"] is False
    assert conda.fdl("libtorch", "verify")["ok"]


def test_a_named_prefix_comes_before_the_active_one(conda, prefix, tmp_path):
    other = make_prefix(tmp_path / "envs" / "other")
    conda.setup("--env", str(other))
    assert python(other, "import torch; print(torch.__version__)") == "2.12.1+cpu"
    assert "No module named" in python(prefix, "import torch")


def test_what_conda_installed_is_left_to_conda(conda, prefix):
    # conda writes the notes of a wheel, but no list of its files that pip could use.
    info = prefix / "lib" / VERSION / "site-packages" / "torch-2.11.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.11.0\n")
    (info / "INSTALLER").write_text("conda\n")
    before = sorted(str(path) for path in prefix.rglob("*") if "__pycache__" not in path.parts)
    document = conda.setup(code=6)
    assert document["error"]["id"] == "package-unmanaged"
    assert "conda remove torch" in document["error"]["hint"]
    after = sorted(str(path) for path in prefix.rglob("*") if "__pycache__" not in path.parts)
    assert [path for path in after if "fdl-switch.lock" not in path] == before


def test_diagnose_knows_the_prefix(conda, prefix):
    checks = {item["id"]: item for item in conda.fdl("diagnose")["data"]["checks"]}
    assert str(prefix) in checks["py.venv"]["message"]
