"""The gallery: every example has a page, and a page is what the tool prints."""

import pytest

from docs._build.gallery import EXAMPLES, FOLDER, TITLES, page_of, roots_of


def test_gallery_has_a_page_for_each_example():
    assert sorted(TITLES) == sorted(path.stem for path in EXAMPLES.glob("*.py"))
    index = (FOLDER / "index.md").read_text("utf-8")
    for name, title in TITLES.items():
        assert f"| [{title}]({name}.md) |" in index
    pages = {path.stem for path in FOLDER.glob("*.md")}
    assert pages == {*TITLES, "index"}


@pytest.mark.parametrize("name", sorted(TITLES))
def test_page_of_the_gallery_proves_every_class_and_draws_every_model(name):
    text = (FOLDER / f"{name}.md").read_text("utf-8")
    proof = text.partition("## The proof")[2].partition("## The graph")[0]
    lines = [line for line in proof.splitlines() if line.startswith("  graph ")]
    assert lines
    assert all(", equal (" in line for line in lines)
    for model in roots_of((EXAMPLES / f"{name}.py").read_text("utf-8")):
        assert f"({name}-{model}.svg)" in text
        assert f'aria-label="{model}"' in (FOLDER / f"{name}-{model}.svg").read_text("utf-8")


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("name", ["gpt", "vae"])
def test_page_of_the_gallery_is_what_the_tool_prints(name):
    page = page_of(name)
    assert page.text == (FOLDER / f"{name}.md").read_text("utf-8")
    for file, picture in page.pictures.items():
        assert picture == (FOLDER / file).read_text("utf-8")
    assert page.row in (FOLDER / "index.md").read_text("utf-8")


def test_roots_of_a_script_are_the_models_that_no_other_makes():
    text = (
        "class A(nn.Module): pass\n"
        "class B(nn.Module):\n    def __init__(self, block):\n"
        "        super(B, self).__init__()\n        self.a = A()\n"
        "class C(nn.Module): pass\n"
        "class Data(Dataset): pass\n"
        "model = B(C)\n"
    )
    assert roots_of(text) == ["B"]
