"""A file may end with any blank lines; they are read, and written back, as they are."""

import libcst
from hypothesis import example, given
from hypothesis import strategies as st

from fdl_cli.porter.parse.reader import read
from fdl_cli.porter.port_file import port_file

BODIES = ("x = 1", "def f():\n    pass", "class A:\n    def f(self):\n        return 1", "# c", "")
MODEL = """from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = self.fc(x)
        return x.relu()
"""


@given(
    st.sampled_from(BODIES),
    st.lists(st.sampled_from(["", " ", "    ", "        ", "\t", "# d", "    # e"]), max_size=5),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
@example("x = 1", [" ", " ", " "], "\n", True)
def test_all_last_lines_are_kept(body, lines, newline, ends):
    text = newline.join([*body.split("\n"), *lines]) + newline * ends
    assert read(text.encode()).module.code == text


def test_it_is_libcst_that_loses_them():
    # When this fails, fdl_cli/porter/parse/last_lines.py has had its day.
    assert libcst.parse_module("x = 1\n \n \n").code == "x = 1\n \n"


def test_a_model_before_them_becomes_a_flow(tmp_path):
    end = "\n    \n            \n   "
    outcome, data = port_file((MODEL + end).encode(), tmp_path / "net.py", None)
    assert (outcome.status, outcome.error) == ("ported", None)
    assert data.decode().endswith(end)
