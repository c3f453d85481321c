"""Tutorials: each runs, and shows what was shown when its text was written."""

import json
from pathlib import Path

import pytest

from docs._build.pages import notebook_of, page_of
from docs._build.percent import parse_cells, read_tutorial
from docs._build.running import Output, picture_of, run_cells
from docs._build.staging import ROOT, site_links, tutorial_files
from tests.docs.running import shown_in

SHOWN = Path(__file__).parent / "shown"
TUTORIALS = tutorial_files()


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_shows_what_is_stored(path, staged, golden):
    page = (staged / "tutorials" / f"{path.stem}.md").read_text(encoding="utf-8")
    golden(SHOWN / f"{path.stem}.md", shown_in(page))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_begins_with_a_title_and_ends_with_where_next(path):
    tutorial = read_tutorial(path)
    assert tutorial.title
    assert tutorial.cells[-1].text.startswith("## Where next\n")
    assert {cell.kind for cell in tutorial.cells} == {"markdown", "code"}
    # One idea per cell: a longer one does not fit a screen.
    assert [cell.line for cell in tutorial.cells if cell.text.count("\n") > 50] == []


SOURCE = """\
# %% [markdown]
# # Title
#
# Text.
#
# ## Section

# %%
x = 20
print("printed")
x + 1

# %%
class Drawn:
    def _repr_svg_(self):
        return '<svg aria-label="Net"></svg>'


Drawn()
"""


@pytest.fixture
def tutorial(tmp_path):
    path = tmp_path / "99_test.py"
    path.write_text(SOURCE, encoding="utf-8")
    return read_tutorial(path)


def test_cells_of_a_file_have_kind_text_and_line(tutorial):
    kinds = [(cell.kind, cell.line) for cell in tutorial.cells]
    assert kinds == [("markdown", 2), ("code", 9), ("code", 14)]
    assert tutorial.cells[0].text == "# Title\n\nText.\n\n## Section"


def test_run_of_cells_shows_prints_values_and_pictures(tutorial):
    numbers, picture = run_cells("99_test.py", tutorial.cells)
    assert numbers == Output(printed="printed\n21\n")
    assert picture.picture.startswith("<svg")


def test_run_of_a_failing_cell_has_the_line_of_the_file():
    cells = parse_cells("# %%\nx = 1\n\n# %%\n1 / 0\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run_cells("99_test.py", cells)
    assert caught.traceback[-1].lineno + 1 == 5


def test_picture_of_a_plain_value_is_empty():
    assert picture_of(3) == ""


def test_page_has_code_outputs_and_downloads_before_the_first_section(tutorial):
    page, pictures = page_of(tutorial, tuple(run_cells("99_test.py", tutorial.cells)))
    assert page.index("Text.") < page.index("99_test.ipynb") < page.index("## Section")
    assert '```python\nx = 20\nprint("printed")\nx + 1\n```\n\n```text\nprinted\n21\n```' in page
    assert list(pictures) == ["99_test-1.svg"]
    assert "![the graph of Net](99_test-1.svg)" in page


def test_notebook_has_every_cell_and_the_version_of_its_format(tutorial):
    document = json.loads(notebook_of(tutorial))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert [cell["cell_type"] for cell in document["cells"]] == ["markdown", "code", "code"]
    assert "".join(document["cells"][1]["source"]) == tutorial.cells[1].text


def test_file_without_a_title_is_refused(tmp_path):
    path = tmp_path / "99_test.py"
    path.write_text("# %%\nx = 1\n", encoding="utf-8")
    with pytest.raises(ValueError, match="begin with one"):
        read_tutorial(path)


@pytest.mark.parametrize(
    ("written", "built"),
    [
        ("[a](../tutorials/04_training.py#x)", "[a](../tutorials/04_training.md#x)"),
        ("[a](flows.md#x)", "[a](flows.md#x)"),
        (
            "[a](../../README.md)",
            "[a](https://github.com/flodl/flodl/blob/main/README.md)",
        ),
        ("`[a](../../README.md)`", "`[a](../../README.md)`"),
        ("```python torch\n```", '```python title="PyTorch"\n```'),
        ("```python setup\n```", "```python\n```"),
    ],
)
def test_links_of_a_document_lead_to_pages_or_to_the_repository(written, built):
    assert site_links(written, ROOT / "docs" / "explanation" / "porter.md") == built
