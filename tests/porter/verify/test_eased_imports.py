"""Classes are compared although packages around their file cannot be imported here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.porter.verify.examining import ClassEvidence, examine_files

pytestmark = [pytest.mark.torch, pytest.mark.slow]

NET = """
import torch
from torch import nn
{imports}

{before}
class Net(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        self.fc = nn.Linear(n, 3)

    def forward(self, x):
        {first}
        return self.fc(x).relu()
"""


def net(imports: str = "", before: str = "", first: str = "pass") -> str:
    return NET.format(imports=imports, before=before, first=first)


def examined(tmp_path: Path, files: dict[str, str], main: str, ported: str | None = None) -> Any:
    for side in ("original", "ported"):
        for name, text in files.items():
            path = tmp_path / side / "top" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if ported is not None:
        (tmp_path / "ported" / "top" / main).write_text(ported, encoding="utf-8")
    sides = [tmp_path / side / "top" / main for side in ("original", "ported")]
    found: dict[str, ClassEvidence] = examine_files(
        sides[0], sides[1], ("Net",), workdir=tmp_path / "work", limit_s=30.0
    )
    return found["Net"]


def test_a_missing_package_is_a_placeholder_and_said(tmp_path: Path) -> None:
    text = net(
        "import absent_one.engine\nfrom absent_two.registry import MODELS, Kind",
        "engine = absent_one.engine.make(3)\n\n@MODELS.register_module(name='net')",
        "if isinstance(x, Kind): return x.dense()",
    )
    result = examined(tmp_path, {"net.py": text}, "net.py")
    assert result["status"] == "equal"
    assert "with placeholders for absent_one, absent_two" in result["example"]


@pytest.mark.parametrize(
    "first",
    ["x = absent_one.relu(x)", "for item in absent_one.items: x = x + 1", "x = x * absent_one.k"],
)
def test_nothing_is_computed_with_a_placeholder(tmp_path: Path, first: str) -> None:
    result = examined(tmp_path, {"net.py": net("import absent_one", first=first)}, "net.py")
    assert result["status"] == "not-run"
    assert result["error_code"] == "no-inputs-found"


def test_an_import_that_the_program_can_do_without_stays_undone(tmp_path: Path) -> None:
    guarded = "try:\n    import absent_one\nexcept ImportError:\n    absent_one = None\n"
    text = net(f"{guarded}import absent_two", first="if absent_one is not None: x = None")
    result = examined(tmp_path, {"net.py": text}, "net.py")
    assert result["status"] == "equal"
    assert result["example"].endswith(", with placeholders for absent_two")


def test_a_name_that_an_installed_package_lacks(tmp_path: Path) -> None:
    text = net("from collections import NoSuchName, OrderedDict", "assert OrderedDict")
    result = examined(tmp_path, {"net.py": text}, "net.py")
    assert result["status"] == "equal"
    assert result["example"].endswith(", with placeholders for collections.NoSuchName")


def test_a_package_that_fails_when_it_is_imported(tmp_path: Path, monkeypatch: Any) -> None:
    broken = tmp_path / "site-packages" / "broken_one"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise RuntimeError('no locator available')\n")
    monkeypatch.syspath_prepend(broken.parent)
    text = net("from broken_one.util import pad", first="assert pad is not None")
    result = examined(tmp_path, {"net.py": text}, "net.py")
    assert result["status"] == "equal"
    assert "with placeholders for broken_one" in result["example"]


@pytest.mark.parametrize(
    ("library", "broken", "said"),
    [
        ("lib_lacking", "import absent_one\n", "absent_one"),
        (
            "lib_using",
            "import absent_one\nWIDTH = absent_one.width + 1\n",
            "absent_one, lib_using",
        ),
        ("lib_breaking", "import broken_part\n", "broken_part"),
        ("lib_asking", "import sound_part\nsound_part.ask()\n", "lib_asking"),
    ],
    ids=["what it lacks", "then the package", "what fails in it", "what it asks too much of"],
)
def test_a_package_that_lacks_another_one(
    tmp_path: Path, monkeypatch: Any, library: str, broken: str, said: str
) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    (site / "broken_part.py").write_text("raise RuntimeError('no program to start')\n")
    (site / "sound_part.py").write_text("def ask():\n    raise AttributeError('no more')\n")
    (site / f"{library}.py").write_text(broken + "def double(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(site)
    # With the package itself, its functions are there; without, nothing can be computed with them.
    doubled = f"x = {library}.double(x)" if library not in said else "pass"
    result = examined(tmp_path, {"net.py": net(f"import {library}", first=doubled)}, "net.py")
    assert result["status"] == "equal", result["detail"]
    assert result["example"].endswith(f"with placeholders for {said}")


def test_a_package_that_takes_all_the_time(tmp_path: Path, monkeypatch: Any) -> None:
    slow = tmp_path / "site-packages" / "slow_one"
    slow.mkdir(parents=True)
    (slow / "__init__.py").write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr("flodl_verify.sandbox.isolated_import.IMPORT_LIMIT_S", 1.0)
    monkeypatch.syspath_prepend(slow.parent)
    text = net("from slow_one.util import pad", first="assert pad is not None")
    result = examined(tmp_path, {"net.py": text}, "net.py")
    assert result["status"] == "equal"
    assert "with placeholders for slow_one" in result["example"]


def test_a_package_may_draw_random_numbers_when_it_is_imported(
    tmp_path: Path, monkeypatch: Any
) -> None:
    drawing = tmp_path / "site-packages" / "drawing_one"
    drawing.mkdir(parents=True)
    (drawing / "__init__.py").write_text("import torch\ntable = torch.rand(5)\n")
    monkeypatch.syspath_prepend(drawing.parent)
    text = net("import drawing_one")
    assert examined(tmp_path, {"net.py": text}, "net.py")["status"] == "equal"


def test_a_port_that_draws_when_it_is_imported_is_found(tmp_path: Path) -> None:
    other = net(before="table = torch.rand(5)\n")
    result = examined(tmp_path, {"net.py": net()}, "net.py", ported=other)
    assert result["status"] == "different"
    assert result["error_code"] == "import-draws"


def test_what_stands_behind_a_long_run_is_defined(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("flodl_verify.sandbox.isolated_import.IMPORT_LIMIT_S", 1.0)
    text = net("import time", "time.sleep(600)")
    result = examined(tmp_path, {"net.py": text}, "net.py")
    assert result["status"] == "equal"
    assert "placeholders" not in result["example"]


def test_an_error_of_the_programs_own_is_not_covered(tmp_path: Path) -> None:
    files = {"net.py": net("import own"), "own.py": "import os\nraise RuntimeError('mine')\n"}
    result = examined(tmp_path, files, "net.py")
    assert "placeholders" not in result["example"]


def test_the_init_of_a_package_that_fails(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "from . import sizes\nassert False, 'no data here'\n",
        "pkg/sizes.py": "WIDTH = 4\n",
        "pkg/net.py": net("from .sizes import WIDTH", first="assert WIDTH == 4"),
    }
    result = examined(tmp_path, files, "pkg/net.py")
    assert result["status"] == "equal"
    words = "without the `__init__` of pkg, which ends with AssertionError: no data here"
    assert words in result["example"]


def test_folders_above_a_package_that_are_no_packages(tmp_path: Path) -> None:
    files = {
        "names.py": "WIDTH = 4\n",
        "pkg/__init__.py": "",
        "pkg/net.py": net("from ..names import WIDTH", first="assert WIDTH == 4"),
    }
    result = examined(tmp_path, files, "pkg/net.py")
    assert result["status"] == "equal"
    assert "without" not in result["example"]


def test_a_port_that_differs_is_found_all_the_same(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "import absent_one\nraise OSError('gone')\n",
        "pkg/net.py": net("import absent_two"),
    }
    other = net("import absent_two", first="x = x + 1e-3")
    result = examined(tmp_path, files, "pkg/net.py", ported=other)
    assert result["status"] == "different"


def test_a_port_that_wants_more_than_the_original_is_found(tmp_path: Path) -> None:
    other = net("import absent_three")
    result = examined(tmp_path, {"net.py": net()}, "net.py", ported=other)
    assert result["status"] == "different"
    assert "absent_three" in result["detail"]
