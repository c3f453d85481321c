"""Examples in docstrings run."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def modules():
    for package in ("fdl_cli", "flodl", "flodl_verify", "docs/_build"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if re.search(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.MULTILINE):
                parts = path.relative_to(ROOT).with_suffix("").parts
                marks = [pytest.mark.torch] if package.startswith("flodl") else []
                yield pytest.param(".".join(parts).removesuffix(".__init__"), marks=marks)


@pytest.mark.parametrize("name", list(modules()))
def test_examples_run(name):
    module = importlib.import_module(name)
    done = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert done.attempted > 0, "the example is not where doctest looks"
    assert done.failed == 0
