"""Parameters with names that generated code uses for itself."""

import linecache

import pytest
import torch
from torch import nn

from flodl import FlowModule

pytestmark = pytest.mark.torch

SOURCE = """
class Net({base}):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)

    def {method}(self, x, {name}):
        y = nn.functional.relu(self.fc(x) * {name} + len(x))
        if len(x) > 2:
            y = y - {name}
        return self.fc(y).softmax(0)
"""


def made(base, method, name, source=SOURCE):
    source = source.format(base=base, method=method, name=name)
    file = f"<net of {base} with {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"FlowModule": FlowModule, "nn": nn, "__name__": __name__}
    exec(compile(source, file, "exec"), space)
    torch.manual_seed(0)
    return space["Net"]()


@pytest.mark.parametrize("name", ["m", "run", "F", "math", "operator", "expect", "m_2", "value"])
def test_flow_with_a_parameter_named_as_in_generated_code_equals_its_twin(name):
    flow, twin = made("FlowModule", "flow", name), made("nn.Module", "forward", name)
    for rows in (3, 3, 2, 3, 2):  # recorded, replayed, left at a side exit, and both again
        x, factor = torch.randn(rows, 2), torch.randn(rows, 2)
        assert torch.equal(flow(x, factor), twin(x, factor))
        assert torch.equal(flow(x, **{name: factor}), twin(x, factor))
    if name == "F":
        assert "F_2 = F\n" in flow.code


HELPERS = [
    "type",
    "type_",
    "isinstance",
    "torch",
    "len",
    "list",
    "dict",
    "int",
    "id",
    "record",
    "admitted",
]
HELPERS += ["plan_0", "admits_1", "plan_", "tuple", "math"]
GUARDED = """
class Net({base}):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.sizes = [1, 2]

    def {method}(self, x, {name}=None, type_=None):
        y = self.fc(x) * self.sizes[1]
        if {name} is not None:
            for each in {name}:
                y = y + each
        if x.shape[0] > 2:
            y = y.relu()
        return y if type_ is None else y - type_
"""


@pytest.mark.parametrize("name", HELPERS)
def test_flow_with_a_parameter_named_as_a_helper_of_guards_equals_its_twin(name):
    source = GUARDED.replace(", type_=None", "").replace(" if type_ is None else y - type_", "")
    source = source if name == "type_" else GUARDED
    flow, twin = (
        made("FlowModule", "flow", name, source),
        made("nn.Module", "forward", name, source),
    )
    for given in (None, [1.5], (2, 3.5), [torch.ones(2)], {"a": 1}.values(), [2.5], None):
        for rows in (3, 2):
            x = torch.randn(rows, 2)
            assert torch.equal(flow(x, given), twin(x, given))
            assert torch.equal(flow(x, **{name: given}), twin(x, given))
    if name != "type_":
        assert torch.equal(flow(x, None, 1.5), twin(x, None, type_=1.5))
