"""A port reads parameters, buffers and other tensors in every call, whatever way they are kept and spelt."""

import textwrap

import pytest
import torch
from torch import nn

from tests.porter.port_twins import Twins

pytestmark = pytest.mark.torch

HEAD = """
import types

import torch
from torch import nn
from torch.nn.parameter import Buffer


def view_of(table, rows):
    return table.reshape(rows, 4)


def quiet_view_of(table, rows):
    print(end="")
    return table.reshape(rows, 4)


def make_layer():
    return nn.Linear(2, 4)


def make_table():
    return torch.arange(8.0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
INIT

    @property
    def shown(self):
        return self.table

    def read(self):
        return self.table

    def rows(self, table, count):
        return self.linear(table.reshape(count, 4))

    def forward(self, x):
"""
# How the tensor is kept, how the forward names it, and how a test exchanges it.
KEPT = {
    "parameter": ("self.table = nn.Parameter(torch.arange(8.0))", "self.table", "table"),
    "nn.Buffer": ("self.table = nn.Buffer(torch.arange(8.0))", "self.table", "table"),
    "not persistent": (
        "self.table = nn.Buffer(torch.arange(8.0), persistent=False)", "self.table", "table",
    ),
    "imported Buffer": ("self.table = Buffer(torch.arange(8.0))", "self.table", "table"),
    "registered": ('self.register_buffer("table", torch.arange(8.0))', "self.table", "table"),
    "registered by a computed name": (
        'for name in ("table",):\n    self.register_buffer(name, torch.arange(8.0))',
        "self.table", "table",
    ),
    "plain": ("self.table = torch.arange(8.0)", "self.table", "table"),
    "computed": ("self.table = torch.arange(8).float() * 1", "self.table", "table"),
    "from a function": ("self.table = make_table()", "self.table", "table"),
    "list": ("self.tables = [torch.arange(8.0)]", "self.tables[0]", "tables[0]"),
    "grown list": (
        "self.tables = []\nself.tables.append(torch.arange(8.0))", "self.tables[0]", "tables[0]",
    ),
    "dict": ('self.tables = {"a": torch.arange(8.0)}', 'self.tables["a"]', 'tables["a"]'),
    "parameter list": (
        "self.tables = nn.ParameterList([nn.Parameter(torch.arange(8.0))])", "self.tables[0]",
        "tables[0]",
    ),
    "parameter dict": (
        'self.tables = nn.ParameterDict({"a": nn.Parameter(torch.arange(8.0))})',
        'self.tables["a"]', 'tables["a"]',
    ),
    "layer": ("self.layer = nn.Linear(2, 4)", "self.layer.weight", "layer.weight"),
    "layer of a Sequential": (
        "self.layers = nn.Sequential(nn.Linear(2, 4))", "self.layers[0].weight", "layers[0].weight",
    ),
    "layer from a function": ("self.layer = make_layer()", "self.layer.weight", "layer.weight"),
    "getattr": (
        'self.register_buffer("table", torch.arange(8.0))', 'getattr(self, "table")', "table",
    ),
    "get_buffer": (
        'self.register_buffer("table", torch.arange(8.0))', 'self.get_buffer("table")', "table",
    ),
    "_buffers": (
        'self.register_buffer("table", torch.arange(8.0))', 'self._buffers["table"]', "table",
    ),
    "property": ('self.register_buffer("table", torch.arange(8.0))', "self.shown", "table"),
    "method": ('self.register_buffer("table", torch.arange(8.0))', "self.read()", "table"),
}  # fmt: skip
# The objects of a namespace change between calls without a trace: only their methods are read live.
IN_OBJECT = (
    "self.held = types.SimpleNamespace(table=torch.arange(8.0))",
    "self.held.table",
    "held.table",
)
USED = {
    "method": "return self.linear(x) + TABLE.reshape(2, 4)",
    "method of a size": "return self.linear(x) + TABLE.reshape(x.size(0), -1)",
    "nested": "return self.linear(x) + TABLE.view(2, 4).add(TABLE.view(2, 4).mul(x))",
    "variable": "table = TABLE\nreturn self.linear(x) + table.reshape(x.size(0), 4)",
    "layer": "return self.linear(TABLE.view(2, 4)) + x",
    "function": "return self.linear(x) + view_of(TABLE, 2)",
    "step": "return self.linear(x) + quiet_view_of(TABLE, x.size(0))",
    "helper": "return self.linear(x) + self.rows(TABLE, x.size(0))",
    "bound method": "view = TABLE.reshape\nreturn self.linear(x) + view(2, 4)",
}
CHANGES = ("assign", "double", "exchange")
QUICK = [("nn.Buffer", "method"), ("plain", "method of a size"), ("list", "variable")]
CASES = [(kept, used) for kept in KEPT for used in USED]


def text_with(kept, used):
    init, name, _ = kept
    text = HEAD.lstrip().replace("INIT", textwrap.indent(init, " " * 8))
    return text + textwrap.indent(used.replace("TABLE", name), " " * 8) + "\n"


def change(model, how, place):
    if how == "double":
        model.double()
    elif how == "assign":
        state = {name: torch.randn_like(value) for name, value in model.state_dict().items()}
        model.load_state_dict(state, assign=True)
    else:
        made = torch.arange(8.0).flip(0)
        made = made.reshape(4, 2) if "weight" in place else made
        old = eval(f"model.{place}", {"model": model})  # a name of this file
        made = nn.Parameter(made) if isinstance(old, nn.Parameter) else made
        exec(f"model.{place} = made", {"model": model, "made": made})


def check(porter, folder, kept, used, how):
    twins = Twins(porter, folder, text_with(kept, used))
    assert "class Net(FlowModule)" in twins.text
    x = torch.randn(2, 4)
    assert twins.call(x)[0] == "returns"
    twins.call(x)
    twins.each(lambda model: change(model, how, kept[2]))
    x = x.double() if how == "double" else x
    twins.call(x)
    twins.call(x)


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize(
    ("kept", "used"),
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow, id="-".join(case))
        for case in CASES
    ],
)
def test_tensor_of_the_object_that_changes_is_the_new_one_in_the_next_call(
    porter, tmp_path, kept, used, how
):
    check(porter, tmp_path, KEPT[kept], USED[used], how)


@pytest.mark.parametrize("used", ["method", "method of a size", "nested", "variable", "layer"])
def test_method_of_a_tensor_inside_of_an_object_is_read_live(porter, tmp_path, used):
    check(porter, tmp_path, IN_OBJECT, USED[used], "exchange")


@pytest.mark.parametrize(
    ("kept", "used", "written"),
    [
        ("nn.Buffer", "method", "x.through(self.linear) + self.table.reshape(2, 4)"),
        ("list", "method", 'call(getattr, self, "tables")[0].reshape(2, 4)'),
        ("from a function", "variable", 'table = call(getattr, self, "table")'),
    ],
)
def test_tensor_is_written_so_that_it_is_read_in_every_call(porter, kept, used, written):
    assert written in porter.text(text_with(KEPT[kept], USED[used]))
