"""Layers whose weight is no parameter any more, but a tensor that is set before each call."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402 - torch may be missing

from flodl import FlowModule  # noqa: E402

pytestmark = pytest.mark.torch

LAYERS = (
    (nn.Linear(4, 4), (3, 4)),
    (nn.Conv1d(4, 4, 1), (3, 4, 2)),
    (nn.LayerNorm(4), (3, 4)),
    (nn.BatchNorm1d(4), (3, 4)),
)


class Holder(FlowModule):
    """Runs one layer, and something before it, so that there is a plan."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def flow(self, x):
        return x.tanh().through(self.layer)


@pytest.mark.parametrize(("layer", "shape"), LAYERS, ids=lambda value: str(value)[:12])
@pytest.mark.parametrize("name", ["weight", "bias"])
def test_the_tensor_of_each_call_is_used(layer, shape, name):
    kept = getattr(layer, name)
    del layer._parameters[name]
    try:
        model, x = Holder(layer), torch.randn(*shape)
        for scale in (1.0, 2.0, 3.0):
            setattr(layer, name, kept.detach() * scale + scale)
            out = model(x)
            assert torch.equal(out, layer(x.tanh()))
    finally:
        vars(layer).pop(name)
        layer.register_parameter(name, kept)


def test_an_embedding_finds_its_table():
    class Words(FlowModule):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(5, 4)

        def flow(self, index):
            return index.clamp(max=4).through(self.table)

    model, index = Words(), torch.arange(3)
    rows = model.table.weight.detach()
    del model.table._parameters["weight"]
    for scale in (1.0, 2.0, 3.0):
        model.table.weight = rows * scale
        assert torch.equal(model(index), rows[:3] * scale)
