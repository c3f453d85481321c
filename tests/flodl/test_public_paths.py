"""Promised import paths: each public name of `flodl` is also in the package that it belongs to."""

import ast
import importlib
import sys
from pathlib import Path

import pytest

import flodl

pytestmark = pytest.mark.torch

# Folders of the runtime -> the public package that gives their names, whatever the folders are called.
PUBLIC = {
    "nn": "nn",
    "data": "data",
    "monitor": "monitor",
    "tensor": "tensor",
    "autograd": "autograd",
}
NOT_GRAPHS = {*PUBLIC, "checkpoint", "errors", "log", "observe", "ops", "runs", "step", "train"}


def homes():
    """Yield (package, name) for each name that `flodl/__init__.py` takes from one of its packages."""
    tree = ast.parse(Path(flodl.__file__).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module.startswith("flodl."):
            folder = node.module.split(".")[1]
            for alias in node.names:
                if folder in PUBLIC:
                    yield PUBLIC[folder], alias.asname
                elif folder not in NOT_GRAPHS:
                    yield "graph", alias.asname


@pytest.mark.parametrize("package", ["nn", "graph", "monitor", "data", "tensor", "autograd"])
def test_package_gives_its_public_names(package):
    module = importlib.import_module(f"flodl.{package}")
    names = [name for home, name in homes() if home == package]
    assert len(names) >= 2
    for name in names:
        if (package, name) != (
            "nn",
            "modules",
        ):  # a module there, which the function must not hide
            assert getattr(module, name) is getattr(flodl, name), name


PROMISED = {
    "flodl.nn": "Linear",
    "flodl.graph": "FlowBuilder",
    "flodl.monitor": "Monitor",
    "flodl.data": "DataLoader",
    "flodl.tensor": "Tensor",
    "flodl.autograd": "Variable",
}


@pytest.mark.parametrize("package", PROMISED)
def test_promised_import_gives_the_name_of_flodl(package):
    found: dict[str, object] = {}
    exec(f"from {package} import {PROMISED[package]} as found", found)
    assert found["found"] is getattr(flodl, PROMISED[package])


def test_promised_imports_load_nothing_that_flodl_does_not(in_new_process):
    imports = "\n".join(f"from {package} import {name}" for package, name in PROMISED.items())
    before, after = "import sys, flodl; old = set(sys.modules)", "print(set(sys.modules) - old)"
    assert in_new_process(f"{before}\n{imports}\n{after}") == "set()"


def test_importing_flodl_without_numpy_prints_no_warning(in_new_process):
    hidden = "import sys; sys.modules['numpy'] = None"
    assert (
        in_new_process(f"{hidden}; import flodl, torch; print(torch.ones(1).tolist())") == "[1.0]"
    )


def test_graph_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'FlowBilder'"):
        _ = flodl.graph.FlowBilder
    assert sys.modules["flodl.graph"].__all__ == sorted(flodl.graph.__all__)


@pytest.fixture
def in_new_process():
    import subprocess

    def run(code):
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return done.stdout.strip()

    return run
