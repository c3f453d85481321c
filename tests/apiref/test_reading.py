"""The reference is read off source text: signatures, docstrings, re-exports and inheritance."""

import zipfile

import pytest

from fdl_cli.apiref.difference import compare
from fdl_cli.apiref.docstrings import parse_docstring
from fdl_cli.apiref.extract import build_index
from fdl_cli.apiref.lookup import find_entry, search
from fdl_cli.apiref.render import cut, entry_text, markdown, summary_text
from fdl_cli.apiref.source_tree import read_package
from fdl_cli.errors import NotFoundError

PACKAGE = {
    "flodl/__init__.py": '"""Root."""\nfrom flodl.module.a import Late as Late\n'
    "from flodl.module.a import run as run\nfrom flodl.nodes import Node as Node\n"
    "from flodl.module.a import LIMIT as LIMIT\nfrom torch import Tensor as Tensor\n",
    "flodl/nodes/__init__.py": '"""Nodes."""\nfrom flodl.nodes.deep import Node as Node\n',
    "flodl/nodes/deep.py": '''"""Deep."""
from dataclasses import dataclass
from flodl.module.a import Late

@dataclass(frozen=True, kw_only=True)
class Node(Late):
    """One node.

    More about it.

    Args:
        size: how many,
            over two lines.
        other: another.

    Raises:
        ValueError: it is empty.

    Example:
        >>> 1 + 1
        2
    """
    size: int = 3
    other: str

    @property
    def wide(self) -> bool:
        """Say so."""

    def go(self, a, /, b=1, *rest: int, c: int = 2, **more) -> "Late":
        """Go.

        Returns:
            What went.
        """

    @staticmethod
    def free(x):
        """Free."""
''',
    "flodl/module/a.py": '''"""A."""
LIMIT: int = 3
"""How many there may be."""

class Late:
    """Late one."""
    def __init__(self, first, second: int = 0) -> None: ...
    def go(self):
        """Shadowed."""
    def stay(self) -> None:
        """Stay."""
    def _hidden(self): ...

def run(x):
    """Run it with a residual."""
''',
}


@pytest.fixture
def package(tmp_path):
    for name, text in PACKAGE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.fixture
def index(package):
    return build_index(read_package(package), "1.0", {"flodl.run": "0.5"})


def test_names_kinds_and_places(index):
    found = {e.name: (e.kind, e.file, e.line, e.since) for e in index.public}
    assert found == {
        "flodl.Late": ("class", "flodl/module/a.py", 5, "1.0"),
        "flodl.run": ("function", "flodl/module/a.py", 14, "0.5"),
        "flodl.Node": ("class", "flodl/nodes/deep.py", 6, "1.0"),
        "flodl.LIMIT": ("value", "flodl/module/a.py", 2, "1.0"),
        "flodl.Tensor": ("alias", "flodl/__init__.py", 1, "1.0"),
    }


def test_signatures(index):
    assert find_entry(index, "Late").signature == "Late(first, second: int=0)"
    assert find_entry(index, "Node").signature == "Node(*, size: int = 3, other: str)"
    assert find_entry(index, "Node.go").signature == (
        "Node.go(a, /, b=1, *rest: int, c: int=2, **more) -> Late"
    )
    assert find_entry(index, "free").signature == "Node.free(x)"
    assert find_entry(index, "wide").signature == "Node.wide: bool"
    assert find_entry(index, "LIMIT").doc.summary == "How many there may be."


def test_inherited_members_name_their_base_once(index):
    members = {e.short_name: e.inherited_from for e in index.members("flodl.Node")}
    assert members == {"Node.wide": "", "Node.go": "", "Node.free": "", "Node.stay": "Late"}


def test_docstring_sections(index):
    doc = find_entry(index, "Node").doc
    assert (doc.summary, doc.body) == ("One node.", "More about it.")
    assert [(p.name, p.text) for p in doc.parameters] == [
        ("size", "how many, over two lines."),
        ("other", "another."),
    ]
    assert doc.raises[0].name == "ValueError"
    assert doc.examples == (">>> 1 + 1\n2",)
    assert find_entry(index, "Node.go").doc.returns == "What went."
    assert parse_docstring(None).summary == ""


def test_a_wheel_reads_as_its_folder(package, index, tmp_path):
    wheel = tmp_path / "flodl-1.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in PACKAGE.items():
            archive.writestr(name, text)
    assert build_index(read_package(wheel), "1.0", {"flodl.run": "0.5"}) == index


def test_a_lost_name_is_an_error_with_its_place(package):
    (package / "flodl/__init__.py").write_text(
        '"""R."""\nfrom flodl.module.a import Gone as Gone\n'
    )
    with pytest.raises(NotFoundError) as caught:
        build_index(read_package(package), "1", {})
    assert caught.value.file == "flodl/__init__.py"
    with pytest.raises(NotFoundError):
        read_package(package / "flodl")


@pytest.mark.parametrize("name", ["flodl.Node.go", "Node.go", "node.go", "NODE.GO"])
def test_spellings_of_a_member(index, name):
    assert find_entry(index, name).name == "flodl.Node.go"


def test_ambiguous_and_unknown_names_help(index):
    with pytest.raises(NotFoundError) as caught:
        find_entry(index, "go")
    assert caught.value.error_id == "api-name-ambiguous"
    assert "`Late.go`" in caught.value.message
    with pytest.raises(NotFoundError) as caught:
        find_entry(index, "Nod")
    assert "fdl api-ref Node" in caught.value.hint
    with pytest.raises(NotFoundError) as caught:
        find_entry(index, "nn.Linear")
    assert "--torch nn.Linear" in caught.value.hint


def test_search_ranks_names_before_words(index):
    assert next(m.entry.short_name for m in search(index, "run")) == "run"
    assert [m.entry.short_name for m in search(index, "residual")] == ["run"]
    assert search(index, "residual nonsense") == ()


def test_difference(index, package):
    path = package / "flodl/module/a.py"
    text = path.read_text().replace("def run(x)", "def run(x, y)").replace("stay", "leave")
    path.write_text(text)
    new = build_index(read_package(package), "2", {})
    changes = {(c.name, c.kind, c.breaking) for c in compare(index, new)}
    assert ("flodl.run", "signature", True) in changes
    assert ("flodl.Late.stay", "removed", True) in changes
    assert ("flodl.Late.leave", "added", False) in changes
    assert compare(index, index) == ()


def test_budgets_hold(index):
    entry = find_entry(index, "Node")
    for most in (10, 60, 200, 4000):
        assert len(entry_text(index, entry, most)) <= most
        assert len(cut("y" * 9000, most)) == most
    assert "--max-chars 0" in cut("y" * 9000, 200)
    assert len(cut("y" * 9000, 0)) == 9000
    assert "## Writing flows" in markdown(index, index.entries, 0)
    assert "Node" in summary_text(index, 8000)
    assert len(summary_text(index, 120)) == 120
