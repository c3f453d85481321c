"""Pictures of real graphs: what they say, heat maps, pages, DOT and Mermaid."""

import itertools
import json
import re
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import flodl
from flodl import (
    Add,
    Flow,
    FlowBuilder,
    FlowModule,
    GraphError,
    SoftmaxRouter,
    StateAdd,
    ThresholdHalt,
)
from flodl.inspect import timing
from flodl.inspect.drawing import part_of
from flodl.inspect.heat import measured_part, profiled_part, shaped_part
from flodl.visual.assemble import View, assemble
from flodl.visual.carried import corners
from flodl.visual.dot import dot_of
from flodl.visual.layout import lay_out
from flodl.visual.mermaid import mermaid_text
from flodl.visual.page import html_text
from flodl.visual.svg import svg_text
from flodl.visual.theme import heat_colour, ink_on

pytestmark = pytest.mark.torch

DOCS = Path(__file__).parents[3] / "docs"


class Block(FlowModule):
    def __init__(self, width):
        super().__init__()
        self.norm, self.lin = nn.LayerNorm(width), nn.Linear(width, width)

    def flow(self, x: Flow) -> Flow:
        return x + x.through(self.norm).through(self.lin).through(F.gelu)


class Net(FlowModule):
    def __init__(self, count=3):
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.blocks = nn.ModuleList(Block(8) for _ in range(count))
        self.head = nn.Linear(8, 2)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.stem).tag("stem").through(self.blocks).through(self.head)


class Flat(FlowModule):
    """The blocks of `Net`, written out in one flow."""

    def __init__(self, count):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(count))
        self.lins = nn.ModuleList(nn.Linear(8, 8) for _ in range(count))
        self.head = nn.Linear(8, 2)

    def flow(self, x: Flow) -> Flow:
        for norm, lin in zip(self.norms, self.lins, strict=True):
            x = x + x.through(norm).through(lin).through(F.gelu)
        batch = x.size(0)
        return x.view(batch, -1).through(self.head)


class Sleepy(nn.Module):
    def forward(self, x):
        time.sleep(0.05)
        return 2 * x


def titles(scene):
    return [box.title for box in scene.boxes]


def test_a_scene_has_a_box_per_step_and_a_link_per_value():
    graph = (
        FlowBuilder.from_(nn.Linear(4, 4)).split(nn.ReLU(), nn.Tanh()).merge(Add()).tag("sum")
        .through(nn.Linear(4, 2)).build()
    )  # fmt: skip
    scene = assemble(part_of(graph), View())
    assert titles(scene) == ["x", "Linear", "ReLU", "Tanh", "add", "Linear", "output"]
    links = {(link.source, link.target) for link in scene.links}
    assert links == {(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5), (5, 6)}
    assert scene.boxes[4].tags == ("sum",)
    assert scene.boxes[1].lines[-1] == "20 params"
    assert "branch 1 of 2" in scene.boxes[2].note


def test_sizes_are_left_out_but_their_readers_stay_linked():
    net = Flat(1)
    scene = assemble(part_of(net), View())
    assert "size" not in " ".join(titles(scene))
    view = titles(scene).index("view")
    assert [link.source for link in scene.links if link.target == view] == [view - 1]


def test_nested_graphs_are_one_box_until_they_are_opened():
    part = part_of(Net())
    closed, opened = assemble(part, View()), assemble(part, View(depth=1))
    assert titles(closed).count("Block") == 3
    assert not any(box.is_open for box in closed.boxes)
    inner = next(box for box in opened.boxes if box.title == "Block").inner
    assert titles(inner) == ["x", "LayerNorm", "Linear", "gelu", "+", "output"]
    assert ">gelu<" not in svg_text(part)
    assert svg_text(part, View(depth=1)).count(">gelu<") == 3


def test_repeated_blocks_are_folded_in_large_graphs_only():
    assert "repeat" not in [box.role for box in assemble(part_of(Flat(2)), View()).boxes]
    scene = assemble(part_of(Flat(12)), View())
    (repeat,) = [box for box in scene.boxes if box.role == "repeat"]
    assert (repeat.title, repeat.times) == ("12 times", 12)
    assert titles(repeat.inner) == ["x", "LayerNorm", "Linear", "gelu", "+"]
    assert [box.lines[0] for box in repeat.inner.boxes[1:3]] == ["norms.*", "lins.*"]
    whole = assemble(part_of(Flat(12)), View(fold=False))
    assert titles(whole).count("gelu") == 12


def test_blocks_of_other_widths_are_not_folded_together():
    class Uneven(FlowModule):
        def __init__(self):
            super().__init__()
            widths = [4] * 12 + [6] * 12
            self.lins = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))

        def flow(self, x: Flow) -> Flow:
            for lin in self.lins:
                x = x.through(lin).through(torch.relu)
            return x

    scene = assemble(part_of(Uneven()), View())
    assert [box.times for box in scene.boxes if box.role == "repeat"] == [11, 11]


@pytest.mark.slow
def test_picture_of_a_thousand_steps_stays_readable():
    scene = assemble(part_of(Flat(250)), View())
    assert len(scene.boxes) < 10
    text = svg_text(part_of(Flat(250)), View(fold=False))
    assert len(text) < 1_500_000


def test_svg_is_xml_and_needs_nothing_from_outside():
    text = svg_text(part_of(Net()), View(depth=1))
    root = ET.fromstring(text)
    assert root.get("viewBox").startswith("0 0 ")
    assert "prefers-color-scheme:dark" in text
    assert not re.search(r"href|url\(|<script", text)


def test_the_page_carries_every_scene_and_its_geometry():
    text = html_text(part_of(Net()), View())
    scenes = json.loads(re.search(r'id="fd-data">(.*?)</script>', text, re.DOTALL)[1])
    assert len(scenes) == 4
    outer = scenes[0]
    assert [box["inner"] for box in outer["boxes"] if box["inner"] >= 0] == [1, 2, 3]
    assert len(outer["gaps"]) == len(outer["rows"])
    assert all(len(scene["ways"]) == len(scene["ports"]) for scene in scenes)
    assert "http" not in text.replace("http://www.w3.org", "")


def test_tags_that_look_like_markup_are_escaped():
    graph = FlowBuilder.from_(nn.Linear(2, 2)).tag("a<b>&c").build()
    part = part_of(graph)
    ET.fromstring(svg_text(part))
    assert "#a&lt;b&gt;&amp;c" in svg_text(part)
    assert "</script>" not in html_text(part).split('id="fd-data">')[1].split("</script>")[0]
    assert "a#60;b#62;" in mermaid_text(part)


def test_dot_has_levels_tags_and_no_phantom_nodes():
    graph = (
        FlowBuilder.from_(nn.Linear(4, 4))
        .split(nn.ReLU(), nn.Tanh())
        .merge(Add())
        .tag("sum")
        .build()
    )
    text = dot_of(part_of(graph))
    defined = set(re.findall(r"^\s*(\w+) \[label", text, re.MULTILINE))
    used = {name for edge in re.findall(r"(\w+) -> (\w+);", text) for name in edge}
    assert used <= defined
    assert text.count("subgraph cluster_level_") == 4
    level = text.split("cluster_level_2")[1].split("}")[0]
    assert "ReLU" in level
    assert "Tanh" in level
    assert "#sum" in text
    assert "[20 params]" in text


def test_mermaid_defines_what_it_links():
    text = mermaid_text(part_of(Flat(12)))
    defined = set(re.findall(r"^\s*(?:subgraph )?(n[\d_]+)[\[({]", text, re.MULTILINE))
    used = {name for edge in re.findall(r"(n[\d_]+) --> (n[\d_]+)", text) for name in edge}
    assert used
    assert used <= defined
    assert text.count("subgraph") == text.count("end\n")


def test_pictures_to_the_right_are_wide_and_those_that_go_down_are_high():
    view = flodl.view(Net())
    sizes = {}
    for direction in ("down", "right"):
        for text in (view.svg(direction=direction, depth=1), view.svg(direction=direction)):
            width, height = re.search(r'width="([\d.]+)" height="([\d.]+)"', text).groups()
            sizes.setdefault(direction, []).append(float(width) / float(height))
        (data,) = re.findall(r'id="fd-data">(.*?)</script>', view.html(direction=direction))
        assert {scene["right"] for scene in json.loads(data)} == {direction == "right"}
    assert max(sizes["down"]) < 1 < min(sizes["right"])
    assert view.svg() == view.svg(direction="down")
    assert view.mermaid(direction="right").startswith("flowchart LR\n")
    assert view.mermaid().startswith("flowchart TD\n")


def test_picture_in_an_unknown_direction_names_the_known_ones():
    with pytest.raises(ValueError, match="goes `down` or `right`, not 'left'"):
        flodl.view(Net()).svg(direction="left")


def test_a_profile_colours_the_slow_step():
    graph = FlowBuilder.from_(nn.Linear(4, 4)).through(Sleepy()).tag("slow").build()
    with pytest.raises(GraphError, match="enable_profiling"):
        profiled_part(graph)
    timing.enable_profiling(graph)
    graph(torch.ones(2, 4))
    scene = assemble(profiled_part(graph), View())
    heats = {box.title: box.heat for box in scene.boxes}
    assert heats["Sleepy"] == 1.0
    assert 0 < heats["Linear"] < 0.5
    assert heats["output"] is None
    assert scene.legend.startswith("forward time: ")
    assert heat_colour(1.0) in svg_text(profiled_part(graph))


def test_a_profile_colours_nested_graphs_on_one_scale():
    net = Net()
    net(torch.ones(2, 4))
    timing.enable_profiling(net)
    net(torch.ones(2, 4))
    scene = assemble(profiled_part(net), View(depth=1))
    blocks = [box for box in scene.boxes if box.title == "Block"]
    for block in blocks:
        inner = [box.heat for box in block.inner.boxes if box.heat is not None]
        assert len(inner) == 4
        assert max(inner) <= block.heat


def test_memory_counts_new_storage_once():
    class Views(FlowModule):
        def flow(self, x: Flow) -> Flow:
            big = torch.cat([x, x, x], dim=1)
            return big.view(-1).sum()

    part = measured_part(Views(), "memory", torch.ones(2, 4))
    sizes = {part.spec.nodes[node].target: heat.amount for node, heat in part.heat.items()}
    assert sizes["torch.cat"] == 2 * 12 * 4
    assert sizes["view"] == 0
    assert sizes["sum"] >= 4
    assert part.total == f"{sum(sizes.values()):.0f} B"


def test_memory_of_a_nested_graph_is_that_of_its_steps():
    part = measured_part(Net(1), "memory", torch.ones(2, 4))
    (block,) = part.inner.values()
    (node,) = [n for n in part.heat if part.spec.nodes[n].target == "blocks.0"]
    assert part.heat[node].amount == sum(heat.amount for heat in block.heat.values()) > 0
    (stem,) = [n for n in part.heat if part.spec.nodes[n].target == "stem"]
    assert part.heat[stem].amount == 2 * 8 * 4


class SlowGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.05)
        return gradient


def test_backward_time_belongs_to_the_step_whose_gradient_was_slow():
    graph = (
        FlowBuilder.from_(nn.Linear(4, 4)).through(SlowGradient.apply).tag("slow")
        .through(nn.Linear(4, 2)).build()
    )  # fmt: skip
    x = torch.ones(2, 4)
    part = measured_part(graph, "backward", x)
    hottest = max(part.heat, key=lambda node: part.heat[node].amount)
    assert part.spec.tags_of(hottest) == ("slow",)
    assert all(each.grad is None for each in graph.parameters())
    with pytest.raises(GraphError, match="no backward pass"):
        measured_part(FlowBuilder.from_(torch.relu).build(), "backward", x)


def test_measuring_leaves_the_model_and_the_random_state_alone():
    net = FlowBuilder.from_(nn.BatchNorm1d(4)).through(nn.Dropout(0.5)).build()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.get_rng_state()
    measured_part(net, "memory", torch.randn(8, 4) * 0 + 3)
    torch.set_rng_state(state)
    shaped_part(net, torch.ones(8, 4))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_gates_loops_maps_and_states_are_drawn_as_such():
    graph = (
        FlowBuilder.from_(nn.Linear(4, 4)).gate(SoftmaxRouter(4, 2), nn.Linear(4, 4), nn.Tanh())
        .tag("gated").loop_body(nn.Linear(4, 4)).until_cond(ThresholdHalt(9.0), 3)
        .map(nn.Linear(4, 4)).each().through(StateAdd()).using("m").tag("m").build()
    )  # fmt: skip
    graph(torch.ones(2, 4))
    scene = assemble(part_of(graph), View())
    roles = {box.title: box.role for box in scene.boxes}
    assert roles["gate"] == "choice"
    assert roles["loop"] == roles["map"] == "loop"
    assert roles["read state m"] == roles["write state m"] == "state"
    assert roles["StateAdd"] == "layer"
    gate = next(box for box in scene.boxes if box.title == "gate")
    assert gate.lines == ("Linear, Tanh", "by SoftmaxRouter", "30 params")
    assert gate.tags == ("gated",)
    # The router's layer and the expert's, weights and biases.
    assert len(graph.parameters_at("gated")) == 4


def test_shapes_are_drawn():
    scene = assemble(shaped_part(Net(), torch.ones(5, 4)), View())
    linear = next(box for box in scene.boxes if box.title == "Linear")
    assert linear.lines == ("stem", "4 \u2192 8", "5\u00d78 \u00b7 40 params")


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.68, 0.7, 1.0])
def test_text_on_heat_has_contrast(share):
    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    one, two = sorted((light(heat_colour(share)), light(ink_on(share))))
    assert (two + 0.05) / (one + 0.05) > 3.9


def test_heat_colours_get_darker():
    def lightness(colour):
        return sum(int(colour[i : i + 2], 16) for i in (1, 3, 5))

    steps = [lightness(heat_colour(step / 20)) for step in range(21)]
    assert steps == sorted(steps, reverse=True)


def test_the_layout_of_a_drawing_is_the_same_every_time():
    part = part_of(Net())
    assert lay_out(assemble(part, View())) == lay_out(assemble(part, View()))


def drawn_in_the_documents(monkeypatch, folder, blocks):
    """Run the first blocks of the page of pictures in a folder, where they write theirs."""
    monkeypatch.chdir(folder)
    code = (DOCS / "how-to" / "pictures.md").read_text(encoding="utf-8").split("```python\n")
    names = {"__name__": "__main__"}
    for block in code[1 : blocks + 1]:
        # The lines that hovering shows are counted from the start of the example.
        exec(compile(block.partition("```")[0], "transformer.py", "exec"), names)


def test_the_picture_in_the_documents_is_what_its_code_draws(golden, tmp_path, monkeypatch):
    drawn_in_the_documents(monkeypatch, tmp_path, 1)
    drawn = (tmp_path / "transformer.svg").read_text(encoding="utf-8")
    golden(DOCS / "images" / "transformer.svg", drawn)


def test_the_open_steps_in_the_documents_are_what_their_code_draws(golden, tmp_path, monkeypatch):
    drawn_in_the_documents(monkeypatch, tmp_path, 2)
    golden(DOCS / "images" / "routed.svg", (tmp_path / "routed.svg").read_text(encoding="utf-8"))


def recurrent():
    builder = FlowBuilder.from_(nn.Linear(3, 3)).tag("wide")
    for name in ("fast", "slow"):
        builder = builder.through(StateAdd()).using(name).tag(name).through(nn.Tanh())
    return builder.also(nn.Linear(3, 3)).build()


def test_states_lead_back_to_where_they_are_read():
    part = part_of(recurrent())
    scene = assemble(part, View())
    assert [link.label for link in scene.carried] == ["fast", "slow"]
    for link in scene.carried:
        assert scene.boxes[link.source].title == f"write state {link.label}"
        assert scene.boxes[link.target].title == f"read state {link.label}"
    assert svg_text(part).count('class="fd-c"') == 2
    assert mermaid_text(part).count("-. state .->") == 2
    dot = dot_of(part)
    back = re.findall(r"n(\d+) -> n(\d+) \[label=\"state\", style=dotted", dot)
    assert len(back) == 2
    assert all(f"n{end} [label=" in dot for pair in back for end in pair), "no phantom nodes"


@pytest.mark.parametrize("direction", ["down", "right"])
def test_the_way_back_meets_no_box_and_stays_in_the_picture(direction):
    drawing = lay_out(assemble(part_of(recurrent()), View()), direction)
    for number, link in enumerate(drawing.scene.carried):
        ends = {link.source, link.target}
        for (x, y), (to_x, to_y) in itertools.pairwise(corners(drawing, number)):
            assert min(x, to_x, y, to_y) >= 0
            assert max(y, to_y) <= drawing.height
            assert max(x, to_x) <= drawing.width
            for index, box in enumerate(drawing.boxes):
                apart = (
                    max(x, to_x) <= box.x
                    or min(x, to_x) >= box.x + box.width
                    or max(y, to_y) <= box.y
                    or min(y, to_y) >= box.y + box.height
                )
                assert apart or index in ends
