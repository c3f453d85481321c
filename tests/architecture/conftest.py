"""The source of the project as syntax trees, read once for all architecture tests."""

import ast
import gc
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGES = ("fdl_cli", "flodl", "flodl_verify")


@dataclass(frozen=True)
class Source:
    """One module: where it is, its dotted name, its text, its tree and all that is in the tree."""

    path: str
    name: str
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]

    def at(self, node: ast.AST) -> str:
        return f"{self.path}:{node.lineno}"


def read(path: Path) -> Source:
    relative = path.relative_to(ROOT)
    parts = relative.with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    return Source(str(relative), name, text, tree, tuple(ast.walk(tree)))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def sources() -> tuple[Source, ...]:
    files = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    gc.disable()  # millions of nodes, which every collection from here on would look at
    found = tuple(read(path) for path in files)
    gc.freeze()
    gc.enable()
    assert len(found) > 20, "the sources of the project were not found"
    return found
