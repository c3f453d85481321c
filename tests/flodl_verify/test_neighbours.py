"""Files of a package that import each other by their bare names, as scripts in that folder do."""

from __future__ import annotations

from pathlib import Path

import pytest

from flodl_verify.sandbox.isolated_import import open_sides

pytestmark = pytest.mark.torch

FILES = {
    "core/__init__.py": "",
    "core/net.py": (
        "import colorsys\nfrom parts import Part\nfrom tools.shapes import SIDE\n"
        "class Net(Part): side = SIDE"
    ),
    "core/parts.py": "from torch import nn\nclass Part(nn.Module): pass",
    "core/tools/__init__.py": "",
    "core/tools/shapes.py": "SIDE = 7",
    "core/colorsys.py": "raise ImportError('this is not the module of Python')",
}


def test_package_that_is_put_on_the_path_is_imported_by_bare_names(tmp_path: Path) -> None:
    for side in ("original", "ported"):
        for name, text in FILES.items():
            file = tmp_path / side / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("SIDE = 7", f"SIDE = '{side}'"), encoding="utf-8")
    original, port = open_sides(
        tmp_path / "original/core/net.py",
        tmp_path / "ported/core/net.py",
        (),
        (tmp_path / "ported",),
    )
    for side, label in ((original, "original"), (port, "ported")):
        side.load()
        assert side.failure is None, side.failure
        assert side.lookup(side.name, "Net.side") == label
        assert side.is_local("parts")
    assert original.lookup(original.name, "Net") is not port.lookup(port.name, "Net")
