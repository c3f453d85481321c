"""Where things lie on Windows, as far as that can be known without one."""

import sys
from pathlib import PurePosixPath

import pytest

from fdl_cli.folders import user_folder
from fdl_cli.system.python_env import find_environment
from fdl_cli.torch_setup.install.wheel_tree import packages_folder, place_of, scripts_folder


@pytest.fixture(autouse=True)
def windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")


def test_packages_and_programs():
    assert packages_folder("3.12") == PurePosixPath("Lib/site-packages")
    assert scripts_folder() == PurePosixPath("Scripts")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("torch/__init__.py", "Lib/site-packages/torch/__init__.py"),
        ("torch/lib/c10.dll", "Lib/site-packages/torch/lib/c10.dll"),
        ("torch-2.14.1.data/scripts/torchrun.exe", "Scripts/torchrun.exe"),
        ("torch-2.14.1.data/purelib/a.py", "Lib/site-packages/a.py"),
        ("torch-2.14.1.data/data/share/doc", "share/doc"),
    ],
)
def test_files_of_a_wheel(name, place):
    assert str(place_of(name, "3.12")) == place


@pytest.mark.parametrize(
    "name", ["..\\evil", "a\\..\\..\\b", "/abs", "a/../../b", "C:\\x", "x.data/data/C:/x"]
)
def test_a_wheel_cannot_leave_the_environment(name):
    with pytest.raises(ValueError, match="it wants to write to"):
        place_of(name, "3.12")


@pytest.mark.parametrize(
    ("mark", "kind", "interpreter"),
    [("pyvenv.cfg", "venv", "Scripts/python.exe"), ("conda-meta/history", "conda", "python.exe")],
)
def test_interpreters(tmp_path, mark, kind, interpreter):
    folder = tmp_path / "env"
    (folder / "Scripts").mkdir(parents=True)
    (folder / mark).parent.mkdir(exist_ok=True)
    (folder / mark).write_text("")
    found = find_environment(folder, (), {})
    assert (found.kind, found.interpreter) == (kind, folder / interpreter)


def test_folders_of_the_user():
    environ = {"USERPROFILE": "C:\\Users\\Ann"}
    for kind in ("cache", "state", "data", "config"):
        assert user_folder(kind, environ, "win32") == "C:\\Users\\Ann/AppData/Local/flodl"
