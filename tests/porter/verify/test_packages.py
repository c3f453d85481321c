"""Models of packages that nobody here wrote: ported in a temporary tree, compared with the originals."""

from __future__ import annotations

import ast
import importlib.util
import shutil
from pathlib import Path

import pytest

from fdl_cli.porter.port_file import port_file
from tests.porter.verify.examining import examine_files, statuses
from tests.porter.verify.package_models import MODELS, SEVEN, PackageModel

pytestmark = [pytest.mark.torch, pytest.mark.slow]


class PortedTree:
    """A copy of a package in which files are ported when a model needs them."""

    def __init__(self, package: str, folder: Path) -> None:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        self.source = Path(spec.origin).parent
        self.copy = folder / package
        shutil.copytree(self.source, self.copy, ignore=shutil.ignore_patterns("__pycache__"))
        self._ported: dict[Path, dict[str, str]] = {}

    def port(self, relative: Path) -> dict[str, str]:
        """Port a file and what it imports from its package; return the status of its classes."""
        if relative not in self._ported:
            self._ported[relative] = {}
            file = self.source / relative
            outcome, data = port_file(file.read_bytes(), file, None)
            assert outcome.error is None
            (self.copy / relative).write_bytes(data)
            self._ported[relative] = {item.name: item.status for item in outcome.classes}
            for neighbour in self._imports(file):
                self.port(neighbour)
        return self._ported[relative]

    def _imports(self, file: Path) -> list[Path]:
        found = []
        for node in ast.walk(ast.parse(file.read_bytes())):
            if not isinstance(node, ast.ImportFrom) or node.module is None:
                continue
            path = Path(*node.module.split("."))
            base = file.parent if node.level else self.source.parent
            target = (base / path).with_suffix(".py")
            if target.is_file() and target.is_relative_to(self.source):
                found.append(target.relative_to(self.source))
        return found


@pytest.fixture(scope="session")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, PortedTree]:
    return {
        package: PortedTree(package, tmp_path_factory.mktemp(package))
        for package in {model.package for model in MODELS}
    }


def test_the_list_is_long_enough_and_names_nothing_twice() -> None:
    assert len(MODELS) >= 40
    assert len({(model.module, model.example) for model in MODELS}) == len(MODELS)


# Every second one: each takes half a minute, and `benchmarks/zoo.py` proves whole packages.
@pytest.mark.parametrize("model", MODELS[::2], ids=lambda model: f"{model.module}-{model.name}")
def test_model_is_ported_and_equal(
    model: PackageModel, trees: dict[str, PortedTree], tmp_path: Path
) -> None:
    tree = trees[model.package]
    ported = tree.port(Path(model.module))
    assert ported.get(model.class_name) in {"graph", None}, ported
    found = examine_files(
        tree.source / model.module,
        tree.copy / model.module,
        (model.class_name,),
        workdir=tmp_path / "work",
        examples=(model.example,),
        limit_s=240.0,
    )[model.class_name]
    assert found["status"] == "equal", found["detail"]
    checks = statuses(found)
    assert {name: checks[name] for name in SEVEN} == dict.fromkeys(SEVEN, "equal"), found
