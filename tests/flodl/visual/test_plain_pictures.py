"""Pictures of plain torch models: the traced dataflow, or the children where there is no trace."""

import copy
import json
import random
import re
import threading
import xml.etree.ElementTree as ET

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from flodl import Flow, FlowModule, GraphError
from flodl.inspect import drawing, pictures, timing
from flodl.inspect import observation as obs
from flodl.inspect.drawing import part_of
from flodl.inspect.heat import profiled_part
from flodl.visual.assemble import View, assemble
from tests.flodl.tree.plain_models import MODELS, ResNet, ViT, Wayward

pytestmark = pytest.mark.torch


class Flowing(FlowModule):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def flow(self, x: Flow) -> Flow:
        return x.through(self.lin).through(torch.relu)


class Optional(nn.Module):
    """Every argument has a default."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x=None, mask=None):
        if x is None:
            return None
        return self.lin(x) * mask


class InPlace(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("total", torch.zeros(3))
        self.kept = []

    def forward(self, x, *, factor=2):
        self.kept.append(x)
        self.last = self.lin(x)
        y = F.relu(self.last) * factor
        y += self.total
        y[:, 0] = 0
        return {"y": y, "size": y.size(0)}


class Dense(nn.ModuleDict):
    """A container with a forward, as the blocks of torchvision's DenseNet are."""

    def __init__(self):
        super().__init__({"one": nn.Linear(3, 3), "two": nn.Linear(6, 3)})

    def forward(self, x):
        for layer in self.values():
            x = torch.cat([x, layer(x)], dim=-1)
        return x


class Locked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.lock = nn.Linear(3, 3), threading.Lock()

    def forward(self, x):
        return self.lin(x)


class Around(nn.Module):
    """A part that holds the model it is a part of."""

    def __init__(self):
        super().__init__()
        self.part = nn.Module()
        self.part.whole = self

    def forward(self, x):
        return x if x.sum() > 0 else -x


def scene_of(module, depth=0, **view):
    return assemble(part_of(module), View(depth=depth, **view))


def links_of(scene):
    """Return the links of a scene by the first two lines of their boxes."""
    names = [" ".join((box.title, *box.lines[:1])) for box in scene.boxes]
    return {(names[link.source], names[link.target]) for link in scene.links}


def inside(scene, *titles):
    for title in titles:
        scene = next(box.inner for box in scene.boxes if title in (box.title, *box.lines))
    return scene


def everything(scene):
    yield scene
    for box in scene.boxes:
        if box.inner is not None:
            yield from everything(box.inner)


@pytest.mark.parametrize("name", MODELS)
def test_picture_of_a_plain_model_has_a_box_for_each_called_submodule(name):
    model = MODELS[name][0]()
    called = set()
    for path, each in model.named_modules():
        each.register_forward_hook(lambda *_, path=path: called.add(path))
    model(torch.randn(MODELS[name][1]))
    drawn = set()

    def walk(part, prefix):
        assert not part.unknown
        for node in part.spec.nodes:
            if node.kind == "module":
                drawn.add(prefix + node.target)
        for path, inner in part.inner.items():
            walk(inner, f"{prefix}{path}.")

    walk(part_of(model), "")
    assert drawn == called - {""}


def test_picture_of_a_residual_block_shows_both_ways():
    scene = inside(scene_of(ResNet()), "layer1", "0")
    assert links_of(scene) == {
        ("x", "Conv2d conv1"), ("Conv2d conv1", "BatchNorm2d bn1"), ("BatchNorm2d bn1", "ReLU relu"),
        ("ReLU relu", "Conv2d conv2"), ("Conv2d conv2", "BatchNorm2d bn2"), ("BatchNorm2d bn2", "+"),
        ("x", "+"), ("+", "ReLU relu"), ("ReLU relu", "output"),
    }  # fmt: skip


def test_picture_of_attention_leaves_out_sizes_assertions_and_unused_keywords():
    scene = scene_of(ViT())
    titles = [box.title for box in scene.boxes]
    assert titles == ["images", "Conv2d", "flatten", "transpose", "\u00d7", "expand", "cat", "Encoder",
                      "[:, 0]", "Linear", "output"]  # fmt: skip
    layer = inside(scene, "encoder", "layer.0")
    titles = [box.title for box in layer.boxes]
    assert titles == ["x", "LayerNorm", "Linear", "chunk", "[0]", "[1]", "[2]", "transpose", "@",
                      "\u00f7", "softmax", "@", "Linear", "+", "LayerNorm", "Sequential", "+",
                      "output"]  # fmt: skip


@pytest.mark.parametrize(
    "draw",
    [pictures.svg, pictures.html, pictures.mermaid, drawing.dot_of],
    ids=["svg", "html", "mermaid", "dot"],
)
@pytest.mark.parametrize("make", [*(make for make, _ in MODELS.values()), Wayward, InPlace])
def test_drawing_changes_neither_model_nor_random_numbers(make, draw):
    torch.manual_seed(0)
    model = make()
    obs.observe_tags(model, next(name for name, _ in model.named_children()))
    before = {path: dict(vars(each)) for path, each in model.named_modules()}
    state = copy.deepcopy(model.state_dict())
    states = torch.get_rng_state(), random.getstate()
    text = draw(model)
    assert text == draw(model)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    for path, each in model.named_modules():
        assert vars(each) == before[path]
        assert all(
            vars(each)[name] is value
            for name, value in before[path].items()
            if not isinstance(value, (bool, int))
        )
    torch.testing.assert_close(model.state_dict(), state, rtol=0, atol=0)
    assert getattr(model, "notes", []) == getattr(model, "kept", []) == []
    assert getattr(model, "calls", 0) == 0
    assert not hasattr(model, "last")


def test_picture_opens_nested_modules_down_to_the_depth():
    model = ResNet()
    for depth, kinds in ((0, 0), (1, 2), (2, 6)):
        text = pictures.mermaid(model, depth=depth)
        assert text.count("subgraph") == kinds
        ET.fromstring(pictures.svg(model, depth=depth))
    assert "bn2" not in pictures.mermaid(model, depth=1)
    assert pictures.mermaid(model, depth=2).count("bn2") == 4


def test_page_of_a_plain_model_holds_every_nested_scene():
    page = pictures.html(ResNet())
    data = re.search(r'<script type="application/json" id="fd-data">(.*?)</script>', page)
    scenes = json.loads(data.group(1))
    assert len(scenes) == 1 + 2 + 4
    assert sum(box["inner"] >= 0 for scene in scenes for box in scene["boxes"]) == 6


def test_picture_of_a_module_that_cannot_be_traced_shows_its_children():
    scene = scene_of(Wayward())
    assert [box.title for box in scene.boxes] == [
        "wiring unknown", "Linear", "ModuleList", "Sequential"
    ]  # fmt: skip
    assert scene.links == ()
    assert "torch.fx cannot trace the forward: TraceError" in scene.boxes[0].note
    blocks = inside(scene, "blocks")
    assert [(box.title, box.times) for box in blocks.boxes] == [
        ("wiring unknown", 1),
        ("Linear", 6),
    ]
    assert links_of(inside(scene, "tail")) == {
        ("input", "Linear 0"), ("Linear 0", "ReLU 1"), ("ReLU 1", "output")
    }  # fmt: skip


def test_texts_of_a_module_that_cannot_be_traced_say_that_the_wiring_is_unknown():
    model = Wayward()
    for text in (pictures.svg(model), pictures.html(model), pictures.mermaid(model)):
        assert "wiring unknown" in text
    dot = drawing.dot_of(model)
    assert 'unknown [label="wiring unknown"' in dot
    assert "->" not in dot
    assert "output" not in dot


def test_picture_of_a_module_in_an_untraced_one_is_traced_itself():
    model = nn.Module()
    model.inner = ResNet()
    scene = scene_of(model, depth=1)
    assert scene.boxes[0].title == "wiring unknown"
    assert scene.boxes[0].note == "Module has no forward of its own"
    assert ("AdaptiveAvgPool2d avgpool", "flatten") in links_of(inside(scene, "inner"))


def test_picture_of_a_container_with_a_forward_shows_its_wiring():
    scene = inside(scene_of(nn.Sequential(Dense())), "0")
    assert [box.title for box in scene.boxes] == ["x", "Linear", "cat", "Linear", "cat", "output"]
    assert ("x", "cat") in links_of(scene)


def test_picture_of_a_module_that_cannot_be_copied_shows_its_children():
    scene = scene_of(Locked())
    assert [box.title for box in scene.boxes] == ["wiring unknown", "Linear"]
    assert "pickle" in scene.boxes[0].note


def test_picture_of_a_module_that_lies_in_itself_ends():
    assert sum(1 for _ in everything(scene_of(Around()))) == 2


def test_picture_of_a_forward_with_defaults_only_shows_its_arguments():
    assert links_of(scene_of(Optional())) == {
        ("x", "Linear lin"), ("Linear lin", "\u00d7"), ("mask", "\u00d7"), ("\u00d7", "output")
    }  # fmt: skip


def test_picture_of_steps_in_place_names_them():
    scene = scene_of(InPlace())
    assert ("setitem", "output") in links_of(scene)
    titles = [box.title for box in scene.boxes]
    assert titles == ["x", "Linear", "relu", "\u00d7", "+", "setitem", "output"]


def test_picture_of_a_flow_in_a_plain_model_shows_what_was_recorded():
    model = nn.Sequential(nn.Linear(3, 3), Flowing())
    model(torch.ones(1, 3))
    inner = inside(scene_of(model, depth=1), "1")
    assert [box.title for box in inner.boxes] == ["x", "Linear", "relu", "output"]


@pytest.mark.filterwarnings("ignore:.*weight_norm.*deprecated")
def test_picture_of_layers_with_computed_weights_is_traced():
    computed = torch.nn.utils.weight_norm(nn.Linear(3, 3))
    model = Optional()
    model.lin = nn.Sequential(computed, nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)),
                              nn.LazyLinear(4))  # fmt: skip
    computed(torch.ones(1, 3))
    assert not computed.weight.is_leaf
    scene = scene_of(model)
    assert [box.title for box in scene.boxes] == ["x", "mask", "Sequential", "\u00d7", "output"]
    assert len(inside(scene, "lin").boxes) == 5


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*deprecated")
def test_script_modules_are_boxes_and_no_pictures():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(3, 3)))
    scene = scene_of(nn.Sequential(scripted))
    assert [box.title for box in scene.boxes] == ["input", "RecursiveScriptModule", "output"]
    with pytest.raises(GraphError, match="draw the module it was made from"):
        pictures.svg(scripted)


def test_dot_of_a_plain_model_has_an_edge_per_value_read():
    dot = drawing.dot_of(ResNet())
    assert 'n4 [label="layer1\\nSequential\\n[2.4K params]", shape=folder' in dot
    assert len(re.findall(r"->", dot)) == 9
    assert "n8 -> output;" in dot


def test_heat_of_a_plain_model_belongs_to_the_call_of_each_step():
    model = ResNet()
    with pytest.raises(GraphError, match="enable_profiling"):
        pictures.svg_with_profile(model)
    timing.enable_profiling(model)
    with pytest.raises(GraphError, match="enable_profiling"):
        pictures.svg_with_profile(model)
    model(torch.randn(2, 3, 8, 8))
    text = pictures.svg_with_profile(model, depth=2)
    assert "forward time" in text
    part = profiled_part(model)
    found = timing.profile(model)
    times = {part.spec.nodes[node].target: heat.amount for node, heat in part.heat.items()}
    assert times == {row.id: row.duration for row in found.nodes if row.level == 0}
    block = part.inner["layer1"].inner["0"]
    relus = [block.heat[node.index].amount for node in block.spec.nodes if node.target == "relu"]
    assert len(relus) == 2
    assert sum(relus) == found.timing("layer1.0.relu")


def test_heat_of_a_block_that_is_called_twice_states_both_calls():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(nn.Linear(3, 3))

        def forward(self, x):
            return self.block(self.block(x))

    model = Recurrent()
    timing.enable_profiling(model)
    model(torch.ones(1, 3))
    text = pictures.svg_with_profile(model, depth=1)
    assert text.count("in 2 calls") == 2
