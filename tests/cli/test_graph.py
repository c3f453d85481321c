"""`fdl graph` as a process: pictures of a file's models, and what people see when it cannot draw."""

import json
import os
import re
import xml.etree.ElementTree as ET

import pytest

from tests.cli.fork_server import ForkServer

pytestmark = [pytest.mark.torch, pytest.mark.slow]

MODEL = """
import torch
from torch import nn
from flodl import Flow, FlowModule

class Block(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width)

    def flow(self, x: Flow) -> Flow:
        return x + x.through(self.lin).through(torch.relu)

class Net(FlowModule):
    def __init__(self, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block(4) for _ in range(depth))

    def flow(self, x: Flow) -> Flow:
        if x.size(0) > 1:
            x = x * 2
        return x.through(self.blocks).tag("body")

class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 2)

    def forward(self, x):
        return torch.relu(self.lin(x))

def small():
    return Net(1)

ready = Net(3)
"""


@pytest.fixture(scope="module")
def fork_server():
    """A server that has imported torch too, where no test looks at the start of the process that draws."""
    server = ForkServer({**os.environ, "PYTHONWARNINGS": "error"}, "drawing")
    yield server
    server.close()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "notes.md").write_text("# Notes\n")
    return tmp_path


def test_the_flow_is_printed_as_text(fdl, folder):
    done = fdl("graph", "model.py:Block")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Block(x)")
    assert "lin = Linear(x)" in done.stdout
    assert "Block: 4 steps" in done.stderr


def test_graph_of_a_file_in_a_package_reads_its_relative_imports(fdl, folder):
    package = folder / "zoo" / "nets"
    package.mkdir(parents=True)
    (folder / "zoo" / "__init__.py").write_text("from .nets.model import Net\n")
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text(MODEL)
    (package / "beside.py").write_text("")
    (package / "model.py").write_text(
        "import beside\nfrom .parts import *\nfrom ..nets import parts\n"
    )
    done = fdl("graph", "zoo/nets/model.py:Net")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "Net(x)"), done.stderr


def test_every_format_is_written(fdl, folder):
    done = fdl(
        "graph", "model.py:ready", "--svg", "a.svg", "--html", "out/a.html", "--dot", "a.dot",
        "--mermaid", "a.mmd", "--depth", "1", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)["data"]
    assert set(data["written"]) == {"svg", "html", "dot", "mermaid"}
    assert data["parameters"] == 3 * 20
    picture = (folder / "a.svg").read_text()
    ET.fromstring(picture)
    assert picture.count(">relu<") == 3
    assert "#body" in picture
    assert (folder / "out" / "a.html").read_text().startswith("<!doctype html>")
    assert (folder / "a.dot").read_text().startswith("digraph")
    assert (folder / "a.mmd").read_text().startswith("flowchart TD")


def test_graph_direction_right_draws_a_wide_picture(fdl, folder):
    done = fdl("graph", "model.py:ready", "--svg", "wide.svg", "--direction", "right")
    assert done.returncode == 0, done.stderr
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', (folder / "wide.svg").read_text())
    assert float(size[1]) > float(size[2])
    assert fdl("graph", "model.py:ready", "--svg", "b.svg", "--direction", "up").returncode == 2


def test_the_example_decides_what_is_made_and_drawn(fdl, folder):
    done = fdl(
        "graph", "model.py:Net", "--example", "Net(5): torch.ones(1, 4)", "--svg", "one.svg"
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "one.svg").read_text().count(">Block<") == 5
    assert "\u00d7</text>" not in (folder / "one.svg").read_text(), "a batch of one is not doubled"
    assert "1\u00d74" in (folder / "one.svg").read_text()


def test_graph_picture_without_an_example_has_shapes_of_guessed_inputs(fdl, folder):
    # Its flow needs no call to be described.
    (folder / "easy.py").write_text(
        "from torch import nn\nfrom flodl import FlowModule\n\n"
        "class Easy(FlowModule):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.lin = nn.Linear(4, 5)\n\n"
        "    def flow(self, x):\n"
        "        return x.through(self.lin)\n"
    )
    done = fdl("graph", "easy.py:Easy", "--svg", "net.svg", "--html", "net.html", "--json")
    assert done.returncode == 0, done.stderr
    assert "2\u00d75 " in (folder / "net.svg").read_text()
    assert '["output","2\u00d75 float32"]' in (folder / "net.html").read_text()
    assert json.loads(done.stdout)["data"]["example"] == "Easy(...), called with guessed inputs"


def test_graph_picture_of_a_plain_module_without_an_example_has_shapes_of_its_layers(fdl, folder):
    done = fdl("graph", "model.py:Plain", "--svg", "plain.svg")
    assert done.returncode == 0, done.stderr
    assert "2\u00d72 \u00b7 10 params" in (folder / "plain.svg").read_text()


def test_graph_values_of_a_graph_network_need_no_example(fdl, folder):
    (folder / "edges.py").write_text(
        "import torch\nfrom torch import nn\n\n"
        "class Edges(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.lin = nn.Linear(8, 3)\n\n"
        "    def forward(self, x, edge_index):\n"
        "        source, target = edge_index[0], edge_index[1]\n"
        "        x = self.lin(x)\n"
        "        return torch.zeros_like(x).index_add(0, target, x[source])\n"
    )
    done = fdl("graph", "edges.py:Edges", "--values", "--html", "edges.html")
    assert done.returncode == 0, done.stderr
    assert "lin    2x3 float32" in done.stdout
    page = (folder / "edges.html").read_text()
    assert re.search(r'\["input","edge_index 2\u00d7\d+ int64"\]', page)
    assert '["output","2\u00d73 float32"]' in page


def test_graph_picture_of_a_flow_that_fits_no_guess_has_no_shapes(fdl, folder):
    (folder / "odd.py").write_text(
        "from flodl import FlowModule\n\n"
        "class Odd(FlowModule):\n"
        "    def flow(self, table):\n"
        "        return table.reshape(7, 11, 13, 17, 19, 23).relu()\n"
    )
    done = fdl("graph", "odd.py:Odd", "--svg", "odd.svg")
    assert done.returncode == 0, done.stderr
    drawn = (folder / "odd.svg").read_text()
    assert ">relu<" in drawn
    assert "\u00d7" not in drawn


def test_graph_of_a_plain_module_draws_what_fx_traces(fdl, folder):
    done = fdl("graph", "model.py:Plain", "--dot", "a.dot", "--svg", "a.svg", "--heat", "time")
    assert done.returncode == 0, done.stderr
    assert "Plain: 3 steps, 10 parameters" in done.stderr
    assert "relu" in (folder / "a.dot").read_text()
    assert "forward time: " in (folder / "a.svg").read_text()


def test_graph_summary_prints_parts_with_outputs_and_macs(fdl, folder):
    done = fdl("graph", "model.py:Plain", "--summary", "--example", "Plain(): torch.ones(3, 4)")
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["part", "kind", "output", "bytes", "parameters", "bytes", "MACs"],
        ["model", "Plain", "3x2", "float32", "24", "10", "40", "24"],
        ["lin", "Linear", "3x2", "float32", "24", "10", "40", "24"],
    ]
    done = fdl("graph", "model.py:Net", "--summary", "--svg", "net.svg", "--json")
    assert done.returncode == 0, done.stderr
    assert "Block" in json.loads(done.stdout)["data"]["text"]
    assert (folder / "net.svg").read_text().startswith("<svg")


def test_graph_summary_with_values_prints_and_returns_both(fdl, folder):
    asked = ("graph", "model.py:Net", "--summary", "--values", "--example")
    done = fdl(*asked, "Net(1): torch.ones(2, 4)")
    assert done.returncode == 0, done.stderr
    parts, values = (
        [line.split() for line in table.splitlines()] for table in done.stdout.split("\n\n")
    )
    assert parts[1] == ["model", "Net", "2x4", "float32", "32", "20", "80", "32"]
    assert values[0] == ["value", "shape", "dtype", "bytes"]
    assert ["blocks.0.lin", "2x4", "float32", "32"] in values
    assert ["x[1]", "2x4", "float32", "32"] in values
    data = json.loads(fdl(*asked, "Net(1): torch.ones(2, 4)", "--json").stdout)["data"]
    assert [row["path"] for row in data["summary"]["parts"]] == [
        "", "blocks", "blocks.0", "blocks.0.lin"
    ]  # fmt: skip
    (x,) = [row for row in data["summary"]["values"] if row["name"] == "x[1]"]
    assert (x["shapes"], x["bytes"], x["kind"]) == ([[2, 4]], 32, "value")
    assert json.loads(fdl("graph", "model.py:Net", "--json").stdout)["data"]["summary"] is None


def test_graph_summary_with_heat_time_has_times_and_their_coverage(fdl, folder):
    asked = ("graph", "model.py:Net", "--summary", "--heat", "time")
    done = fdl(*asked)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split()[-1] == "time"
    assert lines[-1].startswith("the times cover ")
    found = json.loads(fdl(*asked, "--json").stdout)["data"]["summary"]
    assert 0 < found["coverage"]["steps"] < found["coverage"]["total"]
    assert found["parts"][0]["seconds"] == found["coverage"]["total"]
    plain = json.loads(fdl("graph", "model.py:Net", "--summary", "--json").stdout)["data"]
    assert plain["summary"]["coverage"] is plain["summary"]["parts"][0]["seconds"] is None


def test_graph_of_a_file_lists_its_models(fdl, folder):
    done = fdl("graph", "model.py")
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["name", "kind", "line"],
        ["Block", "flow", "module", "6"],
        ["Net", "flow", "module", "14"],
        ["Plain", "plain", "module", "24"],
        ["ready", "flow", "module", "Net"],
    ]
    assert "`fdl graph model.py:NAME --svg FILE`" in done.stderr


def test_graph_of_a_file_without_models_says_so(fdl, tmp_path):
    (tmp_path / "empty.py").write_text("import torch\n")
    done = fdl("graph", "empty.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "empty.py has no models\n")
    data = json.loads(fdl("graph", "empty.py", "--json").stdout)["data"]
    assert data["models"] == []


@pytest.mark.parametrize("heat", ["time", "backward", "memory"])
def test_heat_maps_have_a_legend(fdl, folder, heat):
    done = fdl("graph", "model.py:small", "--svg", "h.svg", "--heat", heat)
    assert done.returncode == 0, done.stderr
    legend = {"time": "forward time: ", "backward": "backward time: ", "memory": "memory of the"}
    assert legend[heat] in (folder / "h.svg").read_text()


def test_an_existing_file_is_kept_unless_forced(fdl, folder):
    (folder / "a.svg").write_text("mine")
    done = fdl("graph", "model.py:Net", "--svg", "a.svg")
    assert done.returncode == 6
    assert "error[output-exists]" in done.stderr
    assert (folder / "a.svg").read_text() == "mine"
    assert fdl("graph", "model.py:Net", "--svg", "a.svg", "--force").returncode == 0
    assert (folder / "a.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["model.py", "--svg", "a.svg"], 2, ["error[model-syntax]", "FILE:NAME"]),
        (["model"], 2, ["error[model-syntax]", "FILE:NAME"]),
        (["other.py:Net"], 4, ["error[file-not-found]"]),
        (["notes.md"], 1, ["error[file-does-not-import]", "ends in .py"]),
        (["model.py:Nett"], 4, ["error[name-not-found]", "`Block`, `Net`, `Plain`, `ready`"]),
        (["model.py:Plain", "--heat", "memory"], 1, ["error[not-a-graph]", "fdl port model.py"]),
        (["model.py:Flow", "--example", "3"], 1, ["error[not-a-graph]", "`Flow` is no model"]),
        (["model.py:Net", "--example", "Net(1: 2"], 1, ["error[example-syntax]"]),
        (["model.py:Net", "--example", "Net(1): torch.ones(2, 3)"], 1, ["error[example-fails]"]),
        (["model.py:Net", "--example", "Net(None): 1"], 1, ["model.py:17", "making the model"]),
    ],
)
def test_mistakes_say_what_to_do(fdl, folder, arguments, code, words):
    done = fdl("graph", *arguments)
    assert done.returncode == code, done.stderr
    assert all(word in done.stderr for word in words), done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_does_not_import_names_its_line(fdl, tmp_path):
    (tmp_path / "broken.py").write_text("import torch\n\nraise ValueError('no data')\n")
    done = fdl("graph", "broken.py:Net")
    assert done.returncode == 1
    assert "broken.py:3" in done.stderr
    assert "ValueError: no data" in done.stderr


def test_a_model_that_hangs_is_stopped(fdl, tmp_path):
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(60)\n")
    done = fdl("graph", "slow.py:Net", "--timeout", "3")
    assert done.returncode == 1
    assert "error[" in done.stderr


def test_values_are_listed_with_shape_and_line(fdl, folder):
    done = fdl("graph", "model.py:Net", "--values", "--example", "Net(2): torch.ones(2, 4)")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["value", "shape", "line"]
    assert ["blocks.0.lin", "2x4", "float32", "model.py:12"] in rows
    (x,) = [row for row in rows if row[0] == "x[1]"]
    assert x[1:3] == ["2x4", "float32"]
    assert x[3] == "model.py:21"
    plain = fdl("graph", "model.py:Plain", "--values").stdout
    assert [line.split() for line in plain.splitlines()] == [
        ["value", "shape", "line"],
        ["lin", "2x2", "float32", "model.py:30"],
    ]


def test_values_whose_lines_are_unknown_have_no_column_of_lines(fdl, folder):
    (folder / "chain.py").write_text(
        "from torch import nn\n\nnet = nn.Sequential(nn.Linear(4, 2), nn.ReLU())\n"
    )
    done = fdl("graph", "chain.py:net", "--values")
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["value", "shape"], ["0", "2x2", "float32"], ["1", "2x2", "float32"],
    ]  # fmt: skip


def test_diff_of_two_files_names_and_draws_what_changed(fdl, folder):
    (folder / "new.py").write_text(
        MODEL.replace("torch.relu", "torch.tanh").replace("(4, 2)", "(4, 3)")
    )
    done = fdl("graph", "--diff", "model.py", "new.py:Plain", "--svg", "d.svg")
    assert done.returncode == 1
    assert done.stdout.startswith("Plain -> Plain: 2 changed; parameters 10 -> 15 (+5)\n")
    assert "- relu = torch.relu(lin)" in done.stdout
    assert "+ tanh = torch.tanh(lin)" in done.stdout
    assert "new or wired anew" in (folder / "d.svg").read_text()
    document = json.loads(
        fdl("graph", "--diff", "model.py:Plain", "new.py:Plain", "--json").stdout
    )
    assert document["ok"] is False
    assert [row["path"] for row in document["data"]["changes"]] == ["", "lin"]
    flows = fdl(
        "graph", "--diff", "model.py", "new.py:Net", "--example", "Net(2): torch.ones(2, 4)"
    )
    assert flows.returncode == 1
    assert "torch.tanh" in flows.stdout


def test_diff_of_equal_models_exits_with_0(fdl, folder):
    done = fdl("graph", "--diff", "model.py:small", "model.py:small")
    assert (done.returncode, done.stdout) == (0, "no difference: 4 parts, 20 parameters\n")
    document = json.loads(fdl("graph", "model.py:Plain", "--json").stdout)
    assert document["data"]["changes"] is None


def test_diff_with_a_summary_or_without_a_file_is_a_mistake(fdl, folder):
    done = fdl("graph", "--diff", "model.py", "model.py:Plain", "--summary")
    assert (done.returncode, "contradict" in done.stderr) == (2, True)
    done = fdl("graph", "--diff", "gone.py", "model.py:Plain")
    assert done.returncode == 2
    done = fdl("graph", "--diff", "gone.py:Plain", "model.py:Plain")
    assert (done.returncode, "there is no file gone.py" in done.stderr) == (4, True)


def test_graph_page_holds_the_values_that_weights_chooses(fdl, folder):
    (folder / "large.py").write_text(
        "from torch import nn\n\n"
        "class Large(nn.Sequential):\n"
        "    def __init__(self):\n"
        "        super().__init__(nn.Linear(600, 600))\n"
    )
    held = {}
    for weights in ("none", "small", "all"):
        done = fdl("graph", "large.py:Large", "--html", f"{weights}.html", "--weights", weights)
        assert done.returncode == 0, done.stderr
        page = (folder / f"{weights}.html").read_text()
        held[weights] = page.count('id="fd-values-')
        assert ("1.4 MiB of values are left out: --weights all" in page) == (weights != "all")
    assert held == {"none": 0, "small": 1, "all": 2}
    done = fdl("graph", "large.py:Large", "--html", "default.html")
    assert (folder / "default.html").read_text().count('id="fd-values-') == 1
    done = fdl("graph", "large.py:Large", "--svg", "a.svg", "--weights", "all")
    assert done.returncode == 2
    assert "--html FILE --weights all" in done.stderr
