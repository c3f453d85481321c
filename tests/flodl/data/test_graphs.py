"""A graph and the loader that feeds it."""

import copy
import io

import pytest
import torch
from torch import nn

from flodl import (
    Batch,
    DataLoader,
    Flow,
    FlowBuilder,
    FlowModule,
    GraphError,
    UnknownNameError,
    view,
)


class Masked(FlowModule):
    """Two inputs, the second one optional."""

    def flow(self, x: Flow, mask: Flow | None = None, *, scale: float = 1.0) -> Flow:
        """Multiply what is there."""
        return x * scale if mask is None else x * mask * scale


class Needy(FlowModule):
    def flow(self, x: Flow, memory: Flow) -> Flow:
        return x + memory


class Epochs(FlowModule):
    """Has a use of its own for the name of a method."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = nn.Linear(2, 2)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.epoch)


X, MASK, LABEL = torch.arange(6.0), torch.ones(6) * 2, torch.zeros(6)


def fed(graph, names, part=None):
    loader = DataLoader([X, MASK, LABEL], 3, names=names, shuffle=False)
    view(graph).set_data_loader(loader, part)
    return [view(graph).forward_batch(batch).tolist() for batch in view(graph).epoch(0)]


@pytest.mark.parametrize(
    ("names", "part", "expected"),
    [
        (["x", "mask", "label"], None, [[0, 2, 4], [6, 8, 10]]),
        (["label", "mask", "x"], None, [[0, 0, 0], [0, 0, 0]]),
        (["image", "mask", "label"], "image", [[0, 2, 4], [6, 8, 10]]),
        (None, None, [[0, 1, 2], [3, 4, 5]]),
        (["x", "other", "label"], "other", [[2, 2, 2], [2, 2, 2]]),
    ],
)
def test_parts_go_to_the_inputs_of_their_names(names, part, expected):
    assert fed(Masked(), names, part) == expected


def test_a_graph_of_a_builder():
    graph = FlowBuilder.from_(nn.Identity()).input("mask").through(lambda x: x * 1).build()
    assert fed(graph, ["image", "mask", "label"], "image") == [[0, 1, 2], [3, 4, 5]]


def test_what_is_missing_is_named():
    with pytest.raises(UnknownNameError, match=r"no part .* memory \(its parts: x, label\)"):
        view(Needy()).forward_batch(Batch([X, LABEL], ["x", "label"]))
    with pytest.raises(GraphError, match="set_data_loader"):
        view(Needy()).epoch(0)


def test_an_epoch_goes_on_from_a_position():
    graph = Masked()
    view(graph).set_data_loader(DataLoader(X, 2))
    whole = [batch[0].tolist() for batch in view(graph).epoch(3)]
    assert [batch[0].tolist() for batch in view(graph).epoch(3, 1)] == whole[1:]


def test_the_loader_is_no_part_of_the_model():
    graph = Masked()
    view(graph).set_data_loader(DataLoader(X, 2))
    twin = copy.deepcopy(graph)
    with pytest.raises(GraphError, match="no loader"):
        view(twin).epoch(0)
    torch.save(graph.state_dict(), io.BytesIO())


def test_a_member_takes_the_name_of_the_method():
    assert Epochs()(torch.ones(1, 2)).shape == (1, 2)
