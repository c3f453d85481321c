"""The pages for the first minutes: their commands print what the pages show."""

import pytest
import torch

from tests.docs.checks import PAGE_CHECKS
from tests.docs.reading import ROOT, blocks

PAGES = ROOT / "docs" / "get-started"
IMAGES = PAGES.parent / "images"


@pytest.mark.slow
@pytest.mark.torch
def test_first_port_commands_print_and_write_what_the_page_shows():
    assert PAGE_CHECKS["port"](ROOT, PAGES / "first-port.md") == []


@pytest.mark.torch
def test_first_graph_picture_is_what_the_page_draws(tmp_path, golden, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    torch.manual_seed(0)
    code = "\n".join(b.body for b in blocks(PAGES / "first-graph.md") if b.kind == "python")
    exec(compile(code, "first-graph.md", "exec"), names)
    golden(IMAGES / "tiny.svg", (tmp_path / "tiny.svg").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", sorted(PAGES.glob("*.md")), ids=lambda path: path.stem)
def test_page_ends_with_where_next(path):
    assert path.read_text(encoding="utf-8").split("\n## ")[-1].startswith("Where next\n")
