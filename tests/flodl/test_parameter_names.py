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


def made(base, method, name):
    source = SOURCE.format(base=base, method=method, name=name)
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
