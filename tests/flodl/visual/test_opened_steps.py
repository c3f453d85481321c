"""Steps around other stages are boxes that open: branches side by side, a loop's or a map's body once."""

import re

import pytest
import torch
from torch import nn

import flodl
from flodl import ArgmaxSelector, Flow, FlowBuilder, FlowModule, SoftmaxRouter, ThresholdHalt
from flodl.inspect.comparison import coloured
from flodl.inspect.drawing import part_of
from flodl.inspect.heat import shaped_part
from flodl.visual.assemble import View, assemble
from flodl.visual.layout import lay_out

pytestmark = pytest.mark.torch


def labelled(name):
    return FlowBuilder.from_(nn.Linear(4, 4)).through(nn.Tanh()).label(name).build()


def stop(x):
    return x.mean() - 1


def box_of(graph, title, depth=1):
    scene = assemble(part_of(graph), View(depth=depth))
    return next(box for box in scene.boxes if box.title == title)


def titles(box):
    return [each.title for each in box.inner.boxes]


def links(box):
    names = titles(box)
    return {(names[link.source], names[link.target]) for link in box.inner.links}


def test_a_switch_shows_its_branches_by_their_labels():
    graph = (
        FlowBuilder.new().switch(ArgmaxSelector(4, 2), labelled("low"), labelled("high")).build()
    )
    box = box_of(graph, "switch")
    assert box.lines[:2] == ("low, high", "by ArgmaxSelector")
    assert titles(box) == ["x", "ArgmaxSelector", "low", "high", "chosen branch", "output"]
    assert links(box) == {
        ("x", "ArgmaxSelector"), ("x", "low"), ("x", "high"), ("ArgmaxSelector", "chosen branch"),
        ("low", "chosen branch"), ("high", "chosen branch"), ("chosen branch", "output"),
    }  # fmt: skip
    assert [each.note.partition("\n")[2].split("\n")[1] for each in box.inner.boxes[2:4]] == [
        "branch 1 of 2", "branch 2 of 2",
    ]  # fmt: skip


@pytest.mark.parametrize("direction", ["down", "right"])
def test_the_experts_of_a_gate_lie_side_by_side(direction):
    experts = [nn.Sequential(nn.Linear(4, 4), nn.ReLU()), labelled("careful"), torch.tanh]
    graph = FlowBuilder.new().gate(SoftmaxRouter(4, 3), *experts).tag("mixed").build()
    box = box_of(graph, "gate")
    assert box.lines == ("Sequential, careful, tanh", "by SoftmaxRouter", "55 params")
    drawing = lay_out(box.inner, direction)
    rows = {drawing.row_of[index] for index in range(1, 5)}
    assert len(rows) == 1
    assert titles(box)[1:5] == ["SoftmaxRouter", "Sequential", "careful", "tanh"]


def test_many_experts_are_counted_on_the_closed_box_and_folded_inside():
    graph = FlowBuilder.new().gate(SoftmaxRouter(4, 30), *(nn.Linear(4, 4) for _ in range(30)))
    box = box_of(graph.build(), "gate")
    assert box.lines[0] == "30 experts"
    assert [(each.title, each.times) for each in box.inner.boxes[2:3]] == [("Linear", 30)]


def test_a_gate_by_a_value_shows_the_value():
    class Mixture(FlowModule):
        def __init__(self):
            super().__init__()
            self.low, self.high = nn.Linear(4, 4), nn.Linear(4, 4)

        def flow(self, x: Flow, shares: Flow) -> Flow:
            return x.gate(shares, self.low, self.high)

    graph = Mixture()
    graph(torch.ones(2, 4), torch.ones(2, 2))
    box = box_of(graph, "gate")
    assert box.lines[1] == "by shares"
    assert links(box) >= {("shares", "weighted sum"), ("x", "Linear"), ("Linear", "weighted sum")}


def test_tagged_values_of_a_router_come_into_the_box():
    def route(x, hint):
        return (x + hint).softmax(-1)

    graph = FlowBuilder.new().tag("hint").gate(route, nn.Linear(4, 4), *[nn.Tanh()] * 3)
    box = box_of(graph.using("hint").build(), "gate")
    assert {("hint", "route"), ("hint", "Linear")} <= links(box)
    assert dict(box.facts)["call"].endswith(".using('hint')")


@pytest.mark.parametrize(
    ("end", "lines", "inside"),
    [
        (("for_n", 3), ("3 times \u00b7 refine",), ["x", "Linear", "Tanh", "output"]),
        (("until_cond", stop, 5), ("until stop, at most 5 times", "refine"),
         ["x", "refine", "stop", "stop if > 0", "output"]),
        (("while_cond", ThresholdHalt(1.0), 1), ("while not ThresholdHalt, at most once", "refine"),
         ["x", "ThresholdHalt", "stop if > 0", "refine", "output"]),
    ],
)  # fmt: skip
def test_a_loop_shows_its_body_once_and_when_it_ends(end, lines, inside):
    word, *args = end
    loop = FlowBuilder.new().loop_body(labelled("refine"))
    box = box_of(getattr(loop, word)(*args).build(), "loop")
    assert box.lines[: len(lines)] == lines
    assert titles(box) == inside
    assert box.is_open


def test_a_loop_over_a_layer_opens_and_keeps_its_settings():
    box = box_of(FlowBuilder.new().loop_body(nn.Linear(4, 4)).for_n(2).build(), "loop")
    assert box.lines == ("2 times \u00b7 Linear", "4 \u2192 4", "20 params")
    assert titles(box) == ["x", "Linear", "output"]


def test_a_loop_of_samples_that_stop_alone_says_so():
    loop = FlowBuilder.new().loop_body(nn.Tanh()).until_cond(nn.Linear(4, 1), 2, per_sample=True)
    assert "each sample alone" in box_of(loop.build(), "loop").lines


@pytest.mark.parametrize(
    ("end", "over", "first"),
    [
        (("each",), "each element of x", "element"),
        (("over", "rows"), "each element of rows", "element"),
        (("slices", 2), "2 slices of the last dimension", "slice"),
        (("along", 1), "slices along dimension 1", "slice"),
    ],
)
def test_a_map_shows_its_body_once_and_what_it_maps_over(end, over, first):
    word, *args = end
    words = FlowBuilder.new() if word != "over" else FlowBuilder.from_(nn.Tanh()).tag("rows")
    box = box_of(getattr(words.map([nn.Linear(2, 2), torch.tanh]), word)(*args).build(), "map")
    assert box.lines == (f"{over} \u00b7 Linear \u2192 tanh", "6 params")
    assert titles(box) == [first, "Linear", "tanh", "output"]


def test_a_map_of_all_parts_at_once_says_so():
    box = box_of(FlowBuilder.new().map(nn.Linear(4, 4)).batched().each().build(), "map")
    assert box.lines[0] == "each element of x, all at once \u00b7 Linear"
    assert titles(box)[0] == "elements"


def test_a_scan_shows_its_cell_with_slice_and_state():
    class Reader(FlowModule):
        def __init__(self):
            super().__init__()
            self.cell, self.out = nn.GRUCell(4, 4), nn.Linear(4, 2)

        def flow(self, x: Flow, start: Flow) -> Flow:
            outputs, _ = x.scan(self.cell, start, readout=self.out).along(1)
            return outputs

    graph = Reader()
    graph(torch.ones(2, 3, 4), torch.zeros(2, 4))
    box = box_of(graph, "scan")
    assert box.lines[0] == "steps along dimension 1 \u00b7 GRUCell"
    assert links(box) == {
        ("slice", "GRUCell"), ("start", "GRUCell"), ("GRUCell", "Linear"), ("Linear", "output")
    }  # fmt: skip


def test_depth_opens_branches_level_by_level():
    graph = (
        FlowBuilder.new().switch(ArgmaxSelector(4, 2), labelled("low"), labelled("high")).build()
    )
    for depth, opened in (
        (0, []),
        (1, ["switch"]),
        (2, ["switch", "ArgmaxSelector", "low", "high"]),
    ):
        outer = box_of(graph, "switch", depth)
        assert [each.title for each in (outer, *outer.inner.boxes) if each.is_open] == opened


def test_no_picture_shows_the_names_of_internal_functions():
    graph = (
        FlowBuilder.new().gate(SoftmaxRouter(4, 2), nn.Linear(4, 4), stop)
        .loop_body(labelled("refine")).until_cond(stop, 2).loop_body(nn.Tanh()).for_n(2)
        .map(lambda x: x).each().map(nn.Tanh()).slices(2).build()
    )  # fmt: skip
    for text in (graph.svg(depth=2), graph.html(), graph.mermaid(depth=2)):
        for name in (
            "gate_(",
            "loop_halting_(",
            "map_each_(",
            "map_slices_(",
            "stop_",
            "function_",
        ):
            assert name not in text


def test_a_call_is_written_as_the_user_writes_it():
    loop = FlowBuilder.new().loop_body(labelled("refine")).until_cond(stop, 5, per_sample=True)
    call = dict(box_of(loop.build(), "loop").facts)["call"]
    assert call.endswith("= x.loop_body(self.refine).until_cond(stop, 5, per_sample=True)")


def test_gates_with_equal_experts_are_drawn_once():
    words = FlowBuilder.new()
    for _ in range(4):
        words = words.gate(SoftmaxRouter(4, 2), nn.Linear(4, 4), nn.Linear(4, 4))
    boxes = assemble(part_of(words.build()), View(fold=True)).boxes
    assert [(box.title, box.times) for box in boxes[1:2]] == [("gate", 4)]
    words = words.gate(SoftmaxRouter(4, 2), nn.Linear(4, 4), nn.Linear(4, 4, bias=False))
    boxes = assemble(part_of(words.build()), View(fold=True)).boxes
    assert [box.times for box in boxes[1:3]] == [4, 1]


def test_shapes_stand_on_what_comes_in_and_out():
    graph = FlowBuilder.new().gate(SoftmaxRouter(4, 2), nn.Linear(4, 6), nn.Linear(4, 6)).build()
    scene = assemble(shaped_part(graph, torch.ones(3, 4)), View(depth=1))
    boxes = {box.title: box for box in scene.boxes[1].inner.boxes}
    assert boxes["x"].lines == ("3\u00d74",)
    assert boxes["weighted sum"].lines == ("3\u00d76",)


def test_shapes_stand_on_experts_and_on_what_a_loop_repeats():
    class Steered(FlowModule):
        def __init__(self):
            super().__init__()
            self.router, self.low, self.high = (
                SoftmaxRouter(4, 2),
                nn.Linear(4, 6),
                nn.Linear(4, 6),
            )
            self.steps = nn.ModuleList([nn.Linear(6, 8), nn.Linear(8, 6)])

        def flow(self, x: Flow) -> Flow:
            mixed = x.gate(self.router, self.low, self.high)
            return mixed.loop_body(self.steps).until_cond(stop, 3)

    model = Steered()
    scene = assemble(shaped_part(model, torch.ones(3, 4)), View(depth=1))
    gate, loop = scene.boxes[1:3]
    shapes = {each.title: each.lines[-1].split(" ")[0] for each in gate.inner.boxes[:-1]}
    assert shapes["SoftmaxRouter"] == "3\u00d72"
    assert shapes["Linear"] == "3\u00d76"
    assert [each.lines[-1].split(" ")[0] for each in loop.inner.boxes[1:3]] == [
        "3\u00d78", "3\u00d76",
    ]  # fmt: skip
    assert not any(each._forward_hooks for each in model.modules())


def test_a_changed_expert_colours_its_gate_and_itself():
    def model(width):
        inner = nn.Sequential(nn.Linear(4, width), nn.Linear(width, 4))
        return FlowBuilder.new().gate(SoftmaxRouter(4, 2), inner, nn.Tanh()).build()

    found = flodl.view(model(8)).diff(flodl.view(model(9)))
    scene = assemble(coloured(found.part, found), View(depth=1))
    box = next(each for each in scene.boxes if each.title == "gate")
    assert box.cost == "changed inside"
    assert [(each.title, each.cost) for each in box.inner.boxes if each.cost] == [
        ("Sequential", "changed inside")
    ]


def test_the_shadow_of_a_closed_loop_is_as_round_as_the_loop():
    text = FlowBuilder.new().loop_body(nn.Tanh()).for_n(2).build().svg()
    found = re.search(r'<g class="fd-loop".*?</g>', text, re.DOTALL)
    assert re.findall(r'rx="([\d.]+)"', found[0]) == ["13", "13"]
