"""`fdl port -`: a program from standard input is proved and printed; the report goes to stderr."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.torch]

HELPER = "def twice(x):\n    return x * 2\n"
MODEL = """\
import torch
from torch import nn
from helper import twice


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.a = nn.Linear(width, 3)

    def forward(self, x):
        return twice(self.a(x)).relu()
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


def port(folder, data, *words):
    """Run `fdl port WORDS -` and check that it leaves the folder as it was."""
    before = sorted(path.name for path in folder.iterdir())
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fdl_cli", "port", *words, "-"], cwd=folder,
        input=data if isinstance(data, bytes) else data.encode(), capture_output=True, check=False,
    )  # fmt: skip
    names = {path.name for path in folder.iterdir()} - {"__pycache__"}
    assert names - set(before) <= set(words), "nothing is written but what was asked for"
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_port_of_stdin_is_what_the_port_of_the_file_is(folder):
    code, printed, said = port(folder, MODEL)
    assert code == 0
    assert "<stdin>\n  graph    Net  3 of 3 operations, equal" in said
    (folder / "model.py").write_text(MODEL)
    words = [sys.executable, "-P", "-m", "fdl_cli", "port", "--no-verify", "model.py"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    assert printed == (folder / "model_flodl.py").read_text()
    assert "class Net(FlowModule)" in printed


def test_port_of_stdin_with_an_output_prints_the_report(folder):
    code, printed, _ = port(folder, MODEL, "-o", "out.py")
    assert code == 0
    assert printed.startswith(f"<stdin> -> {folder / 'out.py'}\n")
    assert "class Net(FlowModule)" in (folder / "out.py").read_text()


def test_port_of_stdin_as_json_holds_the_text(folder):
    code, printed, _ = port(folder, MODEL, "--json")
    (file,) = json.loads(printed)["data"]["files"]
    assert code == 0
    assert (file["file"], file["output"]) == ("<stdin>", None)
    assert file["text"].count("class Net(FlowModule)") == 1
    assert "/tmp" not in printed.replace(str(folder), "")


def test_port_of_stdin_as_a_difference_names_stdin(folder):
    code, printed, _ = port(folder, MODEL, "--diff")
    assert code == 0
    assert printed.startswith("--- <stdin>\n")
    assert "+class Net(FlowModule):" in printed


def test_check_of_stdin_ends_with_1_if_there_is_something_to_port(folder):
    assert port(folder, MODEL, "--check")[0] == 1
    assert port(folder, HELPER, "--check")[0] == 0


@pytest.mark.parametrize("data", [HELPER, "", "x = 1", "# only a remark\r\n", "x = 'ä'\n"])
def test_stdin_without_models_is_printed_as_it_was(folder, data):
    code, printed, said = port(folder, data)
    assert code == 0
    assert printed == data
    assert "nothing-to-port" in said


@pytest.mark.parametrize(
    ("words", "data", "error"),
    [
        ((), "x = (", "error[source-syntax]: <stdin>:1: the file is not valid Python"),
        (("--in-place",), MODEL, "error[port-stdin-in-place]"),
        (("helper.py",), MODEL, "error[port-stdin-alone]"),
        (("--verify-only", "helper.py"), MODEL, "error[port-stdin-alone]"),
        ((), b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "error[port-stdin-encoding]"),
        ((), b"x = '\xe9'\n", "error[encoding-unreadable]: <stdin>:1:"),
    ],
)
def test_stdin_that_cannot_be_ported_prints_nothing_but_the_reason(folder, words, data, error):
    code, printed, said = port(folder, data, *words)
    assert code == 2
    assert printed == ""
    assert error in said
    assert "/tmp/tmp" not in said
