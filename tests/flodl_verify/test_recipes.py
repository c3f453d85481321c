"""What was recorded on the original can be made anew on the port, from the port's own classes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import nn

from flodl_verify.inputs.recorder import MAX_CASES_PER_CLASS, Recorder, dump_cases, load_cases
from flodl_verify.sandbox.blank_memory import BlankMemory
from flodl_verify.sandbox.isolated_import import Side, locate, open_sides
from flodl_verify.values.recipes import UntransferableError, pack, unpack

pytestmark = pytest.mark.torch

TEXT = """
import torch
from torch import nn
from dataclasses import dataclass


@dataclass
class Config:
    width: int = 3


class Block(nn.Module):
    def __init__(self, width, act=nn.ReLU):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.act = act()

    def forward(self, x):
        return self.act(self.fc(x))


class Net(nn.Module):
    def __init__(self, block, config, extra=None):
        super().__init__()
        self.block = block(config.width) if isinstance(block, type) else block
        self.extra = extra

    def forward(self, x, scale=None):
        y = self.block(x)
        return y if scale is None else y * scale
"""


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Side, Side]:
    first, second = tmp_path / "net.py", tmp_path / "ported.py"
    first.write_text(TEXT, encoding="utf-8")
    second.write_text(TEXT, encoding="utf-8")
    original, port = open_sides(first, second, ())
    original.load()
    port.load()
    return original, port


def recorder_of(side: Side, *, keep_live: bool = True) -> Recorder:
    return Recorder(side.is_local, origin="test", keep_live=keep_live)


def test_the_two_sides_share_no_class(sides: tuple[Side, Side]) -> None:
    original, port = sides
    assert original.module.Net is not port.module.Net
    assert original.module.__name__ == port.module.__name__ == "net"


def test_classes_and_configurations_become_those_of_the_side(sides: tuple[Side, Side]) -> None:
    original, port = sides
    recorder = recorder_of(original)
    with original.active(), recorder.watching():
        net = original.module.Net(original.module.Block, original.module.Config(5))
        net(torch.randn(2, 5), scale=torch.tensor(2.0))
    (case,) = recorder.cases["Net"]
    with port.active():
        made = case.construction.build(port)
        args, kwargs = unpack(case.inputs, port)
    assert type(made) is port.module.Net
    assert type(made.block) is port.module.Block
    assert args[0].shape == (2, 5)
    assert kwargs["scale"].item() == 2.0


def test_modules_given_to_constructors_are_built_on_the_side(sides: tuple[Side, Side]) -> None:
    original, port = sides
    recorder = recorder_of(original)
    with original.active(), recorder.watching():
        block = original.module.Block(4, nn.Tanh)
        original.module.Net(block, original.module.Config(), extra=nn.Linear(2, 2))(
            torch.ones(1, 4)
        )
    (case,) = recorder.cases["Net"]
    with port.active():
        made = case.construction.build(port)
    assert type(made.block) is port.module.Block
    assert type(made.block.act) is nn.Tanh
    assert made.extra.in_features == 2


def test_a_tensor_given_twice_stays_one_tensor(sides: tuple[Side, Side]) -> None:
    original, port = sides
    shared = torch.ones(2)
    packed = pack(((shared, shared), {"x": shared * 1}), recorder_of(original), keep_live=False)
    args, kwargs = unpack(packed, port)
    assert args[0] is args[1]
    assert kwargs["x"] is not args[0]


def test_a_tensor_inside_a_graph_is_packed_as_its_value(sides: tuple[Side, Side]) -> None:
    original, port = sides
    value = torch.ones(2, requires_grad=True) * 3
    packed = pack(((value,), {}), recorder_of(original), keep_live=False)
    (made,), _ = unpack(packed, port)
    assert made.is_leaf
    assert made.requires_grad
    assert torch.equal(made, value)


def test_pack_local_function_takes_code_and_captured_values(sides: tuple[Side, Side]) -> None:
    original, port = sides
    width = 3
    packed = pack(((lambda x: x + width,), {}), recorder_of(original), keep_live=False)
    assert packed.for_another_process() == packed.data
    (made,), _ = unpack(packed, port)
    assert made(1) == 4


def test_pack_generator_stays_in_its_process(sides: tuple[Side, Side]) -> None:
    original, _ = sides
    packed = pack((((item for item in [1]),), {}), recorder_of(original), keep_live=True)
    with pytest.raises(UntransferableError, match="generator"):
        packed.for_another_process()
    with pytest.raises(TypeError, match="generator"):
        pack((((item for item in [1]),), {}), recorder_of(original), keep_live=False)


def test_only_calls_that_end_well_are_cases_and_not_too_many(sides: tuple[Side, Side]) -> None:
    original, _ = sides
    recorder = recorder_of(original)
    with original.active(), recorder.watching():
        for width in range(2, 12):
            original.module.Block(width)(torch.ones(1, width))
        with pytest.raises(RuntimeError):
            original.module.Net(original.module.Block, original.module.Config())(torch.ones(1, 7))
    assert len(recorder.cases["Block"]) == MAX_CASES_PER_CLASS
    assert "Net" not in recorder.cases
    assert len(recorder.constructions["Net"]) == 1


def test_a_recording_survives_the_process(sides: tuple[Side, Side]) -> None:
    original, port = sides
    recorder = recorder_of(original, keep_live=False)
    with original.active(), recorder.watching():
        original.module.Block(3)(torch.ones(1, 3))
    cases, constructions = load_cases(dump_cases(recorder))
    with port.active():
        assert type(cases["Block"][0].construction.build(port)) is port.module.Block
    assert len(constructions["Block"]) == 1


def test_watching_leaves_torch_as_it_was() -> None:
    call = nn.Module.__call__
    with Recorder(lambda _: True, origin="", keep_live=True).watching():
        assert nn.Module.__call__ is not call
    assert nn.Module.__call__ is call
    assert nn.Linear(2, 3).in_features == 2


def test_a_file_in_a_package_has_a_dotted_name(tmp_path: Path) -> None:
    folder = tmp_path / "pkg" / "models"
    folder.mkdir(parents=True)
    (tmp_path / "pkg" / "__init__.py").write_text("", encoding="utf-8")
    (folder / "__init__.py").write_text("", encoding="utf-8")
    (folder / "common.py").write_text("VALUE = 3\n", encoding="utf-8")
    (folder / "net.py").write_text("from .common import VALUE\n", encoding="utf-8")
    place = locate(folder / "net.py")
    assert (place.name, place.root, place.package) == ("pkg.models.net", tmp_path, "pkg")
    alone = tmp_path / "net_flodl.py"
    alone.write_text("from .common import VALUE\nPORTED = True\n", encoding="utf-8")
    original, port = open_sides(folder / "net.py", alone, ())
    original.load()
    port.load()
    assert original.failure is None
    assert port.failure is None
    assert port.module.PORTED is True
    assert port.module.VALUE == 3


def test_memory_that_nobody_initialised_is_the_same_twice() -> None:
    state = torch.get_rng_state()
    for _ in range(2):
        torch.full((64,), math.nan)  # what the memory held before
        with BlankMemory():
            found = (
                torch.empty(8, 8),
                torch.nn.Linear(3, 2).weight.new_empty(3),
                torch.empty(2).int(),
            )
            drawn = torch.nn.Linear(3, 2)
        assert torch.equal(found[0].flatten(), torch.linspace(-0.1, 0.1, 64))
        assert torch.equal(found[1], torch.tensor([-0.1, 0.0, 0.1]))
        assert drawn.weight.abs().max() > 0.1
    torch.set_rng_state(state)
