"""Notebooks: code cells are ported, and every other byte stays."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdl_cli.app import main
from fdl_cli.porter.json_places import places
from fdl_cli.porter.notebook import Notebook

NET = [
    "class Net(nn.Module):\n",
    "    def __init__(self):\n",
    "        super().__init__()\n",
    "        self.a = nn.Linear(4, 4)\n",
    "\n",
    "    def forward(self, x):\n",
    "        return self.a(x) + x",
]
CELLS = [
    ("markdown", ["# A café\n", "class Net(nn.Module): in words"]),
    ("code", ["%matplotlib inline\n", "import torch\n", "import torch.nn as nn\n", "!pip list"]),
    ("code", ["%%time\n", *NET]),
    ("code", ["%%bash\n", "ls 'x"]),
    ("code", "out = Net()(torch.randn(2, 4))\nfiles = !ls\nout?"),
    ("code", ["text = '''\n", "%not a magic\n", "'''\n", "await here()"]),
    ("code", []),
]


def notebook(cells, **style):
    document = {
        "cells": [
            {"cell_type": kind, "metadata": {}, "source": source, "outputs": [{"x": 1.50}]}
            for kind, source in cells
        ],
        "metadata": {"kernelspec": {"name": "python3"}},
        "nbformat": 4,
    }
    return (json.dumps(document, **style) + "\n").encode()


STYLES = [{"indent": 1, "ensure_ascii": False}, {"indent": 2}, {}, {"separators": (",", ":")}]


@pytest.mark.parametrize("style", STYLES, ids=["jupyter", "escaped", "flat", "dense"])
def test_only_the_cells_that_change_are_written(style, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = notebook(CELLS, **style)
    (tmp_path / "a.ipynb").write_bytes(data)
    assert main(["port", "--no-verify", "a.ipynb", "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["data"]["files"]
    assert [item["status"] for item in file["classes"]] == ["graph"]
    made = (tmp_path / "a_flodl.ipynb").read_bytes()
    before, after = json.loads(data), json.loads(made)
    assert "".join(after["cells"][2]["source"]) == "".join(["%%time\n", *NET]).replace(
        "nn.Module", "FlowModule"
    ).replace("def forward", "def flow").replace("self.a(x) + x", "x.through(self.a) + x")
    assert "from flodl import FlowModule\n" in after["cells"][1]["source"]
    for number in (0, 3, 4, 5, 6):
        assert before["cells"][number] == after["cells"][number]
    # Taking the new texts back gives the old bytes.
    for number in (1, 2):
        after["cells"][number]["source"] = before["cells"][number]["source"]
    assert (json.dumps(after, **style) + "\n").encode() == data
    assert main(["port", "--no-verify", "a_flodl.ipynb", "--check"]) == 0


@pytest.mark.parametrize("style", STYLES)
@given(
    cells=st.lists(
        st.tuples(st.sampled_from(["code", "markdown"]), st.text() | st.lists(st.text(min_size=1)))
    )
)
def test_any_notebook_comes_back_byte_for_byte(cells, style):
    data = notebook(cells, **style)
    read = Notebook.read(data)
    assert read.with_python(read.python.decode("utf-8", "surrogatepass")) == data


def test_places_are_those_of_the_values():
    text = ' {"a": [1, "x\\"]", {"b": null}], "c": -1.5e3, "d": {}, "e": []} '
    root = places(text)
    second = root.items("a")[1]
    assert text[second.start : second.end] == '"x\\"]"'
    assert text[root.item("c").start : root.item("c").end] == "-1.5e3"
    assert root.items("e") == ()
    assert text[root.start : root.end] == text.strip()


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"cells": 3}', b"\xff", b'{"cells": [{}]}'])
def test_what_is_no_notebook_is_said(data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ipynb").write_bytes(data)
    assert main(["port", "--no-verify", "a.ipynb"]) == 2
    assert "error[notebook-unreadable]" in capsys.readouterr().err


def test_reasons_name_the_cell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    kept = [*NET[:-1], "        global y\n", "        return x"]
    (tmp_path / "a.ipynb").write_bytes(notebook([*CELLS[:2], ("code", kept)]))
    assert main(["port", "--no-verify", "a.ipynb", "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["data"]["files"]
    assert "(cell 3, line 7)" in file["classes"][0]["reasons"][0]["message"]


@pytest.mark.slow
@pytest.mark.torch
def test_a_notebook_is_proved(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.ipynb").write_bytes(notebook(CELLS[:5]))
    assert main(["port", "a.ipynb", "--json"]) == 0
    (file,) = json.loads(capsys.readouterr().out)["data"]["files"]
    assert file["classes"][0]["verify"]["status"] == "equal"
