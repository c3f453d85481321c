"""Facts of pictures: shapes of all values in plain modules, details of layers, and sources of lambdas."""

import torch
import torch.nn.functional as F
from torch import nn

from flodl import Flow, FlowBuilder, FlowModule
from flodl.inspect.drawing import part_of
from flodl.inspect.facts import details
from flodl.inspect.facts.details import detailed
from flodl.inspect.facts.lambdas import lambda_text
from flodl.inspect.heat import shaped_part
from flodl.visual.assemble import View, assemble


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 6)
        self.cell = nn.LSTM(6, 2, batch_first=True)
        self.register_buffer("scale", torch.ones(6))

    def forward(self, x, mask=None):
        y = torch.cat([F.relu(self.lin(x)), self.lin(x)]) * self.scale
        if mask is not None:
            y = y * mask
        out, _ = self.cell(y)
        total = out.sum().item()
        return out.transpose(1, 2) + total


def types(part):
    return {node.name: part.types.get(node.index, "") for node in part.spec.nodes}


def test_types_of_a_plain_module_are_known_for_each_step_that_needs_no_data():
    found = types(shaped_part(Plain(), torch.ones(3, 5, 4)))
    assert found["x"] == "3\u00d75\u00d74 float32"
    assert found["relu"] == "3\u00d75\u00d76 float32"
    assert found["cat"] == found["mul"] == "6\u00d75\u00d76 float32"
    assert (
        found["cell"]
        == "(6\u00d75\u00d72 float32, (1\u00d76\u00d72 float32, 1\u00d76\u00d72 float32))"
    )
    assert found["transpose"] == "6\u00d72\u00d75 float32"
    assert found["item"] == found["add"] == ""


def test_types_of_a_plain_module_called_with_another_mode_than_traced_are_unknown():
    part = shaped_part(Plain(), torch.ones(3, 5, 4), mask=torch.zeros(6))
    assert set(types(part).values()) == {""}
    # Hooks note what modules return, in whatever mode.
    assert set(part.shapes.values()) == {"3\u00d75\u00d76"}


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x):
        return self.part(x).sum() + self.part(x[:1]).sum()


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        return self.lin(x).tanh()


def test_types_of_a_part_that_is_called_with_several_shapes_are_unknown():
    part = shaped_part(Twice(), torch.ones(3, 4))
    assert set(types(part.inner["part"]).values()) == {""}
    assert types(part)["sum_1"] == types(part)["sum_2"] == "scalar float32"


def test_shaped_part_of_a_plain_module_computes_each_layer_once():
    model, calls = Plain(), []
    model.lin.register_forward_hook(lambda *_: calls.append(1))
    shaped_part(model, torch.ones(3, 5, 4))
    reference = len(calls)
    calls.clear()
    for _ in range(2):
        model(torch.ones(3, 5, 4))
    assert reference == len(calls)


class Described(FlowModule):
    """Adds a learned offset.

    More about it.
    """

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.offset = nn.Parameter(torch.zeros(8, 1, 1), requires_grad=False)
        self.fill = nn.Parameter(torch.full((1,), 2.5))

    def flow(self, x: Flow) -> Flow:
        return F.relu(x.through(self.conv) + self.offset).flatten(1) * self.fill


def test_details_tell_class_purpose_documentation_and_hidden_defaults():
    model = Described()
    model(torch.ones(1, 3, 8, 8))
    told = detailed(model, part_of(model)).details
    conv = dict(told["conv"])
    assert conv["class"] == "torch.nn.Conv2d"
    assert conv["about"].startswith("Applies a 2D convolution")
    assert (
        conv["documentation"]
        == "https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html"
    )
    assert {"groups=1", "padding_mode='zeros'"} <= set(conv["other settings"].split(", "))
    assert "kernel_size" not in conv["other settings"]  # the settings have it
    own = dict(told[""])
    assert own["about"] == "Adds a learned offset."
    assert own["parameters"] == "233, 225 of them trained"
    assert own["bytes"] == f"{233 * 4}"
    assert "documentation" not in own
    assert dict(told["function F.relu"])["documentation"].endswith("torch.nn.functional.relu.html")
    assert dict(told["method flatten"])["documentation"].endswith("torch.Tensor.flatten.html")
    assert dict(told["operator add"])["documentation"].endswith("/torch.add.html")


def test_tensors_tell_type_range_mean_and_first_values():
    model = Described()
    with torch.no_grad():
        model.conv.bias.copy_(torch.arange(8.0))
    model(torch.ones(1, 3, 8, 8))
    tensors = detailed(model, part_of(model)).tensors
    assert dict(tensors["conv"])["bias"] == (
        "8 float32; 0 to 7, mean 3.5, deviation 2.29; 0, 1, 2, 3, 4, 5, 6, 7"
    )
    first = dict(tensors["conv"])["weight"].rpartition("; ")[2].split(", ")
    assert (len(first), first[-1]) == (9, "\u2026")
    assert dict(tensors[""])["offset"].startswith("8\u00d71\u00d71 float32 frozen; 0 to 0")
    assert dict(tensors[""])["fill"] == "1 float32; 2.5"


def test_tensors_that_lie_otherwise_in_memory_tell_their_strides():
    model = nn.Linear(3, 2, bias=False)
    model.weight = nn.Parameter(torch.arange(6.0).reshape(3, 2).t())
    whole = nn.Sequential(model)
    assert dict(detailed(whole, part_of(whole)).tensors["0"])["weight"] == (
        "2\u00d73 float32; strides (1, 2); 0 to 5, mean 2.5, deviation 1.71; 0, 2, 4, 1, 3, 5"
    )


def test_tensors_without_data_or_shape_tell_what_is_known():
    model = nn.Sequential(nn.LazyLinear(3), nn.Linear(2, 2, device="meta"), nn.BatchNorm1d(2))
    tensors = detailed(model, part_of(model)).tensors
    assert dict(tensors["0"])["weight"] == "of unknown shape"
    assert dict(tensors["1"])["weight"] == "2\u00d72 float32"
    assert dict(tensors["2"])["num_batches_tracked"] == "scalar int64 buffer; 0"


def test_tensors_are_read_once_and_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(details, "_MOST_READ_TOGETHER", 40)
    shared = nn.Linear(4, 4)  # 20 elements
    model = nn.Sequential(nn.Sequential(shared, shared), nn.Linear(4, 4), nn.Linear(4, 4))
    part = detailed(model, part_of(model))
    told = {path: ";" in dict(own)["weight"] for path, own in part.tensors.items() if own}
    assert told == {"0.0": True, "0.1": True, "1": True, "2": False}
    assert part.inner["0"].tensors["0"] == part.tensors["0.0"]


def test_details_leave_the_model_and_its_random_numbers_alone():
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    state = torch.get_rng_state()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    detailed(model, shaped_part(model, torch.ones(2, 4)))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert not model._forward_pre_hooks
    assert not model[0]._forward_hooks


def test_lambda_text_tells_lambdas_of_one_line_apart():
    one, two = (lambda x: x + 1), (lambda x: (x * 2, lambda y: y * x))
    assert lambda_text(one) == "lambda x: x + 1"
    assert lambda_text(two) == "lambda x: (x * 2, lambda y: y * x)"
    assert lambda_text(two(1)[1]) == "lambda y: y * x"


def test_lambda_text_without_a_file_is_empty():
    assert lambda_text(eval("lambda x: x + 1")) == ""


def everything(scene):
    for box in scene.boxes:
        yield box
        if box.inner is not None:
            yield from everything(box.inner)


def test_picture_names_a_lambda_by_its_source():
    graph = (
        FlowBuilder.from_(nn.Linear(3, 3))
        .through(lambda t: t.relu() * 2)
        .switch(lambda x: 0, lambda t: t - 1, nn.Tanh())
        .build()
    )
    boxes = [*everything(assemble(part_of(graph), View()))]
    by_title = {box.title: box for box in boxes}
    step = by_title["lambda t: t.relu() * 2"]
    assert step.role == "operation"
    assert step.note.splitlines()[0] == "function_1 = (lambda t: t.relu() * 2)(linear_1)"
    assert by_title["switch"].lines == ("lambda t: t - 1, Tanh", "by lambda x: 0")
    assert {"lambda x: 0", "lambda t: t - 1"} <= by_title.keys()
    branch = by_title["lambda t: t - 1"].note
    assert branch.startswith("function_2 = (lambda t: t - 1)(x)\nbranch 1 of 2")


def test_roles_tell_pools_dropout_and_changes_of_shape_from_layers():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.Dropout2d(0.1), nn.Flatten(), nn.BatchNorm1d(4)
    )
    roles = {box.title: box.role for box in assemble(part_of(model), View()).boxes}
    assert roles == {
        "input": "input", "Conv2d": "layer", "MaxPool2d": "pool", "Dropout2d": "dropout",
        "Flatten": "shape", "BatchNorm1d": "norm", "output": "output",
    }  # fmt: skip
