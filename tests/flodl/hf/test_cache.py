"""The cache of ported files: what people read where the porter cannot run."""

import subprocess
import sys
from pathlib import Path

import pytest

from flodl.hf import cache as cache_module
from flodl.hf.cache import HuggingFaceError

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[3]


def test_port_where_the_tool_is_not_installed_says_how_to_get_it(tmp_path, monkeypatch):
    """`pip install flodl` brings the module fdl_cli, and none of its libraries."""
    start = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from fdl_cli.app import entry; entry()"
    )
    words = [sys.executable, "-I", "-S", "-c", start, str(ROOT), "port", "x.py", "--json"]
    lean = subprocess.run(words, capture_output=True, check=False)
    assert lean.returncode == 5
    monkeypatch.setattr(cache_module.subprocess, "run", lambda *_, **__: lean)
    with pytest.raises(HuggingFaceError, match=r"exit 5(.|\n)*pip install 'flodl\[cli\]'"):
        cache_module._port(tmp_path / "modeling_x.py", tmp_path / "cache", "modeling_x")


def test_port_that_crashes_shows_the_end_of_its_output(tmp_path, monkeypatch):
    crashed = subprocess.CompletedProcess([], 1, b"", b"Traceback ...\nZeroDivisionError")
    monkeypatch.setattr(cache_module.subprocess, "run", lambda *_, **__: crashed)
    with pytest.raises(HuggingFaceError, match="ZeroDivisionError"):
        cache_module._port(tmp_path / "modeling_x.py", tmp_path / "cache", "modeling_x")
