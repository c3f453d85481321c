"""The causes that pip gives for a failure are found among its notes."""

import ensurepip
import subprocess
from pathlib import Path

import pytest

from fdl_cli.errors import OperationFailedError
from fdl_cli.system.python_env import Environment
from fdl_cli.torch_setup.install.new_environment import create_environment
from fdl_cli.torch_setup.install.pip_tool import find_pip, pip_causes

BUILD_NEEDS = """\
WARNING: Location 'vendor' is ignored: it is neither a file nor a directory.
  error: subprocess-exited-with-error

  x pip subprocess to install build dependencies did not run successfully.
  │ exit code: 1
  ╰─> [2 lines of output]
      ERROR: Could not find a version that satisfies the requirement editables~=0.3 (from versions: none)
      ERROR: No matching distribution found for editables~=0.3
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error

x pip subprocess to install build dependencies did not run successfully.
│ exit code: 1
╰─> See above for output.

note: This error originates from a subprocess, and is likely not a problem with pip.
"""
BROKEN_BUILD = """\
  error: subprocess-exited-with-error

  x Preparing editable metadata (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [3 lines of output]
      Traceback (most recent call last):
        File "/tmp/x/hatchling/metadata/core.py", line 57, in dynamic
          raise ValueError(message)
      ValueError: Invalid version: `one`
      [end of output]

note: This error originates from a subprocess, and is likely not a problem with pip.
"""


def test_pip_causes_of_a_missing_build_requirement_names_it():
    assert pip_causes(BUILD_NEEDS) == (
        (
            "ERROR: Could not find a version that satisfies the requirement editables~=0.3 "
            "(from versions: none)"
        ),
        "ERROR: No matching distribution found for editables~=0.3",
    )


def test_pip_causes_of_a_broken_build_is_the_exception():
    assert pip_causes(BROKEN_BUILD) == ("ValueError: Invalid version: `one`",)


def test_pip_causes_without_errors_are_the_last_lines_without_credentials():
    text = "".join(f"line {number}\n\n" for number in range(9)) + "see https://me:secret@host/x\n"
    assert pip_causes(text) == (
        *(f"line {number}" for number in range(4, 9)),
        "see https://host/x",
    )
    assert pip_causes("") == ()


@pytest.fixture
def no_ensurepip(tmp_path, monkeypatch):
    """Make Python lack `ensurepip`, as Debian's does without the package `python3-venv`."""
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "ensurepip.py").write_text(
        'raise ModuleNotFoundError("No module named ensurepip")\n'
    )
    monkeypatch.setenv("PYTHONPATH", str(shadow))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


def test_create_environment_of_a_python_without_ensurepip_installs_pip(
    no_ensurepip, tmp_path, monkeypatch
):
    monkeypatch.setenv("PIP_FIND_LINKS", str(Path(ensurepip.__file__).parent / "_bundled"))
    wanted = Environment(folder=tmp_path / ".venv", kind="missing", why="")
    said = []
    made = create_environment(wanted, pip=find_pip(wanted), echo=said.append)
    assert "--without-pip" in said[0]
    monkeypatch.delenv("PYTHONPATH")
    shown = subprocess.run(
        [made.interpreter, "-m", "pip", "--version"], capture_output=True, text=True, check=True
    )
    assert str(made.folder) in shown.stdout
    assert (made.folder / "bin" / "pip").read_text().startswith(f"#!{made.folder}/bin/python")


def test_create_environment_without_any_pip_leaves_nothing_behind(no_ensurepip, tmp_path):
    wanted = Environment(folder=tmp_path / ".venv", kind="missing", why="")
    with pytest.raises(OperationFailedError, match="brings no pip") as caught:
        create_environment(wanted, pip=find_pip(wanted), echo=lambda line: None)
    assert "python3-venv" in caught.value.hint
    assert any("No matching distribution found for pip" in line for line in caught.value.causes)
    assert [path.name for path in tmp_path.iterdir()] == ["shadow"]
