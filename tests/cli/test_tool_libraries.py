"""The command `fdl` where only the runtime is installed: an error with the way to the tool."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fdl_cli import __version__
from fdl_cli.tool_libraries import tool_error

ROOT = Path(__file__).parents[2]
START = "import sys; sys.path.insert(0, sys.argv.pop(1)); from fdl_cli.app import entry; entry()"


def fdl_without_libraries(*words):
    """Run `fdl` by a Python that does not look into `site-packages`."""
    command = [sys.executable, "-I", "-S", "-c", START, str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words", [(), ("--help",), ("port", "model.py"), ("train",), ("setup", "-h")]
)
def test_fdl_without_its_libraries_says_how_to_get_the_tool(words):
    done = fdl_without_libraries(*words)
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr.startswith("error[tool-not-installed]: this environment has flodl")
    assert "pip install 'flodl[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_fdl_without_its_libraries_has_a_version_and_completes_to_nothing():
    version = fdl_without_libraries("--version")
    assert (version.returncode, version.stdout) == (0, f"fdl {__version__}\n")
    completed = fdl_without_libraries("__complete", "zsh", "po")
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "", "")


def test_fdl_without_its_libraries_speaks_json_where_it_should():
    shown = json.loads(fdl_without_libraries("diagnose", "--json").stdout)
    assert (shown["ok"], shown["error"]["id"]) == (False, "tool-not-installed")


def test_fdl_without_one_library_names_it(tmp_path):
    program = tmp_path / "model.py"
    program.write_text("import torch\n")
    start = f"import sys; sys.modules['libcst'] = None; {START}"
    done = subprocess.run(
        [sys.executable, "-c", start, str(ROOT), "port", str(program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 5, done.stderr
    assert "there is no package `libcst`" in done.stderr


def test_tool_error_of_another_module_is_none():
    assert tool_error("some_module") is None
    assert tool_error(None) is None
    assert tool_error("libcst.matchers") is not None
