"""Results that Python compares without asking them: `is`, patterns, texts, hashes; as in the twin."""

import linecache

import pytest
import torch
from torch import nn

from flodl import FlowError, FlowModule

pytestmark = pytest.mark.torch

SOURCE = """
class Net({base}):
    def {method}(self, x, other=None):
        {before}
        {body}
"""
# Without a value the flow is described first; the size needs one.
BEFORE = {"described": "pass", "recorded": "rows = x.shape[0]\n        assert rows < 99"}
CHOICES = {
    "dtype": "x.dtype is torch.float32",
    "no dtype": "x.dtype is not torch.float64",
    "layout": "x.layout is torch.strided",
    "requires_grad": "x.requires_grad is False",
    "method": "x.is_contiguous() is True",
    "function": "torch.is_floating_point(x) is True",
    "leaf": "(x * 1).is_leaf is True",
    "nothing": "x.grad is None",
    "type of a device": 'x.device.type == "cpu"',
    "type of a device, turned": '"cpu" == x.device.type',
    "other type": 'x.device.type != "cuda"',
    "type in a list": 'x.device.type in ("cpu", "mps")',
    "index of a device": 'torch.device("cpu", 0).index == 0',
    "type in a table": '{"cpu": True}.get(x.device.type, False)',
    "dtype in a table": "{torch.float32: True}.get(x.dtype, False)",
    "text of a device": 'str(x.device) == "cpu"',
    "text of a dtype": 'str(x.dtype) == "torch.float32"',
    "text of a size": 'str(x.shape) == "torch.Size([2, 4])"',
    "old format": '"%s" % x.device == "cpu"',
    "format": 'f"{x.device}" == "cpu"',
    "attribute by name": 'getattr(x.device, "type", None) == "cpu"',
    "method as truth": "x.type",
    "one tensor": "other is x",
}
BODIES = {name: f"return x * (2 if {text} else 3)" for name, text in CHOICES.items()}
BODIES["pattern of a text"] = """match x.device.type:
            case "cpu":
                return x * 2
        return x * 3"""
BODIES["pattern of a size"] = """match x.shape:
            case (2, columns):
                return x * columns
        return x * 3"""
BODIES["pattern of a tuple"] = """match x.unbind(0):
            case [row]:
                return row * 2
            case [row, other_row] if other is None:
                return row - other_row
            case [row, *others]:
                return row * len(others) + sum(others)
        return x * 3"""
BODIES["pattern in a pattern"] = """match torch.split(x, 1), x.aminmax():
            case [[row, *_], (least, most)]:
                return row + least * most
        return x * 3"""
BODIES["pattern of a named tuple"] = """largest = x.max(1)
        match largest:
            case (values, indices):
                return values * indices + largest.values
        return x * 3"""


def made(base, method, body, before="pass"):
    source = SOURCE.format(base=base, method=method, body=body, before=before)
    file = f"<net of {base}: {before} {body}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"FlowModule": FlowModule, "nn": nn, "torch": torch, "__name__": __name__}
    exec(compile(source, file, "exec"), space)
    return space["Net"]()


@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_flow_that_compares_plain_results_equals_its_twin(body, before):
    flow, twin = (
        made(base, method, body, before)
        for base, method in (("FlowModule", "flow"), ("nn.Module", "forward"))
    )
    x, y = torch.randn(2, 4), torch.randn(2, 4)
    calls = [
        (x, x),
        (x, y),
        (x.double(), y),
        (torch.randn(3, 4), y),
        (x.T, x.T),
        (y, y),
        (x, None),
    ]
    for inputs in [*calls, (x.clone().requires_grad_(), y), *calls]:
        assert torch.equal(flow(*inputs), twin(*inputs))


@pytest.mark.parametrize("sign", ["is", "=="])
@pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)
def test_class_of_a_proxy_is_refused_where_the_answer_would_be_wrong(sign, before):
    flow = made(
        "FlowModule", "flow", f"return x * (2 if type(x) {sign} torch.Tensor else 3)", before
    )
    with pytest.raises(FlowError, match=r"write isinstance\(x, \.\.\.\) or x\.__class__"):
        flow(torch.ones(2))
    flow = made("FlowModule", "flow", f"return x * (2 if type(x) {sign} tuple else 3)", before)
    assert flow(torch.ones(2)).tolist() == [3.0, 3.0]


def test_pattern_of_a_mapping_from_a_step_is_refused_with_its_line():
    body = """match x.through(lambda value: {"sum": value.sum()}):
            case {"sum": total}:
                return total
        return x"""
    flow = made("FlowModule", "flow", body)
    with pytest.raises(FlowError, match=r":5: a pattern such as .* take the items from it"):
        flow(torch.ones(2))


def test_pattern_of_a_tuple_with_a_size_in_it_matches_as_in_plain_python():
    body = """match x.through(lambda value: (value * 2, value.shape)):
            case [doubled, [2, columns]]:
                return doubled * columns
            case [doubled, size]:
                return doubled * size[0]
        return x"""
    flow = made("FlowModule", "flow", body)
    for rows, factor in ((2, 4), (3, 3), (2, 4)):
        x = torch.randn(rows, 4)
        assert torch.equal(flow(x), x * 2 * factor)
