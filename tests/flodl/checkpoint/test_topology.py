"""The structural hash: what changes it, what does not, and how a difference reads."""

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Add, FlowBuilder, FlowModule, Graph, Mean
from flodl.checkpoint.store import load
from flodl.checkpoint.topology import structural_hash, topology_of
from flodl.errors import CheckpointError
from flodl.ir.hashing import Topology, differences
from tests.flodl.checkpoint.samples import net, same, saved

pytestmark = pytest.mark.torch


def graph(**changes):
    given = {
        "activation": nn.GELU(),
        "merge": Add(),
        "width": 8,
        "tag": None,
        "turns": 3,
        "p": 0.1,
    } | changes
    start = FlowBuilder.from_(nn.Linear(4, given["width"])).through(given["activation"])
    if given["tag"]:
        start = start.tag(given["tag"])
    return (
        start.split(nn.Linear(given["width"], 8), nn.Linear(given["width"], 8))
        .merge(given["merge"])
        .through(nn.Dropout(given["p"]))
        .loop_body(nn.Linear(8, 8))
        .for_n(given["turns"])
        .build()
    )


BASE = graph()


@pytest.mark.parametrize(
    "changes",
    [{"merge": Mean()}, {"turns": 5}, {"p": 0.2}, {"width": 6}, {"activation": nn.ReLU()},
     {"activation": nn.GELU(approximate="tanh")}],
    ids=str,
)  # fmt: skip
def test_what_is_part_of_the_architecture(changes):
    other = graph(**changes)
    assert structural_hash(other) != structural_hash(BASE)
    assert differences(topology_of(BASE), topology_of(other)) != ()
    with pytest.raises(CheckpointError, match="another architecture"):
        load(other, io.BytesIO(saved(BASE)))


def test_what_is_not_part_of_it():
    twin = graph()
    assert structural_hash(twin) == structural_hash(BASE) == structural_hash(copy.deepcopy(BASE))
    assert structural_hash(graph(tag="hidden")) == structural_hash(BASE)
    trained = graph()
    trained(torch.randn(2, 4)).sum().backward()
    torch.optim.SGD(trained.parameters(), 0.1).step()
    assert structural_hash(trained) == structural_hash(BASE)
    assert structural_hash(trained.eval()) == structural_hash(BASE)


def test_dtypes_are_hashed_and_still_load():
    half = graph().to(torch.bfloat16)
    assert structural_hash(half) != structural_hash(BASE)
    assert len(load(half, io.BytesIO(saved(BASE))).converted) == len(half.state_dict())


class Block(FlowModule):
    def __init__(self, p=0.5):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.p = p

    def flow(self, x):
        return x.through(self.fc).through(F.dropout, self.p, self.training).also(F.relu)


class Unrolled(FlowModule):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def flow(self, x):
        for _ in range(x.shape[0]):
            x = x.through(self.fc)
        return x


@pytest.mark.parametrize("kind", [Block, Unrolled])
def test_a_flow_that_was_recorded_in_another_mode_or_size_still_loads(kind):
    first, second = kind(), kind()
    first(torch.randn(2, 4))
    second.eval()(torch.randn(3, 4))
    load(second, io.BytesIO(saved(first)))
    fresh = kind()
    load(fresh, io.BytesIO(saved(second)))
    assert same(fresh, first)


def test_a_plain_module_loads_into_its_port_and_back():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x):
            return x + self.fc(x)

    plain = Net()

    class Net(FlowModule):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def flow(self, x):
            return x.also(self.fc)

    ported = Net()
    ported(torch.randn(1, 4))
    load(ported, io.BytesIO(saved(plain)))
    assert same(ported, plain)
    load(plain, io.BytesIO(saved(ported)))


def test_a_sequential_loads_into_its_graph():
    sequential = net()
    made = Graph.from_sequential(net(seed=9))
    assert load(made, io.BytesIO(saved(sequential))).missing == ()
    assert same(made, sequential)


def test_a_changed_wiring_is_shown_line_by_line():
    one = FlowBuilder.from_(nn.Linear(4, 4)).through(torch.relu).also(nn.Linear(4, 4)).build()
    two = FlowBuilder.from_(nn.Linear(4, 4)).through(torch.tanh).also(nn.Linear(4, 4)).build()
    found = differences(topology_of(one), topology_of(two))
    assert found[0] == "~ (the model itself): the flow differs (- file, + model)"
    assert any(line.strip().startswith("-") and "relu" in line for line in found)
    assert any(line.strip().startswith("+") and "tanh" in line for line in found)


def test_differences_name_parts_that_only_one_side_has():
    found = differences(topology_of(net()), topology_of(nn.Sequential(*net(), nn.Tanh())))
    assert found == ("+ 4: Tanh() is in the model, not in the file",)
    found = differences(topology_of(nn.Sequential(*net(), nn.Tanh())), topology_of(net()))
    assert found == ("- 4: Tanh() is in the file, not in the model",)


@pytest.mark.skipif("bias" not in str(nn.LayerNorm(4)), reason="LayerNorm prints no bias here")
def test_a_setting_that_newer_torch_added_is_no_difference():
    now = topology_of(nn.LayerNorm(4))
    (form,) = now.modules
    text = now.to_json().replace(", bias=True", "")
    assert text != now.to_json()
    assert differences(Topology.from_json(text), now) == ()
    changed = Topology.from_json(text.replace("eps=1e-05", "eps=1e-06"))
    assert differences(changed, now) == (
        "~ (the model itself): LayerNorm has eps=1e-06 in the file, 1e-05 in the model",
    )
    assert form.kind == "LayerNorm"


def test_topology_survives_its_text():
    topology = topology_of(BASE)
    assert Topology.from_json(topology.to_json()) == topology
    assert len(topology.hash()) == 64
    for text in ("", "[1]", "{}x", '[{"path": 1}]', "null"):
        with pytest.raises(ValueError, match=r".+"):
            Topology.from_json(text)


def test_buffers_that_are_not_saved_are_not_part_of_it():
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    two.register_buffer("cache", torch.zeros(7), persistent=False)
    assert structural_hash(one) == structural_hash(two)
    two.register_buffer("table", torch.zeros(7))
    assert structural_hash(one) != structural_hash(two)
