"""Words in boxes: indices as Python writes them, operators, and settings of layers; facts about a step."""

import re

import pytest
import torch
from torch import nn

from flodl import Flow, FlowModule
from flodl.inspect.drawing import part_of
from flodl.inspect.heat import shaped_part
from flodl.visual.assemble import View, assemble
from flodl.visual.layout import lay_out
from flodl.visual.settings import settings_text
from flodl.visual.svg import render
from flodl.visual.wording import index_text

pytestmark = pytest.mark.torch


class Indexing(FlowModule):
    def flow(self, x: Flow) -> Flow:
        half = x.size(1) // 2
        y = x[:, :half, ..., None] + x[0, 1:, ::2][..., :1].mean()
        return y[(y == 0).squeeze(-1).any(-1)[:, 0]]


def titles(part):
    return [box.title for box in assemble(part, View()).boxes]


def test_index_text_slices_names_and_ellipsis_are_written_as_in_python():
    part = part_of(Indexing())
    found = [
        index_text(part.spec, node.args[1]) for node in part.spec.nodes if node.kind == "item"
    ]
    assert found[:3] == [":, :half, ..., None", "0, 1:, ::2", "..., :1"]
    assert not any("(" in each or "Ellipsis" in each for each in found)


def test_index_that_is_cut_is_whole_in_the_text_on_hovering():
    class Cutting(FlowModule):
        def flow(self, x: Flow) -> Flow:
            number_of_positions = x.size(1) // 2
            return x[:, :number_of_positions, None, ..., ::2, None].relu()

    text = render(lay_out(assemble(part_of(Cutting()), View())))
    whole = "[:, :number_of_positions, None, ..., ::2, None]"
    assert f"= x{whole}" in text
    assert "Ellipsis" not in text
    assert "floordiv" not in text


def test_title_comparison_is_not_an_assignment():
    assert "==" in titles(part_of(Indexing()))
    assert "=" not in titles(part_of(Indexing()))


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (nn.Linear(4, 8), "4 → 8"),
        (nn.Linear(4, 8, bias=False), "4 → 8, no bias"),
        (nn.Conv2d(3, 64, 7, 2, 3), "3 → 64, kernel 7\u00d77, stride 2, padding 3"),
        (nn.Conv1d(4, 4, 3, groups=2), "4 → 4, kernel 3, groups 2"),
        (nn.Conv2d(3, 6, (1, 3), padding="same"), "3 → 6, kernel 1\u00d73, padding=same"),
        (nn.MaxPool2d(2), "kernel 2, stride 2"),
        (nn.BatchNorm2d(16), "16"),
        (nn.LayerNorm(16), "(16,)"),
        (nn.Dropout(0.25), "p=0.25"),
        (nn.ReLU(inplace=True), "inplace"),
        (nn.Embedding(50, 16), "50 → 16"),
        (nn.LSTM(4, 8, batch_first=True), "4 → 8, batch_first"),
        (nn.Flatten(), "start_dim=1, end_dim=-1"),
        (nn.Identity(), ""),
    ],
)
def test_settings_text_of_a_layer_leaves_out_defaults(module, text):
    assert settings_text(module.extra_repr()) == text


class Broken(nn.Linear):
    def extra_repr(self) -> str:
        raise RuntimeError("not today")


class Convolving(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.broken = Broken(8, 2)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.conv).relu().mean((-1, -2)).tag("pooled").through(self.broken)


@pytest.mark.parametrize("plain", [False, True])
def test_box_of_a_layer_has_its_settings(plain):
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1)) if plain else Convolving()
    box = next(each for each in assemble(part_of(model), View()).boxes if each.title == "Conv2d")
    assert "3 → 8, kernel 3\u00d73, padding 1" in box.lines
    assert "kernel_size=(3, 3)" in box.note


def test_box_of_a_layer_whose_repr_fails_is_drawn_without_settings():
    box = next(
        each for each in assemble(part_of(Convolving()), View()).boxes if each.title == "Broken"
    )
    assert box.lines == ("broken", "18 params")


def test_facts_of_a_step_are_complete():
    scene = assemble(shaped_part(Convolving(), torch.ones(2, 3, 4, 4)), View())
    facts = {box.title: dict(box.facts) for box in scene.boxes}
    conv = facts["Conv2d"]
    assert conv["path"] == "self.conv"
    assert conv["settings"].startswith("3, 8, kernel_size=(3, 3)")
    assert conv["output"] == "2\u00d78\u00d74\u00d74 float32"
    assert conv["parameters"] == "224"
    assert re.fullmatch(r"test_labels\.py:\d+", conv["written at"])
    assert facts["mean"]["tags"] == "pooled"
    assert "parameters" not in facts["mean"]


def test_layers_with_other_settings_are_not_folded_into_one():
    convs = [nn.Conv2d(2, 2, 3, stride=1 + (n == 3)) for n in range(6)]
    scene = assemble(part_of(nn.Sequential(*convs)), View(fold=True))
    drawn = [(box.title, box.times) for box in scene.boxes]
    assert ("Conv2d", 3) in drawn
    assert ("Conv2d", 6) not in drawn


class Residual(FlowModule):
    def flow(self, x: Flow) -> Flow:
        return x + x.relu().tanh()


def test_second_arrow_head_meets_the_circle_of_an_operator():
    drawing = lay_out(assemble(part_of(Residual()), View()))
    at = next(i for i, each in enumerate(drawing.boxes) if each.box.role == "operator")
    target = drawing.boxes[at]
    heads = [
        (drawing.ports[n], drawing.ends[n]) for n, way in enumerate(drawing.ways) if way[-1] == at
    ]
    assert len(heads) == 2
    radius = target.height / 2
    for port, end in heads:
        assert abs(port**2 + (radius - end) ** 2 - radius**2) < 3
    assert max(end for _, end in heads) > 2
    drawn = {tuple(map(float, head)) for head in
             re.findall(r'class="fd-a" d="M([\d.]+) ([\d.]+)l', render(drawing))}  # fmt: skip
    for port, end in heads:
        x, y = drawing.centres[at] + port, target.y + end
        assert any(abs(x - one) < 0.2 and abs(y - two) < 0.2 for one, two in drawn)


class Stacked(FlowModule):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.blocks = nn.Sequential(Residual(), Residual())

    def flow(self, x: Flow) -> Flow:
        return x.through(self.stem).through(self.blocks)


def opened(scene):
    for box in scene.boxes:
        yield box.title
        if box.is_open:
            yield from opened(box.inner)


def test_plain_modules_in_a_flow_open_with_the_flows_inside_them():
    part = part_of(Stacked())
    assert [*opened(assemble(part, View()))] == ["x", "Sequential", "Sequential", "output"]
    one = [*opened(assemble(part, View(depth=1)))]
    assert one.count("Linear") == one.count("ReLU") == 1
    assert one.count("Residual") == 2
    assert "+" not in one
    two = [*opened(assemble(part, View(depth=2)))]
    assert two.count("+") == two.count("tanh") == 2


def shapes(part):
    titles = {node.index: node.target for node in part.spec.nodes}
    return {titles[index]: shape for index, shape in part.shapes.items()}


def test_shapes_of_plain_modules_in_a_flow_are_those_of_the_modules_they_call():
    part = shaped_part(Stacked(), torch.ones(3, 4))
    assert shapes(part.inner["stem"]) == {"input": "3\u00d74", "0": "3\u00d78", "1": "3\u00d78"}
    blocks = part.inner["blocks"]
    assert shapes(blocks) == {"input": "3\u00d78", "0": "3\u00d78", "1": "3\u00d78"}
    assert "3\u00d78" in blocks.inner["0"].shapes.values()


class Shared(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act, self.lin = nn.ReLU(), nn.Linear(4, 2)

    def forward(self, x):
        return self.act(self.lin(self.act(x)))


def test_shapes_of_a_plain_model_leave_out_modules_with_several():
    model = Shared()
    part = shaped_part(model, torch.ones(3, 4))
    assert shapes(part) == {"x": "3\u00d74", "lin": "3\u00d72"}
    assert not model.lin._forward_hooks
